/* mem_test: allocations and copies. */
#include "base/mem.h"

#include "unit.h"

TEST(allocating_nothing_gives_memory_of_its_own)
{
        _free_ char *a = mem_alloc(0);
        _free_ char *b = mem_zalloc(0);
        _free_ char *c = mem_realloc(NULL, 0);

        ok(a && b && c && a != b && b != c);
        c = mem_realloc(c, 0);
        ok(c != NULL);
}

TEST(zeroed_memory_is_zero)
{
        struct pair {
                uint64_t a, b;
        };
        _free_ struct pair *p = mem_new(struct pair);

        eq_u64(p->a, 0);
        eq_u64(p->b, 0);
}

TEST(duplicate_keeps_nuls_and_adds_one)
{
        _free_ char *copy = slice_dup(S("a\0b"));
        _free_ char *empty = slice_dup((struct slice){ 0 });

        assert_memory_equal(copy, "a\0b", 4);
        eq_str(empty, "");
}

TEST(text_is_copied_and_formatted)
{
        _free_ char *copy = mem_strdup("abc");
        _free_ char *text = mem_printf("%s-%d", copy, 7);

        eq_str(copy, "abc");
        eq_str(text, "abc-7");
        ok(mem_strdup(NULL) == NULL);
}

TEST(taken_pointer_is_not_freed_by_its_scope)
{
        char *kept;
        {
                _free_ char *p = mem_strdup("still here");
                kept = TAKE(p);
                ok(p == NULL);
        }
        eq_str(kept, "still here");
        free(kept);
}
