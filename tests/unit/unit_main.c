/* unit_main: runs the tests that the x_test.c files of one folder registered, but those that the pattern in UNIT_SKIP names. */
#include "unit.h"

#include <stdio.h>

#define TESTS_MAX 1024

static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;

void unit_register(const char *name, void (*fn)(void **state))
{
        assert(test_count < TESTS_MAX);
        tests[test_count++] = (struct CMUnitTest){ .name = name, .test_func = fn };
}

bool unit_is_valgrind(void)
{
        const char *preload = getenv("LD_PRELOAD");
        return preload && strstr(preload, "vgpreload");
}

int main(void)
{
        cmocka_set_skip_filter(getenv("UNIT_SKIP"));
        return _cmocka_run_group_tests(UNIT_GROUP, tests, test_count, NULL, NULL);
}
