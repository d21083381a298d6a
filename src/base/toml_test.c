/* toml_test: which texts are read, which are refused, and with which message. */
#include "base/toml.h"

#include "base/buf.h"
#include "base/mem.h"

#include "unit.h"

#include <errno.h>
#include <math.h>

static void show(struct buf *b, const struct toml *t)
{
        int r = 0;

        switch (t->type) {
        case TOML_STRING:
                r = buf_printf(b, "'%.*s'", SLICE(t->string));
                break;
        case TOML_INTEGER:
                r = buf_printf(b, "%lld", (long long)t->integer);
                break;
        case TOML_FLOAT:
                r = buf_printf(b, "%.17gf", t->real);
                break;
        case TOML_BOOL:
                r = buf_printf(b, "%s", t->boolean ? "true" : "false");
                break;
        case TOML_ARRAY:
        case TOML_TABLE:
                r = buf_append_char(b, t->type == TOML_ARRAY ? '[' : '{');
                for (const struct toml *m = t->first; m && r >= 0; m = m->next) {
                        if (t->type == TOML_TABLE)
                                r = buf_printf(b, "%.*s=", SLICE(m->key));
                        show(b, m);
                        if (m->next && r >= 0)
                                r = buf_append_char(b, ' ');
                }
                r = buf_append_char(b, t->type == TOML_ARRAY ? ']' : '}');
                break;
        }
        ok(r >= 0);
}

/* Checks that the text, parsed and shown as one line {key='value' …}, is `expected`. The text is parsed from a heap block of its
 * exact size. */
static void reads_as(struct slice text, const char *expected)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf b = BUF_INIT(1 << 16);
        _free_ char *copy = mem_alloc(text.n + (text.n == 0));
        struct err err = ERR_INIT;

        memcpy(copy, text.p, text.n);
        struct toml *root = toml_parse(&a, slice_from(copy, text.n), &err);
        if (!root)
                fail_msg("%s: in '%.*s'", err.text, SLICE(text));
        show(&b, root);
        eq_str(b.p, expected);
}

static void is_refused(struct slice text, const char *expected)
{
        _arena_ struct arena a = ARENA_INIT;
        _free_ char *copy = mem_alloc(text.n + (text.n == 0));
        struct err err = ERR_INIT;

        memcpy(copy, text.p, text.n);
        if (toml_parse(&a, slice_from(copy, text.n), &err))
                fail_msg("accepted: %.*s", SLICE(text));
        eq_str(err.text, expected);
        eq_int(err.code, -EINVAL);
}

TEST(toml_empty_files)
{
        reads_as(S(""), "{}");
        reads_as(S("\n\r\n  \t\n"), "{}");
        reads_as(S("# only a comment \xc3\xa4\t"), "{}");
}

TEST(toml_pairs_comments_and_line_ends)
{
        reads_as(S("a = 1\r\nb=2 # two\n\n  c\t=\t3"), "{a=1 b=2 c=3}");
        reads_as(S("A-b_9 = true\n1234 = false"), "{A-b_9=true 1234=false}");
        reads_as(S("\"a b\" = 1\n'c\\' = 2\n\"\" = 3\n\"\\u00e4\" = 4"), "{a b=1 c\\=2 =3 \xc3\xa4=4}");
}

TEST(toml_strings_of_four_kinds)
{
        reads_as(S("a = \"x\\b\\t\\n\\f\\r\\\"\\\\\\u20ac\\U0001F600\""),
                 "{a='x\b\t\n\f\r\"\\\xe2\x82\xac\xf0\x9f\x98\x80'}");
        reads_as(S("a = 'c:\\new\\\"'"), "{a='c:\\new\\\"'}");
        reads_as(S("a = \"\"\nb = ''\nc = \"\"\"\"\"\"\nd = ''''''"), "{a='' b='' c='' d=''}");
        reads_as(S("a = \"\"\"\none\r\ntwo\"\"\""), "{a='one\ntwo'}");
        reads_as(S("a = \"\"\"x \\\n   \n\t y\\  \r\n z\"\"\""), "{a='x y"
                                                                 "z'}");
        reads_as(S("a = '''\nno \\escape\n'''"), "{a='no \\escape\n'}");
        reads_as(S("a = \"\"\"\"\"x\"\"\"\"\""), "{a='\"\"x\"\"'}");
        reads_as(S("a = ''''x'''' # one quote each"), "{a=''x''}");
        reads_as(S("a = \"\"\"\\\"\"\"\"\"\""), "{a='\"\"\"'}");
}

