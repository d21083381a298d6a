/* redirect_test: which method, body and headers the request after a redirect has. */
#include "net/redirect.h"

#include "base/buf.h"
#include "unit.h"

static struct http_header sent[] = {
        { .name = S("authorization"), .value = S("a") },
        { .name = S("cookie"), .value = S("c") },
        { .name = S("proxy-authorization"), .value = S("p") },
        { .name = S("content-type"), .value = S("t") },
        { .name = S("host"), .value = S("named") },
        { .name = S("x-keep"), .value = S("k") },
        { .name = S("x-key"), .value = S("s") },
        { .name = S("x-k"), .value = S("s") },
};

/* Returns the next request as "METHOD url body=B names…", or the reason why there is none. */
static const char *follow(struct arena *a, const char *method, const char *from, unsigned status,
                          const char *location)
{
        struct hop now = { .method = slice_from_str(method),
                           .has_body = true,
                           .headers = sent,
                           .header_count = ARRAY_LEN(sent),
                           .private_names = S("x-key,x-k") },
                   next;
        struct http_header h = { .name = S("Location"), .value = slice_from_str(location) };
        struct netmsg_head head = { .status = (uint16_t)status,
                                    .headers = &h,
                                    .header_count = location ? 1 : 0 };
        const char *why = NULL;
        eq_int(weburl_parse(a, slice_from_str(from), NULL, &now.url, NULL), WEBURL_OK);
        switch (redirect_next(a, &now, &head, &next, &why)) {
        case REDIRECT_NONE:
                return "none";
        case REDIRECT_REFUSED:
                return why;
        case REDIRECT_FOLLOW:
                break;
        }
        struct slice url = weburl_text(a, &next.url);
        char *text = arena_printf(a, "%.*s %.*s body=%d", SLICE(next.method), SLICE(url), next.has_body);
        for (size_t i = 0; i < next.header_count; i++)
                text = arena_printf(a, "%s %.*s", text, SLICE(next.headers[i].name));
        if (next.header_count && slice_eq(next.headers[next.header_count - 1].name, S("referer")))
                text = arena_printf(a, "%s=%.*s", text, SLICE(next.headers[next.header_count - 1].value));
        return text;
}

#define ALL " authorization cookie proxy-authorization content-type host x-keep x-key x-k referer="
#define NO_BODY " authorization cookie proxy-authorization host x-keep x-key x-k referer="

TEST(the_method_follows_the_status)
{
        _arena_ struct arena a = ARENA_INIT;
        eq_str(follow(&a, "POST", "http://h/a", 301, "/x"), "GET http://h/x body=0" NO_BODY "http://h/a");
        eq_str(follow(&a, "POST", "http://h/a", 302, "/x"), "GET http://h/x body=0" NO_BODY "http://h/a");
        eq_str(follow(&a, "PUT", "http://h/a", 302, "/x"), "PUT http://h/x body=1" ALL "http://h/a");
        eq_str(follow(&a, "PUT", "http://h/a", 303, "/x"), "GET http://h/x body=0" NO_BODY "http://h/a");
        eq_str(follow(&a, "HEAD", "http://h/a", 303, "/x"), "HEAD http://h/x body=1" ALL "http://h/a");
        eq_str(follow(&a, "POST", "http://h/a", 307, "/x"), "POST http://h/x body=1" ALL "http://h/a");
        eq_str(follow(&a, "POST", "http://h/a", 308, "/x"), "POST http://h/x body=1" ALL "http://h/a");
}

TEST(credentials_and_private_headers_stay_with_scheme_host_and_port)
{
        _arena_ struct arena a = ARENA_INIT;
        static const char *const elsewhere[] = { "http://i/", "http://h:81/", "https://h/" };
        for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++) {
                const char *expected =
                        arena_printf(&a, "GET %s body=1 content-type x-keep referer=http://h/", elsewhere[i]);
                eq_str(follow(&a, "GET", "http://h/secret?q", 302, elsewhere[i]), expected);
        }
}

TEST(no_referer_leaves_https)
{
        _arena_ struct arena a = ARENA_INIT;
        eq_str(follow(&a, "GET", "https://h/a", 302, "http://h/"),
               "GET http://h/ body=1 content-type x-keep");
}

TEST(what_is_no_redirect_is_an_answer)
{
        _arena_ struct arena a = ARENA_INIT;
        eq_str(follow(&a, "GET", "http://h/", 200, "/x"), "none");
        eq_str(follow(&a, "GET", "http://h/", 300, "/x"), "none");
        eq_str(follow(&a, "GET", "http://h/", 304, "/x"), "none");
        eq_str(follow(&a, "GET", "http://h/", 302, NULL), "none");
        eq_str(follow(&a, "GET", "http://h/", 302, "http://["), "none");
}

TEST(a_redirect_to_another_scheme_is_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        eq_str(follow(&a, "GET", "http://h/", 302, "file:///etc/passwd"),
               "redirect target uses unsupported URL scheme: file");
}
