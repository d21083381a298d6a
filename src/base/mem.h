/* mem: allocation that does not fail, and the cleanup attributes for plain memory.
 *
 * A request can ask for at most the stated limits, so running out of memory means that the machine is gone: the
 * program says so and aborts. Half-handled ENOMEM paths would be code that nobody ever ran. (The client library
 * has its own, failing, wrappers.)
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

NODISCARD void *mem_alloc(size_t n);  /* uninitialised */
NODISCARD void *mem_zalloc(size_t n); /* zeroed */
NODISCARD void *mem_realloc(void *p, size_t n);
NODISCARD char *mem_strdup(const char *s); /* NULL gives NULL */
NODISCARD char *mem_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);

#define mem_new(type) ((type *)mem_zalloc(sizeof(type)))

static inline void mem_freep(void *p)
{
        free(*(void **)p);
}
#define _free_ CLEANUP(mem_freep)

/* Ownership leaves: the cleanup attribute sees NULL. */
#define TAKE(ptr)                          \
        ({                                 \
                typeof(ptr) take_ = (ptr); \
                (ptr) = NULL;              \
                take_;                     \
        })

/* A bug, not a surprise from outside: kept in release builds where security depends on it. */
#define must(cond) ((cond) ? (void)0 : must_failed(#cond, __FILE__, __LINE__))
NORETURN void must_failed(const char *cond, const char *file, int line);
