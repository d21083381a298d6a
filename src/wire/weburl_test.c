/* weburl_test: URLs as browsers read them. The expected results are those of the URL Standard and of other servers. */
#include "unit.h"
#include "wire/weburl.h"

struct row {
        const char *text;
        const char *url; /* NULL: the text is refused */
        enum weburl_result result;
};

static void check(const struct row *rows, size_t count, const struct weburl *base)
{
        for (size_t i = 0; i < count; i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct weburl u = { 0 };
                enum weburl_result r = weburl_parse(&a, slice_from_str(rows[i].text), base, &u, NULL);
                if (r != rows[i].result)
                        print_error("%s\n", rows[i].text);
                eq_int(r, rows[i].result);
                if (rows[i].url)
                        eq_str(weburl_text(&a, &u).p, rows[i].url);
        }
}

TEST(urls_get_one_spelling)
{
        static const struct row rows[] = {
                { "http://h", "http://h/", WEBURL_OK },
                { "HTTPS://H.Example:443/", "https://h.example/", WEBURL_OK },
                { "http://h:80/", "http://h/", WEBURL_OK },
                { "http://h:443/", "http://h:443/", WEBURL_OK },
                { "http://h:/x", "http://h/x", WEBURL_OK },
                { "http://h:0081/", "http://h:81/", WEBURL_OK },
                { " \t http://h/a\nb ", "http://h/ab", WEBURL_OK },
                { "http:h", "http://h/", WEBURL_OK },
                { "http:////h", "http://h/", WEBURL_OK },
                { "http:\\\\h\\a\\b", "http://h/a/b", WEBURL_OK },
                { "http://h/a/../b/./c/%2e%2E/d", "http://h/b/d", WEBURL_OK },
                { "http://h/../..", "http://h/", WEBURL_OK },
                { "http://h/a/b/..", "http://h/a/", WEBURL_OK },
                { "http://h/.../x", "http://h/.../x", WEBURL_OK },
                { "http://h/a//b/", "http://h/a//b/", WEBURL_OK },
                { "http://h/a b\"<>`{}|^%zz", "http://h/a%20b%22%3C%3E%60%7B%7D|^%zz", WEBURL_OK },
                { "http://h?q=\"<>'`{}|\\", "http://h/?q=%22%3C%3E%27`{}|\\", WEBURL_OK },
                { "http://h/?", "http://h/?", WEBURL_OK },
                { "http://h/\xc3\xa9?\xc3\xa9", "http://h/%C3%A9?%C3%A9", WEBURL_OK },
                { "http://h/x#frag?no", "http://h/x", WEBURL_OK },
                { "http://u:p@h/", "http://h/", WEBURL_OK },
                { "http://a@b@h/", "http://h/", WEBURL_OK },
                { "http://h/@x", "http://h/@x", WEBURL_OK },
                { "http://%68/", "http://h/", WEBURL_OK },
                { "http://\xc3\xa9.invalid/", "http://\xc3\xa9.invalid/", WEBURL_OK },
                { "http://a_b/", "http://a_b/", WEBURL_OK },
        };
        check(rows, ARRAY_LEN(rows), NULL);
}

TEST(addresses_get_one_spelling)
{
        static const struct row rows[] = {
                { "http://127.1/", "http://127.0.0.1/", WEBURL_OK },
                { "http://0x7f.1", "http://127.0.0.1/", WEBURL_OK },
                { "http://2130706433", "http://127.0.0.1/", WEBURL_OK },
                { "http://017700000001", "http://127.0.0.1/", WEBURL_OK },
                { "http://127.0.0.1.", "http://127.0.0.1/", WEBURL_OK },
                { "http://%31%32%37.1", "http://127.0.0.1/", WEBURL_OK },
                { "http://1.2.3.x", "http://1.2.3.x/", WEBURL_OK },
                { "http://1.2.3.4.5/", NULL, WEBURL_BAD_IPV4 },
                { "http://256.1.1.1/", NULL, WEBURL_BAD_IPV4 },
                { "http://1.2.3.256/", NULL, WEBURL_BAD_IPV4 },
                { "http://4294967296/", NULL, WEBURL_BAD_IPV4 },
                { "http://a.09/", NULL, WEBURL_BAD_IPV4 },
                { "http://1..2/", NULL, WEBURL_BAD_IPV4 },
                { "http://[::1]:8080/x", "http://[::1]:8080/x", WEBURL_OK },
                { "http://[0:0::0:1]/", "http://[::1]/", WEBURL_OK },
                { "http://[::1", NULL, WEBURL_BAD_IPV6 },
                { "http://[x]/", NULL, WEBURL_BAD_IPV6 },
                { "http://[::1]x/", NULL, WEBURL_BAD_IPV6 },
        };
        check(rows, ARRAY_LEN(rows), NULL);
}

