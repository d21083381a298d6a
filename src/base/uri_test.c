/* uri_test: the two spellings of a path. URIs are read and written as other implementations of the protocol do, with two
 * exceptions: credentials and ports have results of their own, and `..` removes a name like `C:` that is not the first
 * (`/t/C:/..` is `/t`).
 */
#include "base/uri.h"

#include "unit.h"

#include <errno.h>

struct reading {
        struct slice text;
        enum uri_result result;
        struct slice path;
};

static void check_readings(const struct reading *cases, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct slice path = S("");
                enum uri_result result = uri_to_path(&a, cases[i].text, &path, NULL);

                if (result != cases[i].result || (result == URI_OK && !slice_eq(path, cases[i].path)))
                        fail_msg("'%.*s' gives %d '%.*s', not %d '%.*s'", SLICE(cases[i].text), (int)result,
                                 SLICE(path), (int)cases[i].result, SLICE(cases[i].path));
                if (result == URI_OK)
                        eq_int(path.p[path.n], '\0');
        }
}

TEST(uri_names_in_native_paths_are_taken_byte_for_byte)
{
        static const struct reading cases[] = {
                { S("/"), URI_OK, S("/") },
                { S("/a/../b//c/./"), URI_OK, S("/b/c") },
                { S("/%41 #?\\\t\n"), URI_OK, S("/%41 #?\\\t\n") },
                { S("//host/x"), URI_OK, S("/host/x") },
                { S("/C:/x"), URI_OK, S("/C:/x") },
                { S("/\xff"), URI_OK, S("/\xff") },
                { S("/a\0b"), URI_NUL, S("") },
        };

        check_readings(cases, ARRAY_LEN(cases));
}

TEST(uri_spellings_of_the_same_path)
{
        static const struct reading cases[] = {
                { S("file:///t/ab"), URI_OK, S("/t/ab") },
                { S("FILE:///t/ab"), URI_OK, S("/t/ab") },
                { S("file:/t/ab"), URI_OK, S("/t/ab") },
                { S("file:t/ab"), URI_OK, S("/t/ab") },
                { S("file://localhost/t/ab"), URI_OK, S("/t/ab") },
                { S("file://LocalHost/t/ab"), URI_OK, S("/t/ab") },
                { S("file://loc%61lhost/t/ab"), URI_OK, S("/t/ab") },
                { S("file:////t/ab"), URI_OK, S("/t/ab") },
                { S("file:///t//ab"), URI_OK, S("/t/ab") },
                { S("file:///t/ab/"), URI_OK, S("/t/ab") },
                { S("file:///t/ab///"), URI_OK, S("/t/ab") },
                { S("file:///t%2Fab%2F"), URI_SLASH, S("") },
                { S("file:%2Ft/ab"), URI_SLASH, S("") },
                { S("file:\\\\\\t\\ab"), URI_OK, S("/t/ab") },
                { S("file:\\/localhost\\t\\ab"), URI_OK, S("/t/ab") },
                { S(" \x01"
                    "file:///t/ab \x1f\0"),
                  URI_OK, S("/t/ab") },
                { S("fi\tle:\n//\r/t/a\tb\n"), URI_OK, S("/t/ab") },
                { S("file:"), URI_OK, S("/") },
                { S("file:/"), URI_OK, S("/") },
                { S("file://"), URI_OK, S("/") },
                { S("file:///"), URI_OK, S("/") },
                { S("file://localhost"), URI_OK, S("/") },
        };

        check_readings(cases, ARRAY_LEN(cases));
}

TEST(uri_percent_escapes_become_bytes)
{
        static const struct reading cases[] = {
                { S("file:///x y"), URI_OK, S("/x y") },
                { S("file:///x%20y%25"), URI_OK, S("/x y%") },
                { S("file:///\xc3\xa4"), URI_OK, S("/\xc3\xa4") },
                { S("file:///%C3%a4%FF"), URI_OK, S("/\xc3\xa4\xff") },
                { S("file:///a%5Cb%09c"), URI_OK, S("/a\\b\tc") },
                { S("file:///%2541"), URI_OK, S("/%41") },
                { S("file:///a%0\t9b"), URI_OK, S("/a\tb") },
                { S("file:///%zz"), URI_OK, S("/%zz") },
                { S("file:///%4"), URI_OK, S("/%4") },
                { S("file:///a%"), URI_OK, S("/a%") },
                { S("file:///%%41"), URI_OK, S("/%A") },
                { S("file:///%3F%23"), URI_OK, S("/?#") },
                { S("file:///a%2500"), URI_OK, S("/a%00") },
                { S("file:///a%00b"), URI_NUL, S("") },
                { S("file:///%00"), URI_NUL, S("") },
                { S("file:///a\0b"), URI_NUL, S("") },
        };

        check_readings(cases, ARRAY_LEN(cases));
}

