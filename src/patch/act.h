/* act: the requests that change files of the server, sent without waiting. */
#pragma once

#include "patch/content.h"
#include "patch/state.h"

/* One request or several, and how they ended. `failure` is valid after asks_wait; it belongs to the first request that failed. Begins
 * as { 0 }. */
struct act {
        bool is_done;
        const struct failure *failure; /* NULL: all requests went well */
};

/* What a write shall find in place of the file. */
enum act_match { ACT_ANY, ACT_ABSENT, ACT_SAME };

/* Writes a file as a whole. ACT_SAME: only if the file there is as `state` says. `mode` is for a new file; -1: the server's usual mode.
 * This and the next functions give files no set-user-ID and set-group-ID bits. */
void act_write(struct asks *s, struct act *act, const char *path, struct slice bytes, enum act_match match,
               const struct file_state *state, int mode);
void act_rename(struct asks *s, struct act *act, const char *from, const char *to, bool may_replace);
/* Removes a file, a link or an empty directory. With `is_forced` it is fine when nothing is there. */
void act_remove(struct asks *s, struct act *act, const char *path, bool is_forced);
/* The same for what is no link: a path in which somebody has put one is refused, where the server can do that. */
void act_remove_real(struct asks *s, struct act *act, const char *path, bool is_forced);
void act_make_directory(struct asks *s, struct act *act, const char *path);
void act_set_mode(struct asks *s, struct act *act, const char *path, uint32_t mode);
void act_link(struct asks *s, struct act *act, const char *path, const char *target);

/* Writes a content to a new file of this name, as a stream, and sets the mode of the file last. Waits for the answers. */
NODISCARD int act_stream(struct asks *s, const char *path, const struct content *c, bool has_mode,
                         uint32_t mode, const struct failure **ret_failure);