TEST(what_is_no_http_url_is_refused)
{
        static const struct row rows[] = {
                { "", NULL, WEBURL_RELATIVE },
                { "nope", NULL, WEBURL_RELATIVE },
                { "//h/", NULL, WEBURL_RELATIVE },
                { "1http://h", NULL, WEBURL_RELATIVE },
                { "ftp://h/", NULL, WEBURL_SCHEME },
                { "file:///etc/passwd", NULL, WEBURL_SCHEME },
                { "mailto:a@b", NULL, WEBURL_SCHEME },
                { "http://", NULL, WEBURL_NO_HOST },
                { "http:", NULL, WEBURL_NO_HOST },
                { "http://@/", NULL, WEBURL_NO_HOST },
                { "http://:80/", NULL, WEBURL_NO_HOST },
                { "http://h:99999/", NULL, WEBURL_BAD_PORT },
                { "http://h:x/", NULL, WEBURL_BAD_PORT },
                { "http://h:80:80/", NULL, WEBURL_BAD_PORT },
                { "http://h:0/", NULL, WEBURL_BAD_PORT },
                { "http://a b/", NULL, WEBURL_BAD_DOMAIN },
                { "http://a<b/", NULL, WEBURL_BAD_DOMAIN },
                { "http://%zz/", NULL, WEBURL_BAD_DOMAIN },
                { "http://a%00b/", NULL, WEBURL_BAD_DOMAIN },
                { "http://a%2fb/", NULL, WEBURL_BAD_DOMAIN },
                { "http://\xff/", NULL, WEBURL_BAD_DOMAIN },
        };
        check(rows, ARRAY_LEN(rows), NULL);
}

TEST(a_relative_reference_is_taken_from_its_base)
{
        _arena_ struct arena a = ARENA_INIT;
        struct weburl base;
        static const struct row rows[] = {
                { "", "http://h:1/a/b?q", WEBURL_OK },     { "#f", "http://h:1/a/b?q", WEBURL_OK },
                { "?r", "http://h:1/a/b?r", WEBURL_OK },   { "c", "http://h:1/a/c", WEBURL_OK },
                { "../c?x", "http://h:1/c?x", WEBURL_OK }, { "/c", "http://h:1/c", WEBURL_OK },
                { "\\c", "http://h:1/c", WEBURL_OK },      { "//other/c", "http://other/c", WEBURL_OK },
                { "http:c", "http://h:1/a/c", WEBURL_OK }, { "https:c", "https://c/", WEBURL_OK },
                { "https://x/", "https://x/", WEBURL_OK }, { "ftp://x/", NULL, WEBURL_SCHEME },
                { "http://[", NULL, WEBURL_BAD_IPV6 },
        };
        eq_int(weburl_parse(&a, S("http://u:p@h:1/a/b?q#f"), NULL, &base, NULL), WEBURL_OK);
        check(rows, ARRAY_LEN(rows), &base);
}

TEST(user_and_password_are_decoded_and_not_shown)
{
        _arena_ struct arena a = ARENA_INIT;
        struct weburl u;
        eq_int(weburl_parse(&a, S("http://us%40er:p%3aw@h/"), NULL, &u, NULL), WEBURL_OK);
        eq_slice(u.user, S("us@er"));
        eq_slice(u.password, S("p:w"));
        eq_str(weburl_origin_text(&a, &u).p, "http://h/");
        eq_int(weburl_parse(&a, S("http://user@h/"), NULL, &u, NULL), WEBURL_OK);
        eq_slice(u.password, S(""));
        eq_int(weburl_parse(&a, S("http://@h/"), NULL, &u, NULL), WEBURL_OK);
        ok(!u.user.p);
}

TEST(the_scheme_of_another_kind_is_told_in_lower_case)
{
        _arena_ struct arena a = ARENA_INIT;
        struct weburl u;
        struct slice scheme = { 0 };
        eq_int(weburl_parse(&a, S("FTP+x://h/"), NULL, &u, &scheme), WEBURL_SCHEME);
        eq_slice(scheme, S("ftp+x"));
}

TEST(an_origin_is_scheme_host_and_port)
{
        _arena_ struct arena a = ARENA_INIT;
        static const char *const texts[] = { "http://h/", "https://h/", "http://h:81/", "http://i/" };
        struct weburl u[ARRAY_LEN(texts)], same;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                eq_int(weburl_parse(&a, slice_from_str(texts[i]), NULL, &u[i], NULL), WEBURL_OK);
        eq_int(weburl_parse(&a, S("http://H:80/x?y"), NULL, &same, NULL), WEBURL_OK);
        ok(weburl_same_origin(&u[0], &same));
        for (size_t i = 1; i < ARRAY_LEN(texts); i++)
                ok(!weburl_same_origin(&u[0], &u[i]));
}
