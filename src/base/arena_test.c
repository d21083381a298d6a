/* arena_test: alignment, growth and release of allocations. */
#include "base/arena.h"

#include "base/mem.h"

#include "unit.h"

TEST(allocations_are_aligned_and_do_not_overlap)
{
        _arena_ struct arena a = ARENA_INIT;
        enum { COUNT = 600 };
        unsigned char *p[COUNT];

        for (size_t i = 0; i < COUNT; i++) {
                size_t n = i * 37 % 5000; /* also sizes that need a block of their own at first */
                p[i] = arena_alloc(&a, n);
                eq_u64((uintptr_t)p[i] % 16, 0);
                memset(p[i], (int)(i & 0xff), n);
        }
        for (size_t i = 0; i < COUNT; i++)
                for (size_t j = 0; j < i * 37 % 5000; j++)
                        if (p[i][j] != (i & 0xff))
                                fail_msg("allocation %zu was overwritten at %zu", i, j);
}

TEST(empty_allocations_have_addresses_of_their_own)
{
        _arena_ struct arena a = ARENA_INIT;

        void *p = arena_alloc(&a, 0), *q = arena_alloc(&a, 0);
        ok(p && q && p != q);
}

TEST(zeroed_allocations_are_zero)
{
        _arena_ struct arena a = ARENA_INIT;
        struct thing {
                uint64_t numbers[100];
        };

        memset(arena_alloc(&a, 2000), 0xff, 2000);
        struct thing *t = arena_new(&a, struct thing);
        for (size_t i = 0; i < ARRAY_LEN(t->numbers); i++)
                eq_u64(t->numbers[i], 0);
}

TEST(big_allocation_does_not_waste_the_current_block)
{
        _arena_ struct arena a = ARENA_INIT;

        char *before = arena_alloc(&a, 16);
        memset(arena_alloc(&a, (size_t)5 << 20), 1, (size_t)5 << 20);
        char *after = arena_alloc(&a, 16);
        ok(after == before + 16);
}

TEST(big_allocation_may_come_first)
{
        _arena_ struct arena a = ARENA_INIT;

        char *big = arena_alloc(&a, 100000);
        char *small = arena_alloc(&a, 10);
        memset(big, 1, 100000);
        memset(small, 2, 10);
        eq_int(big[99999], 1);
        eq_int(arena_printf(&a, "%s", "x")[0], 'x');
}

TEST(copies_and_formatted_texts_end_in_a_nul)
{
        _arena_ struct arena a = ARENA_INIT;

        assert_memory_equal(arena_dup(&a, S("a\0b")), "a\0b", 4);
        eq_str(arena_dup(&a, (struct slice){ 0 }), "");
        eq_str(arena_printf(&a, "%s", ""), "");
        eq_str(arena_printf(&a, "%d %s", 7, "things"), "7 things");
}

TEST(formatted_text_of_any_length_fits)
{
        char text[6001];

        memset(text, 'z', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        for (size_t n = 0; n <= 6000; n += 13) {
                _arena_ struct arena a = ARENA_INIT;

                char *first = arena_printf(&a, "%.*s", (int)n, text);
                char *second = arena_printf(&a, "%.*s", (int)n, text);
                eq_u64(strlen(first), n);
                eq_u64(strlen(second), n);
                eq_str(arena_printf(&a, "%s", "next"), "next");
                eq_u64(strlen(second), n);
        }
}

TEST(youngest_allocation_grows_in_place)
{
        _arena_ struct arena a = ARENA_INIT;

        char *p = arena_alloc(&a, 10);
        memcpy(p, "0123456789", 10);
        ok(arena_grow(&a, p, 10, 1000) == p);
        memset(p + 10, 'x', 990);
        char *next = arena_alloc(&a, 1);
        ok(next >= p + 1000);
        assert_memory_equal(p, "0123456789", 10);
}

TEST(older_allocation_is_copied_when_it_grows)
{
        _arena_ struct arena a = ARENA_INIT;

        char *p = arena_alloc(&a, 10);
        memcpy(p, "0123456789", 10);
        char *other = arena_dup(&a, S("other"));
        char *q = arena_grow(&a, p, 10, 100);
        ok(q != p);
        memset(q + 10, 'x', 90);
        assert_memory_equal(q, "0123456789", 10);
        eq_str(other, "other");
}

TEST(growing_over_all_block_sizes_keeps_the_bytes)
{
        _arena_ struct arena a = ARENA_INIT;
        size_t n = 1;

        unsigned char *p = arena_grow(&a, NULL, 0, n);
        p[0] = 0;
        while (n < (size_t)3 << 20) {
                p = arena_grow(&a, p, n, n * 2);
                for (size_t i = n; i < n * 2; i++)
                        p[i] = (unsigned char)(i % 251);
                n *= 2;
        }
        for (size_t i = 0; i < n; i++)
                if (p[i] != i % 251)
                        fail_msg("byte %zu was lost", i);
}

TEST(growing_to_less_gives_the_same_address)
{
        _arena_ struct arena a = ARENA_INIT;

        char *p = arena_alloc(&a, 100);
        ok(arena_grow(&a, p, 100, 10) == p);
        ok(arena_grow(&a, p, 100, 100) == p);
}

TEST(released_arena_may_be_used_again)
{
        struct arena a = ARENA_INIT;

        arena_release(&a);
        ok(arena_alloc(&a, 10000) != NULL);
        arena_release(&a);
        ok(a.blocks == NULL && a.next == NULL);
        eq_str(arena_dup(&a, S("again")), "again");
        arena_release(&a);
}

TEST(the_bytes_of_all_blocks_are_known)
{
        _arena_ struct arena a = ARENA_INIT;
        eq_u64(a.bytes, 0);
        ok(arena_alloc(&a, 100));
        size_t before = a.bytes;
        ok(before >= 100);
        ok(arena_alloc(&a, 5000000)); /* a block of its own */
        ok(a.bytes >= before + 5000000);
        arena_release(&a);
        eq_u64(a.bytes, 0);
}

/* The sizes lie around a page and around a step of mem_free_slowly. Every byte is written before it is freed, so that its page
 * exists. */
TEST(large_blocks_are_released_slowly)
{
        static const size_t sizes[] = { 1, 4095, 4097, 1 << 20, (1 << 20) + 5000, 9 << 20 };
        struct arena a = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                char *p = arena_alloc(&a, sizes[i]);
                memset(p, 0x5a, sizes[i]);
        }
        arena_release_slowly(&a);
        eq_u64(a.bytes, 0);
        ok(!a.blocks);
        mem_free_slowly(NULL);
        char *again = arena_alloc(&a, 9 << 20);
        memset(again, 0x5a, 9 << 20);
        arena_release(&a);
}

TEST(an_array_gets_room_for_one_more_item_and_keeps_its_items)
{
        _arena_ struct arena a = ARENA_INIT;
        size_t room = 0;
        uint32_t *list = NULL;
        for (uint32_t i = 0; i < 1000; i++) {
                list = arena_room(&a, list, i, &room, sizeof(*list));
                ok(room > i);
                list[i] = i;
        }
        for (uint32_t i = 0; i < 1000; i++)
                eq_u64(list[i], i);
        ok(arena_room(&a, list, 1000, &room, sizeof(*list)) == list);
}
