/* exec_notify: the filter with which a command's processes ask before every start of a program.
 *
 * Once a process has the filter, each execve and execveat of that process and of all that descend from it waits until the holder of
 * the listener has answered. The filter cannot be taken away. When every copy of the listener is closed, these calls fail with ENOSYS.
 * The calls of other architectures that this kernel also runs (32-bit programs, x32) fail with EACCES: the arguments lie elsewhere
 * there.
 *
 * One execve need not ask: the one that carries the cookie, in three arguments that the kernel does not read. With it the process
 * that installs the filter starts the command's first program, about which the server has decided before. Who knows the cookie
 * can start programs unasked, so it is made afresh for each start, and nobody keeps it: execve replaces the memory that holds it.
 *
 * Raw system calls only: the caller may share its memory with another process.
 */
#pragma once

#include "base/compat.h"

#define EXEC_COOKIE_WORDS 3 /* of 64 bits each; in the arguments 3, 4 and 5 of execve */

struct exec_cookie {
        uint64_t words[EXEC_COOKIE_WORDS];
};

/* Fills the cookie with random bits. Returns 0 or -errno. */
NODISCARD int exec_cookie_make(struct exec_cookie *ret);
/* Overwrites a cookie that nobody needs any more. */
void exec_cookie_wipe(struct exec_cookie *cookie);

/* Sets no_new_privs and installs the filter for the calling process. Returns the listener, a close-on-exec descriptor that has to
 * reach the one who answers before the process executes a program; or -errno: EINVAL when the kernel is older than Linux 5.19,
 * EBUSY when a filter with a listener is in force already. */
NODISCARD int exec_notify_install(const struct exec_cookie *cookie);
/* Executes a program unasked. Returns -errno when that fails. */
NODISCARD long exec_notify_exec(const char *path, char *const *argv, char *const *env,
                                const struct exec_cookie *cookie);
