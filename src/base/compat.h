/* compat: what C23 will give us, for the compilers of today (gcc 12, clang 14).
 *
 * Nothing here knows the product. When the oldest supported compiler speaks C23 this file goes away.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define FALLTHROUGH __attribute__((fallthrough))
#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define UNUSED __attribute__((unused))
/* For code on a stack that is not the thread's: before a call that does not return ASan looks at the whole stack, does not
 * know this one, and complains, into a file that may not be there to be written. */
#define NO_ASAN __attribute__((no_sanitize("address")))

/* Overflow-checked arithmetic: true when the result did not fit. Lengths from the wire are never added bare. */
#define ckd_add(ret, a, b) __builtin_add_overflow((a), (b), (ret))
#define ckd_mul(ret, a, b) __builtin_mul_overflow((a), (b), (ret))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* The object that holds `member` at `ptr`. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
