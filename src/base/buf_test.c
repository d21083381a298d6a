/* buf_test: growth up to the ceiling, and the padding behind the bytes. */
#include "base/buf.h"

#include "base/mem.h"
#include "unit.h"

#include <errno.h>

TEST(empty_buf_is_an_empty_string_without_memory)
{
        _buf_ struct buf b = BUF_INIT(10);

        eq_str(b.p, "");
        eq_u64(b.allocated, 0);
        buf_commit(&b, 0);
        buf_truncate(&b, 0);
        buf_consume(&b, 0);
        eq_int(buf_append(&b, (struct slice){ 0 }), 0);
        ok(b.p == buf_empty);
}

TEST(appended_bytes_may_hold_nuls_and_end_in_one)
{
        _buf_ struct buf b = BUF_INIT(100);

        eq_int(buf_append(&b, S("a\0b")), 0);
        eq_int(buf_append_char(&b, '!'), 0);
        eq_slice(buf_slice(&b), S("a\0b!"));
        eq_int(b.p[b.n], 0);
}

TEST(ceiling_is_reached_exactly_and_never_passed)
{
        _buf_ struct buf b = BUF_INIT(5);
        char *room;

        eq_int(buf_append(&b, S("abcde")), 0);
        eq_u64(b.allocated, 5);
        eq_int(buf_append_char(&b, 'f'), -ENOBUFS);
        eq_int(buf_append(&b, S("fg")), -ENOBUFS);
        eq_int(buf_printf(&b, "%d", 1), -ENOBUFS);
        eq_int(buf_reserve(&b, SIZE_MAX, &room), -ENOBUFS);
        eq_int(buf_reserve(&b, 1, &room), -ENOBUFS);
        eq_int(buf_reserve(&b, 0, &room), 0);
        eq_slice(buf_slice(&b), S("abcde"));
        eq_int(b.p[5], 0);
}

TEST(ceiling_of_zero_holds_nothing)
{
        _buf_ struct buf b = BUF_INIT(0);

        eq_int(buf_append(&b, S("")), 0);
        eq_int(buf_append_char(&b, 'a'), -ENOBUFS);
        eq_int(buf_printf(&b, "%s", ""), 0);
        eq_str(b.p, "");
}

TEST(growth_is_geometric)
{
        _buf_ struct buf b = BUF_INIT((size_t)1 << 20);
        size_t growths = 0, before = 0;

        for (size_t i = 0; i < (size_t)1 << 20; i++) {
                eq_int(buf_append_char(&b, (char)('a' + i % 26)), 0);
                growths += b.allocated != before;
                before = b.allocated;
        }
        ok(growths <= 16);
        eq_u64(b.allocated, (size_t)1 << 20);
        for (size_t i = 0; i < b.n; i++)
                if (b.p[i] != (char)('a' + i % 26))
                        fail_msg("byte %zu changed while growing", i);
}

TEST(padding_behind_the_end_is_readable)
{
        char copy[BUF_PADDING];

        for (size_t n = 0; n < 200; n++) {
                _buf_ struct buf b = BUF_INIT(200);
                char *room;

                eq_int(buf_reserve(&b, n, &room), 0);
                memset(room, 'x', n);
                buf_commit(&b, n);
                memcpy(copy, b.p + b.n + 1, sizeof(copy)); /* sanitizers report a read behind the padding */
                eq_int(b.p[b.n], 0);
        }
}

TEST(reserved_bytes_count_only_after_commit)
{
        _buf_ struct buf b = BUF_INIT(100);
        char *room;

        eq_int(buf_append(&b, S("ab")), 0);
        eq_int(buf_reserve(&b, 50, &room), 0);
        ok(room == b.p + 2);
        ok(b.allocated - b.n >= 50);
        memcpy(room, "cdef", 4);
        eq_u64(b.n, 2);
        buf_commit(&b, 3);
        eq_slice(buf_slice(&b), S("abcde"));
        eq_int(b.p[5], 0);
}

TEST(formatted_text_grows_the_buf_and_fits_its_ceiling_exactly)
{
        _buf_ struct buf b = BUF_INIT(300);
        char long_text[301];

        memset(long_text, 'y', 300);
        long_text[300] = '\0';
        eq_int(buf_printf(&b, "%d-%s", 42, "x"), 0);
        eq_slice(buf_slice(&b), S("42-x"));
        eq_int(buf_printf(&b, "%s", long_text), -ENOBUFS);
        eq_str(b.p, "42-x");
        eq_int(buf_printf(&b, "%s", long_text + 4), 0);
        eq_u64(b.n, 300);
        eq_u64(strlen(b.p), 300);
}

TEST(consumed_bytes_go_from_the_front)
{
        _buf_ struct buf b = BUF_INIT(100);

        eq_int(buf_append(&b, S("abcdef")), 0);
        buf_consume(&b, 2);
        eq_slice(buf_slice(&b), S("cdef"));
        eq_int(b.p[4], 0);
        buf_consume(&b, 4);
        eq_str(b.p, "");
}

TEST(truncated_bytes_go_from_the_end)
{
        _buf_ struct buf b = BUF_INIT(100);

        eq_int(buf_append(&b, S("abcdef")), 0);
        buf_truncate(&b, 2);
        eq_str(b.p, "ab");
}

TEST(taken_bytes_leave_an_empty_buf_with_the_same_ceiling)
{
        _buf_ struct buf b = BUF_INIT(3);

        _free_ char *nothing = buf_take(&b);
        eq_str(nothing, "");
        eq_int(buf_append(&b, S("abc")), 0);
        _free_ char *taken = buf_take(&b);
        eq_str(taken, "abc");
        ok(b.p == buf_empty);
        eq_u64(b.cap, 3);
        eq_int(buf_append(&b, S("abc")), 0);
}

TEST(released_buf_may_be_used_again)
{
        struct buf b;

        buf_init(&b, 8);
        eq_int(buf_append(&b, S("abc")), 0);
        buf_release(&b);
        eq_str(b.p, "");
        eq_u64(b.cap, 8);
        eq_int(buf_append(&b, S("def")), 0);
        buf_release(&b);
        buf_release(&b);
}