TEST(toml_integers_of_four_bases)
{
        reads_as(S("a = [0, +0, -0, 12, -17, +99, 1_000, 1_2_3]"), "{a=[0 0 0 12 -17 99 1000 123]}");
        reads_as(S("a = [0xDEAD_beef, 0o755, 0b1101, 0x00, 0x0f]"), "{a=[3735928559 493 13 0 15]}");
        reads_as(S("a = [9223372036854775807, -9223372036854775808, 0x7fffffffffffffff]"),
                 "{a=[9223372036854775807 -9223372036854775808 9223372036854775807]}");
}

TEST(toml_integers_that_overflow_are_refused)
{
        is_refused(S("a = 9223372036854775808"), "line 1, column 5: the integer does not fit into 64 bits");
        is_refused(S("a = -9223372036854775809"), "line 1, column 5: the integer does not fit into 64 bits");
        is_refused(S("a = 0x8000000000000000"), "line 1, column 5: the integer does not fit into 64 bits");
        is_refused(S("a = 99999999999999999999999999"),
                   "line 1, column 5: the integer does not fit into 64 bits");
        is_refused(S("a = 0x10000000000000000"), "line 1, column 5: the integer does not fit into 64 bits");
}

TEST(toml_floats)
{
        reads_as(S("a = [1.0, +3.25, -0.5, 5e+22, 1e06, -2E-2, 6.5e3, 1_0.2_5]"),
                 "{a=[1f 3.25f -0.5f 4.9999999999999996e+22f 1000000f -0.02f 6500f 10.25f]}");
        reads_as(S("a = [inf, -inf, +inf]"), "{a=[inff -inff inff]}");

        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const struct toml *root = toml_parse(&a, S("a = nan"), &err);
        ok(root && isnan(root->first->real));
        is_refused(S("a = 1e999"), "line 1, column 5: the number is too large");
}

TEST(toml_malformed_numbers)
{
        static const char *const bad[] = {
                "01",   "-01",  "1_", "_1",   "1__2", "0x",  "0x_1", "0xg",  "-0x1", "0b2",   "0o8",
                "0X1",  "1.",   ".1", "1.e1", "1e",   "1e+", "1._1", "1_.1", "+-1",  "1.2.3", "1e1.5",
                "00.1", "1e_1", "0b", "1a",   "- 1",  "+",   "-",    "00",   "1,5",  "٣",
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                if (toml_parse(&a, slice_from_str(arena_printf(&a, "a = %s", bad[i])), &err))
                        fail_msg("accepted: %s", bad[i]);
                ok(strncmp(err.text, "line 1, column ", 15) == 0);
        }
}

TEST(toml_arrays)
{
        reads_as(S("a = []"), "{a=[]}");
        reads_as(S("a = [ 1, 'x', [true, {b = 2}], ]"), "{a=[1 'x' [true {b=2}]]}");
        reads_as(S("a = [ # start\n 1 # one\n , \r\n\n 2,\n # end\n]"), "{a=[1 2]}");
}

TEST(toml_tables_in_any_order)
{
        reads_as(S("x=0\n[a]\nb=1\n[c.d]\ne=2\n[c]\nf=3"), "{x=0 a={b=1} c={d={e=2} f=3}}");
        reads_as(S("[ a . \"b.c\" . 'd' ]\ne=1"), "{a={b.c={d={e=1}}}}");
        reads_as(S("[a]\n[a.b]\n[b]"), "{a={b={}} b={}}");
}

