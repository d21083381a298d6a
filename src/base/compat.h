/* compat: what C23 will give us, for the compilers of today (gcc 12, clang 14).
 *
 * Nothing here is specific to Farhand. The file can go when the oldest supported compiler has C23.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define UNUSED __attribute__((unused))
/* Marks functions that run on a stack that we have mapped. Before a call that does not return, ASan looks at the whole stack. ASan
 * does not know such a stack, and would write a warning to its log, which may not be writable there. */
#define NO_ASAN __attribute__((no_sanitize("address")))

#if defined(__SANITIZE_ADDRESS__)
#define IS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_ASAN 1
#endif
#endif
#ifndef IS_ASAN
#define IS_ASAN 0
#endif

/* Arithmetic that returns true when the result does not fit. Lengths from the wire are added with ckd_add only. */
#define ckd_add(ret, a, b) __builtin_add_overflow((a), (b), (ret))
#define ckd_mul(ret, a, b) __builtin_mul_overflow((a), (b), (ret))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Returns the struct `type` whose `member` is at `ptr`. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
