/* redirect: decides whether an HTTP response is a redirect to follow, and makes the next request.
 *
 * 301 and 302 turn POST into GET, 303 turns everything but HEAD into GET, 307 and 308 change nothing (RFC 9110, 15.4).
 * Credentials and private headers go only to the scheme, host and port that the client named. A hop to another origin drops
 * them, and a later hop back to the first origin does not add them again.
 */
#include "net/redirect.h"

static bool is_one_of(struct slice name, const struct slice *list, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (slice_eq(name, list[i]))
                        return true;
        return false;
}

static bool is_credential(struct slice name)
{
        static const struct slice names[] = { S("authorization"), S("cookie"), S("cookie2"),
                                              S("proxy-authorization"), S("www-authenticate") };
        return is_one_of(name, names, ARRAY_LEN(names));
}

static bool is_private(const struct hop *hop, struct slice name)
{
        struct slice rest = hop->private_names;
        while (rest.p)
                if (slice_eq(name, slice_split(&rest, ',')))
                        return true;
        return false;
}

static bool is_about_body(struct slice name)
{
        static const struct slice names[] = { S("content-type"), S("content-length"), S("content-encoding"),
                                              S("transfer-encoding"), S("expect") };
        return is_one_of(name, names, ARRAY_LEN(names));
}

static const struct http_header *find_location(const struct netmsg_head *head)
{
        for (size_t i = 0; i < head->header_count; i++)
                if (slice_eq_nocase(head->headers[i].name, S("location")))
                        return &head->headers[i];
        return NULL;
}

static bool turns_into_get(struct slice method, unsigned status)
{
        if (status == 303)
                return !slice_eq(method, S("HEAD"));
        return (status == 301 || status == 302) && slice_eq(method, S("POST"));
}

/* Adds the Referer header: the whole URL for the same origin, only the origin for another, none from https to http. */
static void add_referer(struct arena *a, const struct hop *now, bool is_same, struct hop *next)
{
        if (now->url.is_https && !next->url.is_https)
                return;
        next->headers[next->header_count++] = (struct http_header){
                .name = S("referer"),
                .value = is_same ? weburl_text(a, &now->url) : weburl_origin_text(a, &now->url),
        };
}

enum redirect redirect_next(struct arena *a, const struct hop *now, const struct netmsg_head *head,
                            struct hop *ret_next, const char **ret_why)
{
        unsigned status = head->status;
        bool is_redirect = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
        const struct http_header *location = is_redirect ? find_location(head) : NULL;
        if (!location)
                return REDIRECT_NONE;

        struct hop next = { .method = now->method,
                            .has_body = now->has_body,
                            .private_names = now->private_names };
        struct slice scheme = { 0 };
        enum weburl_result r = weburl_parse(a, location->value, &now->url, &next.url, &scheme);
        if (r == WEBURL_SCHEME) {
                *ret_why = arena_printf(a, "redirect target uses unsupported URL scheme: %.*s",
                                        (int)MIN(scheme.n, 100u), scheme.p);
                return REDIRECT_REFUSED;
        }
        if (r != WEBURL_OK)
                return REDIRECT_NONE;

        bool drops_body = turns_into_get(now->method, status);
        bool is_same = weburl_same_origin(&now->url, &next.url);
        if (drops_body) {
                next.method = S("GET");
                next.has_body = false;
        }
        next.headers = arena_alloc(a, (now->header_count + 1) * sizeof(*next.headers));
        for (size_t i = 0; i < now->header_count; i++) {
                struct slice name = now->headers[i].name;
                if ((drops_body && is_about_body(name)) || slice_eq(name, S("referer")) ||
                    (!is_same && (is_credential(name) || is_private(now, name) || slice_eq(name, S("host")))))
                        continue;
                next.headers[next.header_count++] = now->headers[i];
        }
        add_referer(a, now, is_same, &next);
        *ret_next = next;
        return REDIRECT_FOLLOW;
}