TEST(uri_dots_are_normalised_lexically)
{
        static const struct reading cases[] = {
                { S("file:///t/./ab"), URI_OK, S("/t/ab") },
                { S("file:///t/%2e/ab"), URI_OK, S("/t/ab") },
                { S("file:///t/x/../ab"), URI_OK, S("/t/ab") },
                { S("file:///t/x/.%2E/ab"), URI_OK, S("/t/ab") },
                { S("file:///t/x/%2e%2e/ab"), URI_OK, S("/t/ab") },
                { S("file:///t/x\\..\\ab"), URI_OK, S("/t/ab") },
                { S("file:///t/x%2F../ab"), URI_SLASH, S("") },
                { S("file:///t/x/..%2Fab"), URI_SLASH, S("") },
                { S("file:///t/x%2F%2e%2e%2Fab"), URI_SLASH, S("") },
                { S("file:///t/x/y%2F..%2F../ab"), URI_SLASH, S("") },
                { S("file:///t/x//../ab"), URI_OK, S("/t/x/ab") }, /* `..` removes the empty part */
                { S("file:///t//x/..//ab"), URI_OK, S("/t/ab") },
                { S("file:///../../t"), URI_OK, S("/t") },
                { S("file:../t"), URI_OK, S("/t") },
                { S("file:./t"), URI_OK, S("/t") },
                { S("file:///t/ab/."), URI_OK, S("/t/ab") },
                { S("file:///t/ab/.."), URI_OK, S("/t") },
                { S("file:///t/.."), URI_OK, S("/") },
                { S("file:///..%2F..%2ft"), URI_SLASH, S("") },
                { S("file:///t/..b/.c/d..//..."), URI_OK, S("/t/..b/.c/d../...") },
                { S("file:///t/%2e%2e%2e"), URI_OK, S("/t/...") },
                { S("file:///t/C:/../ab"), URI_OK, S("/t/ab") },
        };

        check_readings(cases, ARRAY_LEN(cases));
}

TEST(uri_what_is_refused_and_why)
{
        static const struct reading cases[] = {
                { S(""), URI_NOT_ABSOLUTE, S("") },
                { S("  "), URI_NOT_ABSOLUTE, S("") },
                { S("x"), URI_NOT_ABSOLUTE, S("") },
                { S("file"), URI_NOT_ABSOLUTE, S("") },
                { S("~/x"), URI_NOT_ABSOLUTE, S("") },
                { S("./x"), URI_NOT_ABSOLUTE, S("") },
                { S(" /tmp"), URI_NOT_ABSOLUTE, S("") },
                { S("\\\\srv\\x"), URI_NOT_ABSOLUTE, S("") },
                { S("1a:b"), URI_NOT_ABSOLUTE, S("") },
                { S(":x"), URI_NOT_ABSOLUTE, S("") },
                { S("a b:c"), URI_NOT_ABSOLUTE, S("") },
                { S("a/b:c"), URI_NOT_ABSOLUTE, S("") },
                { S("fi le:///x"), URI_NOT_ABSOLUTE, S("") },
                { S("a\0:x"), URI_NOT_ABSOLUTE, S("") },
                { S("\xc3\xa4:x"), URI_NOT_ABSOLUTE, S("") },
                { S("http://x"), URI_BAD_SCHEME, S("") },
                { S("C:\\x"), URI_BAD_SCHEME, S("") },
                { S("filex:///a"), URI_BAD_SCHEME, S("") },
                { S("file:///x?q"), URI_QUERY, S("") },
                { S("file:///x?"), URI_QUERY, S("") },
                { S("file:?"), URI_QUERY, S("") },
                { S("file:///x?q#f"), URI_QUERY, S("") },
                { S("file://host/x?q"), URI_QUERY, S("") },
                { S("file:///%00?q"), URI_QUERY, S("") },
                { S("file:///x#f"), URI_FRAGMENT, S("") },
                { S("file:///x#f?q"), URI_FRAGMENT, S("") },
                { S("file://localhost#"), URI_FRAGMENT, S("") },
                { S("file://user@localhost/x"), URI_CREDENTIALS, S("") },
                { S("file://user:pw@host:80/x"), URI_CREDENTIALS, S("") },
                { S("file://@/x"), URI_CREDENTIALS, S("") },
                { S("file://localhost:80/x"), URI_PORT, S("") },
                { S("file://localhost:/x"), URI_PORT, S("") },
                { S("file://:80/x"), URI_PORT, S("") },
                { S("file://a b/x"), URI_MALFORMED, S("") },
                { S("file://[::1/x"), URI_MALFORMED, S("") },
                { S("file://[zz]/x"), URI_MALFORMED, S("") },
                { S("file://[]/x"), URI_MALFORMED, S("") },
                { S("file://a%00/x"), URI_MALFORMED, S("") },
                { S("file://a\0/x"), URI_MALFORMED, S("") },
                { S("file://%/x"), URI_MALFORMED, S("") },
                { S("file://a%2fb/x"), URI_MALFORMED, S("") },
                { S("file://a|b/x"), URI_MALFORMED, S("") },
                { S("file://%FF/x"), URI_MALFORMED, S("") },
                { S("file://a b/x?q"), URI_MALFORMED, S("") },
        };

        check_readings(cases, ARRAY_LEN(cases));
}

