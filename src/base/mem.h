/* mem: allocation that does not fail, and the cleanup attributes for plain memory.
 *
 * What requests can ask for is bounded, so running out of memory means that the machine itself has none left: the program
 * ends by fatal(). Code that handled ENOMEM would hardly ever run.
 */
#pragma once

#include "base/compat.h"
#include "base/fatal.h"
#include "base/slice.h"

NODISCARD void *mem_alloc(size_t n);  /* uninitialised */
NODISCARD void *mem_zalloc(size_t n); /* zeroed */
NODISCARD void *mem_realloc(void *p, size_t n);
NODISCARD char *mem_strdup(const char *s); /* NULL gives NULL */
NODISCARD char *slice_dup(struct slice s); /* with a NUL behind it */
NODISCARD char *mem_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);

#define mem_new(type) ((type *)mem_zalloc(sizeof(type)))

static inline void mem_freep(void *p)
{
        free(*(void **)p);
}
#define _free_ CLEANUP(mem_freep)

/* Returns the pointer, which the caller now owns; the variable becomes NULL, so that its cleanup attribute frees nothing. */
#define TAKE(ptr)                          \
        ({                                 \
                typeof(ptr) take_ = (ptr); \
                (ptr) = NULL;              \
                take_;                     \
        })

/* Frees a large allocation in steps, on a thread that may take its time. A plain free returns all pages in one system call, which
 * holds a lock that every other thread of the process needs to get memory. */
void mem_free_slowly(void *p);
