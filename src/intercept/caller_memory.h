/* caller_memory: reads strings from the memory of another process, which may change while it is read. */
#pragma once

#include "base/buf.h"

#include <sys/types.h>

/* Appends a string with its NUL to *text. Returns 0; -ENOBUFS when it does not end before the ceiling of *text; -EFAULT when the memory is
 * not there; -EACCES when it may not be read. */
NODISCARD int caller_memory_string(pid_t thread, uint64_t at, struct buf *text);
/* Appends the strings of an array that ends in NULL, each with its NUL; `at` 0 is an empty array. Returns their number; -E2BIG when strings
 * and pointers are more than `max` bytes; -EFAULT or -EACCES. */
NODISCARD ssize_t caller_memory_strings(pid_t thread, uint64_t at, size_t max, struct buf *text);
