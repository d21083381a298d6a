/* placeholder: makes and removes placeholders: empty files and directories that exist while a command runs, so that a mask
 * can be mounted on them and nothing of their name can be created.
 *
 * The keeper of a command makes a placeholder just before the start and removes it when all processes of the command are
 * gone. The spawner removes it when the keeper was killed. Commands that need the same placeholder share it: each is counted
 * as a user (sandbox/placeholder_lock.h) from before the placeholder exists until the command ends, and the last one removes
 * it. That also works between servers, and between servers of different users in directories that both can write. There the
 * last command may not be allowed to remove the placeholder; then the server that made it does so later.
 *
 * A placeholder differs from files of users from the moment it is made (placeholder_mark.h). A file or directory that was
 * written to, filled or replaced is no placeholder any more and stays. Only raw system calls are made, because keepers
 * call this code.
 */
#pragma once

#include "sandbox/enter.h"

/* Makes all placeholders of the image. Returns 0, and a process that waits for them in enter_view (image::placeholders_due)
 * continues; or -errno with *ret: then no placeholder is left, and that process keeps waiting. */
NODISCARD int placeholders_make(struct image *i, struct enter_failure *ret);
/* Removes the placeholders of the image; the state of each tells the result. `has_fds`: the caller has made them. Then a
 * removed placeholder loses its name but stays open until placeholders_forget or the end of the process: freeing an inode
 * takes most file systems ten times as long as removing its name, and no client should wait for that. */
void placeholders_remove(struct image *i, bool has_fds);
void placeholders_forget(struct image *i);

/* Is any placeholder of the image in this state? PLACEHOLDER_USED after placeholders_remove: one was not removed. */
NODISCARD bool placeholders_have(const struct image *i, enum placeholder_state state);
NODISCARD const struct image_placeholder *placeholders_at(const struct image *i, size_t n);

/* Removes a placeholder that no command uses. Returns PLACEHOLDER_GONE, PLACEHOLDER_OTHERS or PLACEHOLDER_STUCK. */
NODISCARD enum placeholder_state placeholder_sweep(const struct placeholder_locks *locks, const char *path);