TEST(toml_dotted_keys)
{
        reads_as(S("[a.b.c]\nz = 9\n[a]\nb.d = 1"), "{a={b={c={z=9} d=1}}}");
        reads_as(S("a.b.c = 1\na.d = 2\na.b.e = 3"), "{a={b={c=1 e=3} d=2}}");
        reads_as(S("a . 'b' = 1\n3.14 = 2"), "{a={b=1} 3={14=2}}");
        reads_as(S("[t]\na.b = 1\n[t.a.c]\nd = 2"), "{t={a={b=1 c={d=2}}}}");
}

TEST(toml_inline_tables)
{
        reads_as(S("a = {}\nb = { x = 1, y.z = 'q', \"w\" = [1] }"), "{a={} b={x=1 y={z='q'} w=[1]}}");
        is_refused(S("a = {x = 1,}"), "line 1, column 12: expected a key, found '}'");
        is_refused(S("a = {x = 1\n}"),
                   "line 1, column 11: expected ',' or '}' in the inline table, found the end of the line");
        is_refused(S("a = {x = 1 y = 2}"),
                   "line 1, column 12: expected ',' or '}' in the inline table, found 'y'");
}

TEST(toml_arrays_of_tables)
{
        reads_as(S("[[a]]\nx=1\n[[a]]\n[a.b]\ny=2\n[[a.c]]\nz=3\n[[a.c]]\n[[a]]\nx=4"),
                 "{a=[{x=1} {b={y=2} c=[{z=3} {}]} {x=4}]}");
}

TEST(toml_nothing_is_defined_twice)
{
        is_refused(S("a = 1\na = 2"), "line 2, column 1: 'a' is already defined in line 1");
        is_refused(S("a = 1\n\"a\" = 2"), "line 2, column 1: 'a' is already defined in line 1");
        is_refused(S("[a]\n[b]\n[a]"), "line 3, column 2: 'a' is already defined in line 1");
        is_refused(S("a = 1\n[a]"), "line 2, column 2: 'a' is already defined in line 1");
        is_refused(S("a = 1\n[a.b]"), "line 2, column 2: 'a' is already defined in line 1");
        is_refused(S("a = {b = 1, b = 2}"), "line 1, column 13: 'b' is already defined in line 1");
        is_refused(S("a = {b = 1}\n[a.c]"), "line 2, column 2: 'a' is already defined in line 1");
        is_refused(S("a = {b = 1}\na.c = 2"), "line 2, column 1: 'a' is already defined in line 1");
        is_refused(S("a = {b.c = 1, b = 2}"), "line 1, column 15: 'b' is already defined in line 1");
        is_refused(S("a = []\n[[a]]"), "line 2, column 3: 'a' is already defined in line 1");
        is_refused(S("[[a]]\n[a]"), "line 2, column 2: 'a' is already defined in line 1");
        is_refused(S("[a]\n[[a]]"), "line 2, column 3: 'a' is already defined in line 1");
        is_refused(S("[a.b]\n[[a]]"), "line 2, column 3: 'a' is already defined in line 1");
        is_refused(S("a.b = 1\na = 2"), "line 2, column 1: 'a' is already defined in line 1");
        is_refused(S("a = 1\na.b = 2"), "line 2, column 1: 'a' is already defined in line 1");
        is_refused(S("[t]\na.b = 1\n[t.a]"), "line 3, column 4: 'a' is already defined in line 2");
        is_refused(S("[a.b.c]\nz = 9\n[a]\nb.c.t = 1"), "line 4, column 3: 'c' is already defined in line 1");
        is_refused(S("\"x\\ny\" = 1\n\"x\\ny\" = 2"),
                   "line 2, column 1: '(key with control characters)' is already defined in line 1");
}

