/* verify: checks from inside whether a view matches its plan, before the command exists.
 *
 * Only views that bwrap has built are checked so (sandbox/bwrap.h), because bwrap works by path and from arguments. The code makes
 * raw system calls only and uses no data but the image, as sandbox/enter.h says.
 */
#pragma once

#include "sandbox/enter.h"

/* The namespaces of a process, by inode. */
enum verify_space { SPACE_USER, SPACE_MOUNT, SPACE_PID, SPACE_IPC, SPACE_NET, SPACES };
struct verify_spaces {
        uint64_t inodes[SPACES];
};
NODISCARD int verify_spaces_get(struct verify_spaces *ret);
/* Checks that the caller is in new namespaces. Returns 0 or -errno; -EPROTO: it shares one with `outside` where the image wants a
 * new one. */
NODISCARD int verify_spaces_new(const struct image *i, const struct verify_spaces *outside);

/* Called outside of the sandbox, before bwrap runs: are all files still those that the plan saw? Records their birth times
 * for the guard. */
NODISCARD int verify_sources(const struct image *i, struct enter_failure *ret);

/* Called inside of the sandbox: are there new namespaces where the image wants them, is every operation done, on the file
 * that the plan saw, and is nothing else mounted? `outside` holds the namespaces of the process that started bwrap. `io` and
 * *ret_ruleset are as in enter_view. */
NODISCARD int verify_view(const struct image *i, const struct verify_spaces *outside, struct enter_stdio *io,
                          int *ret_ruleset, struct enter_failure *ret);
