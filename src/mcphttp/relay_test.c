/* relay_test: lines that are written and read again, and what is no line. */
#include "mcphttp/relay.h"
#include "unit.h"

TEST(what_is_written_is_read)
{
        static const enum relay_kind kinds[] = { RELAY_TO, RELAY_MORE, RELAY_LAST, RELAY_REFUSED };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                _buf_ struct buf out = BUF_INIT(1024);
                uint64_t route;
                enum relay_kind kind;
                struct slice text;
                eq_int(relay_write(&out, UINT64_MAX - i, kinds[i], S("{\"a\":\n\r[1]}")), 0);
                ok(out.p[out.n - 1] == '\n' && !memchr(out.p, '\n', out.n - 1));
                ok(relay_read(slice_from(out.p, out.n - 1), &route, &kind, &text));
                ok(route == UINT64_MAX - i && kind == kinds[i]);
                ok(slice_eq(text, S("{\"a\":\t\t[1]}")));
        }
}

TEST(the_route_has_room)
{
        _buf_ struct buf out = BUF_INIT(1024);
        eq_int(relay_write(&out, UINT64_MAX, RELAY_TO, S("")), 0);
        eq_int((int)out.n, RELAY_ROUTE_BYTES);
}

TEST(what_is_no_line_is_refused)
{
        static const char *const bad[] = { "",
                                           "1",
                                           "+{}",
                                           "x+{}",
                                           "-1+{}",
                                           "1x{}",
                                           "18446744073709551616+{}",
                                           "123456789012345678901+{}",
                                           " 1+{}" };
        uint64_t route;
        enum relay_kind kind;
        struct slice text;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                ok(!relay_read(slice_from_str(bad[i]), &route, &kind, &text));
        ok(relay_read(S("7."), &route, &kind, &text) && text.n == 0 && kind == RELAY_LAST);
}