TEST(toml_messages_say_where_and_what)
{
        is_refused(S("a"), "line 1, column 2: expected '=' behind the key, found the end of the file");
        is_refused(S("a =\nb = 1"), "line 1, column 4: expected a value, found the end of the line");
        is_refused(S("\n\n  = 1"), "line 3, column 3: expected a key, found '='");
        is_refused(S("a = 1 b = 2"), "line 1, column 7: expected the end of the line, found 'b'");
        is_refused(S("a = yes"), "line 1, column 5: expected a value; a string needs quotes");
        is_refused(S("a = True"), "line 1, column 5: expected a value; a string needs quotes");
        is_refused(S("[a"), "line 1, column 3: expected ']', found the end of the file");
        is_refused(S("[]"), "line 1, column 2: expected a key, found ']'");
        is_refused(S("[[a]"), "line 1, column 4: expected ']]', found ']'");
        is_refused(S("[a] b = 1"), "line 1, column 5: expected the end of the line, found 'b'");
        is_refused(S("a. = 1"), "line 1, column 4: expected a key, found '='");
        is_refused(S("a = [1 2]"), "line 1, column 8: expected ',' or ']' in the array, found '2'");
        is_refused(S("a = [1,\n2"),
                   "line 2, column 2: expected ',' or ']' in the array, found the end of the file");
        is_refused(S("a = [,]"), "line 1, column 6: expected a value, found ','");
        is_refused(S("\xc3\xa4 = 1"), "line 1, column 1: expected a key, found '\xc3\xa4'");
        is_refused(S("a = '\xc3\xa4' x"), "line 1, column 9: expected the end of the line, found 'x'");
        is_refused(S("a = 1\r"),
                   "line 1, column 6: expected the end of the line, found the control character 0x0d");
        is_refused(S("\"\"\"a\"\"\" = 1"), "line 1, column 1: a key cannot be a multi-line string");
        is_refused(S("a = 1979-05-27"), "line 1, column 5: dates and times are not supported");
        is_refused(S("a = 07:32:00"), "line 1, column 5: dates and times are not supported");
}

TEST(toml_broken_strings)
{
        is_refused(S("a = \"x"), "line 1, column 5: the string is not closed");
        is_refused(S("a = \"x\ny\""), "line 1, column 5: the string is not closed");
        is_refused(S("a = 'x\ny'"), "line 1, column 5: the string is not closed");
        is_refused(S("a = \"\"\"x\ny\"\""), "line 1, column 5: the string is not closed");
        is_refused(S("a = \"x\\"), "line 1, column 5: the string is not closed");
        is_refused(S("a = \"x\\\""), "line 1, column 5: the string is not closed");
        is_refused(S("a = \"x\\q\""), "line 1, column 7: unknown escape in a string");
        is_refused(S("a = \"x\\ \""), "line 1, column 7: unknown escape in a string");
        is_refused(S("a = \"\"\"\nx\\ y\"\"\""), "line 2, column 2: unknown escape in a string");
        is_refused(S("a = \"\\u12\""), "line 1, column 6: expected 4 hexadecimal digits in the escape");
        is_refused(S("a = \"\\ud800\""), "line 1, column 6: the escape is not a Unicode character");
        is_refused(S("a = \"\\U00110000\""), "line 1, column 6: the escape is not a Unicode character");
        is_refused(S("a = \"\\u0000\""), "line 1, column 6: a string cannot hold a NUL");
        is_refused(S("a = \"x\x01\""), "line 1, column 7: control character in a string");
        is_refused(S("a = 'x\x7f'"), "line 1, column 7: control character in a string");
        is_refused(S("# x\x02"), "line 1, column 4: control character in a comment");
        is_refused(S("a = \"\"\"\"\"\"\"\"\"\"\""),
                   "line 1, column 13: expected the end of the line, found '\"'");
}

