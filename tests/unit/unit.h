/* unit: cmocka with tests that register themselves.
 *
 * TEST(name_of_the_behaviour) { … } is all that a test needs: every x_test.c of a folder is linked into one binary
 * with unit_main.c, which runs what was registered. eq_* print both sides on failure.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/slice.h"

void unit_register(const char *name, void (*fn)(void **state));

/* Does this process run in valgrind, which does not know every system call? */
NODISCARD bool unit_is_valgrind(void);

#define skip_in_valgrind(why)                                         \
        do {                                                          \
                if (unit_is_valgrind()) {                             \
                        print_message("skipped: valgrind " why "\n"); \
                        skip();                                       \
                }                                                     \
        } while (0)

#define TEST(name)                                                     \
        static void name(void **state);                                \
        __attribute__((constructor)) static void name##_register(void) \
        {                                                              \
                unit_register(#name, name);                            \
        }                                                              \
        static void name(UNUSED void **state)

#define ok(cond) assert_true(cond)
#define eq_int(a, b) assert_int_equal((a), (b))
#define eq_u64(a, b) assert_int_equal((uint64_t)(a), (uint64_t)(b))
#define eq_str(a, b) assert_string_equal((a), (b))

/* Compares two slices, as bytes. */
#define eq_slice(a, b)                                            \
        do {                                                      \
                struct slice sa_ = (a), sb_ = (b);                \
                assert_int_equal(sa_.n, sb_.n);                   \
                if (sa_.n)                                        \
                        assert_memory_equal(sa_.p, sb_.p, sa_.n); \
        } while (0)