TEST(uri_other_hosts_and_drive_letters_are_foreign)
{
        static const struct reading cases[] = {
                { S("file://host/x"), URI_FOREIGN, S("") },
                { S("file:/\\host/x"), URI_FOREIGN, S("") },
                { S("file://localhost./x"), URI_FOREIGN, S("") },
                { S("file://127.0.0.1/x"), URI_FOREIGN, S("") },
                { S("file://[::1]/x"), URI_FOREIGN, S("") },
                { S("file://h\xc3\xa4/x"), URI_FOREIGN, S("") },
                { S("file://host/%00"), URI_NUL, S("") },
                { S("file:///C:"), URI_FOREIGN, S("") },
                { S("file:///C:/x"), URI_FOREIGN, S("") },
                { S("file:///c:\\x"), URI_FOREIGN, S("") },
                { S("file:///C%3A/x"), URI_FOREIGN, S("") },
                { S("file:///c%3a"), URI_FOREIGN, S("") },
                { S("file:C:/x"), URI_FOREIGN, S("") },
                { S("file:/C:/x"), URI_FOREIGN, S("") },
                { S("file://C:/x"), URI_FOREIGN, S("") },
                { S("file:////C:/x"), URI_FOREIGN, S("") },
                { S("file:///./C:/x"), URI_FOREIGN, S("") },
                { S("file:///a/../C:/x"), URI_FOREIGN, S("") },
                { S("file:///C:/.."), URI_FOREIGN, S("") },
                { S("file:///C:/../../t"), URI_FOREIGN, S("") },
                { S("file:///C:/%00"), URI_NUL, S("") },
                { S("file:C|/x"), URI_FOREIGN, S("") },
                { S("file:/C|/x"), URI_FOREIGN, S("") },
                { S("file://C|/x"), URI_FOREIGN, S("") },
                { S("file:///C|/x"), URI_OK, S("/C|/x") },
                { S("file:///C%7C/x"), URI_OK, S("/C|/x") },
                { S("file:///C:x"), URI_OK, S("/C:x") },
                { S("file:///%43:/x"), URI_OK, S("/C:/x") },
                { S("file:///C:%2Fx"), URI_SLASH, S("") },
                { S("file:///%2525%252F%2/f"), URI_OK, S("/%25%2F%2/f") },
                { S("file:///t/C:"), URI_OK, S("/t/C:") },
        };

        check_readings(cases, ARRAY_LEN(cases));
}

TEST(uri_opaque_form_only_for_paths_that_need_it)
{
        static const struct reading cases[] = {
                { S("file:///%00/bad/path/L0M6L3g"), URI_OK, S("/C:/x") },
                { S("file:///%00/bad/path/L2M6L3g"), URI_OK, S("/c:/x") },
                { S("file:///%00/bad/path/L0M6"), URI_OK, S("/C:") },
                { S("file:/%00/bad/path/L0M6L3g"), URI_OK, S("/C:/x") },
                { S("file://localhost/%00/bad/path/L0M6L3g"), URI_OK, S("/C:/x") },
                { S("file:///x/../%00/./bad\\path/L0M6L3g\n"), URI_OK, S("/C:/x") },
                { S("file:///%00/bad/path/L3dzL2QvZi50eHQ"), URI_FOREIGN, S("") }, /* /ws/d/f.txt */
                { S("file:///%00/bad/path/L0M6Ly4uL3g"), URI_FOREIGN, S("") },     /* /C:/../x */
                { S("file:///%00/bad/path/L0M6L3gv"), URI_FOREIGN, S("") },        /* /C:/x/ */
                { S("file:///%00/bad/path/Ly9DOi94"), URI_FOREIGN, S("") },        /* //C:/x */
                { S("file:///%00/bad/path/L0N8L3g"), URI_FOREIGN, S("") },         /* /C|/x */
                { S("file:///%00/bad/path/QzoveA"), URI_FOREIGN, S("") },          /* C:/x */
                { S("file:///%00/bad/path/Lw"), URI_FOREIGN, S("") },              /* / */
                { S("file:///%00/bad/path/L0M6AA"), URI_NUL, S("") },              /* /C:, NUL */
                { S("file:///%00/bad/path/L0M6L3g="), URI_MALFORMED, S("") },
                { S("file:///%00/bad/path/L0M6L3h"), URI_MALFORMED, S("") }, /* trailing bits */
                { S("file:///%00/bad/path/L0M6L3g/"), URI_MALFORMED, S("") },
                { S("file:///%00/bad/path/L0M6L3%67"), URI_MALFORMED, S("") },
                { S("file:///%00/bad/path/****"), URI_MALFORMED, S("") },
                { S("file:///%00/bad/path/"), URI_MALFORMED, S("") },
                { S("file:///%00/bad/path"), URI_NUL, S("") },
                { S("file:///%00/b%61d/path/L0M6L3g"), URI_NUL, S("") },
                { S("file://host/%00/bad/path/L0M6L3g"), URI_NUL, S("") },
                { S("file:///%00/bad/path/L0M6L3g?q"), URI_QUERY, S("") },
        };

        check_readings(cases, ARRAY_LEN(cases));
}