TEST(toml_input_must_be_utf8_without_nul)
{
        is_refused(S("a = 1\nb = '\xff'"), "line 2, column 6: not UTF-8");
        is_refused(S("# \xed\xa0\x80"), "line 1, column 3: not UTF-8");
        is_refused(S("a = 1\n\0"), "line 2, column 1: NUL byte");
        is_refused(S("a = '\xe2\x82"), "line 1, column 6: not UTF-8");
}

TEST(toml_nesting_ends_at_32)
{
        for (size_t depth = 30; depth <= 2000; depth += depth < 40 ? 1 : 500) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                _buf_ struct buf arrays = BUF_INIT(1 << 20), tables = BUF_INIT(1 << 20),
                                 dots = BUF_INIT(1 << 20);

                eq_int(buf_append(&arrays, S("a = ")) | buf_append(&tables, S("a = ")) |
                               buf_append(&dots, S("[a")),
                       0);
                for (size_t i = 0; i < depth; i++)
                        eq_int(buf_append_char(&arrays, '[') | buf_append(&tables, S("{a=")), 0);
                for (size_t i = 1; i < depth; i++)
                        eq_int(buf_append(&dots, S(".a")), 0);
                for (size_t i = 0; i < depth; i++)
                        eq_int(buf_append_char(&arrays, ']') | buf_append(&tables, i ? S("}") : S("1}")), 0);
                eq_int(buf_append(&dots, S("]\nx = 1")), 0);

                eq_int(toml_parse(&a, buf_slice(&arrays), &err) != NULL, depth <= 32);
                eq_int(toml_parse(&a, buf_slice(&tables), &err) != NULL, depth <= 32);
                eq_int(toml_parse(&a, buf_slice(&dots), &err) != NULL, depth <= 32);
                if (depth > 32)
                        ok(strstr(err.text, "nested deeper than 32"));
        }
}

TEST(toml_every_truncation_has_an_answer)
{
        const struct slice text =
                S("a.b = \"x\\u00e4\\n\" # c\n[t.'u']\nx = [1, 0x2, {y = -3.5e1, z = '''\n'q'''}]\r\n"
                  "[[v]]\nm = \"\"\"a\\\n  b\"\"\"\n\"k\" = true\n");

        for (size_t n = 0; n <= text.n; n++) {
                _arena_ struct arena a = ARENA_INIT;
                _free_ char *copy = mem_alloc(n + (n == 0));
                struct err err = ERR_INIT;
                memcpy(copy, text.p, n);
                if (!toml_parse(&a, slice_from(copy, n), &err))
                        ok(strncmp(err.text, "line ", 5) == 0);
        }
}

TEST(toml_many_keys_are_not_slow)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf b = BUF_INIT(1 << 24);
        struct err err = ERR_INIT;
        size_t count = 0;

        for (unsigned i = 0; i < 100000; i++)
                eq_int(buf_printf(&b, "k%u=%u\n", i, i), 0);
        const struct toml *root = toml_parse(&a, buf_slice(&b), &err);
        ok(root);
        for (const struct toml *t = root->first; t; t = t->next)
                eq_int(t->integer, (int64_t)count++);
        eq_u64(count, 100000);
}

TEST(toml_find_and_positions)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const struct toml *root = toml_parse(&a, S("a = 1\n\n[t]\n  \xc3\xa4 = 1\n  bc = [1,\n 'x']"), &err);

        ok(!root);
        root = toml_parse(&a, S("a = 1\n\n[t]\n  '\xc3\xa4' = 1\n  bc = [1,\n '\xc3\xa4', 2]"), &err);
        ok(root);
        ok(!toml_find(root, S("none")));
        ok(!toml_find(NULL, S("a")));
        ok(!toml_find(toml_find(root, S("a")), S("a")));
        const struct toml *t = toml_find(root, S("t"));
        ok(t && t->type == TOML_TABLE && t->line == 3 && t->column == 2);
        const struct toml *bc = toml_find(t, S("bc"));
        ok(bc && bc->line == 5 && bc->column == 3);
        const struct toml *third = bc->first->next->next;
        ok(third && third->line == 6 && third->column == 7 && !third->next);
}
