/* verify: looks, from inside, whether a view is what a plan says, before there is a command in it.
 *
 * For views that somebody else has built (sandbox/bwrap.h), by name and from our words. Raw system calls and nothing but
 * the image, as sandbox/enter.h.
 */
#pragma once

#include "sandbox/enter.h"

/* The knobs of the machine: read-only in every view. Paths without their leading slash; NULL at the end. */
extern const char *const verify_knobs[];

/* The namespaces that a process is in, by inode. */
enum verify_space { SPACE_USER, SPACE_MOUNT, SPACE_PID, SPACE_IPC, SPACE_NET, SPACES };
struct verify_spaces {
        uint64_t inodes[SPACES];
};
NODISCARD int verify_spaces_get(struct verify_spaces *ret);

/* Outside, before anything is built: is everything still what the plan saw? Notes when it was made, for who guards it. */
NODISCARD int verify_sources(const struct image *i, struct enter_failure *ret);

/* Inside: new namespaces where the image wants them, and every operation done, to the thing that the plan saw.
 * `outside`: of who has started it. *ret_ruleset as enter_view has it; `tty` -1: none. */
NODISCARD int verify_view(const struct image *i, const struct verify_spaces *outside, int tty,
                          int *ret_ruleset, struct enter_failure *ret);