TEST(uri_the_scheme_is_told_in_lower_case)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice path, detail = S("");

        eq_int(uri_to_path(&a, S(" HT\tTP+a.b-c1://x"), &path, &detail), URI_BAD_SCHEME);
        eq_slice(detail, S("http+a.b-c1"));
}

static struct slice emit(struct buf *b, struct slice path)
{
        buf_truncate(b, 0);
        eq_int(uri_from_path(b, path), 0);
        return buf_slice(b);
}

TEST(uri_emitted_forms)
{
        _buf_ struct buf b = BUF_INIT(4096);

        eq_slice(emit(&b, S("/")), S("file:///"));
        eq_slice(emit(&b, S("/a b/\xc3\xa4")), S("file:///a%20b/%C3%A4"));
        eq_slice(emit(&b, S("/!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\x7f\n")),
                 S("file:///!%22%23$%25&'()*+,-./:;%3C=%3E%3F@[%5C]^_%60%7B|%7D~%7F%0A"));
        eq_slice(emit(&b, S("/\xff\x80")), S("file:///%FF%80"));
        eq_slice(emit(&b, S("/C:")), S("file:///%00/bad/path/L0M6"));
        eq_slice(emit(&b, S("/C:/x")), S("file:///%00/bad/path/L0M6L3g"));
        eq_slice(emit(&b, S("/C:x/x")), S("file:///C:x/x"));
        eq_slice(emit(&b, S("/C|/x")), S("file:///C|/x"));
        eq_slice(emit(&b, S("/t/C:")), S("file:///t/C:"));
}

TEST(uri_every_byte_round_trips)
{
        for (int c = 1; c < 256; c++) {
                for (int shape = 0; shape < 3; shape++) {
                        _arena_ struct arena a = ARENA_INIT;
                        _buf_ struct buf b = BUF_INIT(4096);
                        char text[] = "/xx/C:";
                        struct slice back = S("");

                        text[1 + shape] = c == '/' || (c == '.' && shape == 0) ? 'y' : (char)c;
                        if (c == '/' && shape == 2)
                                text[3] = '/';
                        struct slice path = slice_from(text, sizeof(text) - 1);
                        eq_int(uri_to_path(&a, emit(&b, path), &back, NULL), URI_OK);
                        eq_slice(back, path);
                }
        }
}

TEST(uri_from_what_is_no_path_is_refused)
{
        _buf_ struct buf b = BUF_INIT(4096);

        eq_int(uri_from_path(&b, S("")), -EINVAL);
        eq_int(uri_from_path(&b, S("x")), -EINVAL);
        eq_int(uri_from_path(&b, S("/a\0b")), -EINVAL);
        eq_u64(b.n, 0);
}

TEST(uri_that_does_not_fit_leaves_the_buffer_as_it_was)
{
        static const struct slice paths[] = { S("/a b c"), S("/C:/x/y"), S("/plain/path") };

        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                for (size_t cap = 3;; cap++) {
                        _buf_ struct buf b = BUF_INIT(cap);
                        eq_int(buf_append(&b, S("abc")), 0);
                        int r = uri_from_path(&b, paths[i]);
                        if (r == 0)
                                break;
                        eq_int(r, -ENOBUFS);
                        eq_slice(buf_slice(&b), S("abc"));
                }
        }
}

TEST(uri_every_truncation_has_an_answer)
{
        const struct slice text = S(" file://localhost/a%20b/..%2F%2e%2e/C:/%00/bad\\path?q#f");

        for (size_t n = 0; n <= text.n; n++) {
                _arena_ struct arena a = ARENA_INIT;
                struct slice path = S("");
                char *copy = arena_dup(&a, slice_from(text.p, n));
                enum uri_result result = uri_to_path(&a, slice_from(copy, n), &path, NULL);
                ok(result != URI_OK || (path.n > 0 && path.p[0] == '/'));
        }
}
