/* fatal: ends a program that cannot go on: fatal() when the system refuses something, must() for a bug of ours.
 *
 * fatal() writes one line to stderr that says what was refused, removes the file that fatal_removes() has named, and exits with
 * status 1. It needs no memory, and every thread may call it. Processes that depend on this one notice its end as they would
 * notice SIGKILL. must() leaves a core instead.
 */
#pragma once

#include "base/compat.h"

#include <sys/types.h>

/* Writes "fatal: WHAT: TEXT OF THE ERRNO"; without the text when os_errno is 0. */
NORETURN void fatal(const char *what, int os_errno);

/* Names the file that fatal() removes, if it still has this device and inode. The memory of `path` must stay valid until the
 * next call; NULL: no file. Processes that are forked later do not remove the file. */
void fatal_removes(const char *path, dev_t dev, ino_t ino);

/* Aborts the program when `cond` is false: a bug, never a surprise from outside. Release builds keep it. */
#define must(cond) ((cond) ? (void)0 : must_failed(#cond, __FILE__, __LINE__))
NORETURN void must_failed(const char *cond, const char *file, int line);
