/* authority: takes [USER@]HOST[:PORT] apart, and URLs of ssh. */
#include "base/authority.h"

#include "base/url_text.h"

struct slice authority_of(struct slice text)
{
        size_t n = 0;
        while (n < text.n && !strchr("/?#", text.p[n]))
                n++;
        return slice_from(text.p, n);
}

/* Returns whether the text is not empty and has only letters, digits and the characters in `others`. */
static bool has_only(struct slice s, const char *others)
{
        for (size_t i = 0; i < s.n; i++)
                if (!url_is_alpha(s.p[i]) && !url_is_digit(s.p[i]) &&
                    (s.p[i] == '\0' || !strchr(others, s.p[i])))
                        return false;
        return s.n > 0;
}

/* Splits [HOST] or HOST from what follows it. Returns what is wrong with the host, or NULL. */
static const char *host_split(struct slice *rest, struct slice *ret)
{
        static const char bad[] = "its host is neither a name nor an address";

        if (slice_starts(*rest, S("["))) {
                struct slice after = url_skip(*rest, 1), host = slice_split(&after, ']');
                struct slice zone = host, address = slice_split(&zone, '%');
                if (!after.p || !has_only(address, ":.") || !memchr(address.p, ':', address.n) ||
                    (zone.p && !has_only(zone, "._-")))
                        return bad;
                *ret = host;
                *rest = after;
                return NULL;
        }
        const char *colon = rest->n > 0 ? memchr(rest->p, ':', rest->n) : NULL;
        struct slice host = slice_from(rest->p, colon ? (size_t)(colon - rest->p) : rest->n);
        if (host.n == 0)
                return "it has no host";
        if (!has_only(host, ".-_") || host.p[0] == '-')
                return bad;
        *ret = host;
        *rest = url_skip(*rest, host.n);
        return NULL;
}

const char *authority_parse(struct slice text, struct authority *ret)
{
        *ret = (struct authority){ 0 };
        const char *at = text.n > 0 ? memrchr(text.p, '@', text.n) : NULL;
        if (at) {
                ret->has_user = true;
                ret->user = slice_from(text.p, (size_t)(at - text.p));
                text = url_skip(text, ret->user.n + 1);
        }
        const char *why = host_split(&text, &ret->host);
        if (why || text.n == 0)
                return why;
        uint64_t port;
        if (text.p[0] != ':' || slice_to_u64(url_skip(text, 1), UINT16_MAX, &port) < 0 || port == 0)
                return "its port is not a number from 1 to 65535";
        ret->port = (uint16_t)port;
        return NULL;
}

const char *authority_parse_ssh(struct slice url, struct authority *ret)
{
        if (!slice_starts(url, S("ssh://")))
                return "expected ssh://[USER@]HOST[:PORT]";
        struct slice rest = url_skip(url, strlen("ssh://")), text = authority_of(rest);
        const char *why = authority_parse(text, ret);

        if (!why && ret->has_user && (!has_only(ret->user, "._-+") || ret->user.p[0] == '-'))
                why = "its user has other characters than letters, digits and `._-+`, or begins with a dash";
        if (!why && memchr(ret->host.p, '%', ret->host.n))
                why = "its host has a zone, which ssh takes from its configuration";
        if (!why && rest.n > text.n && !slice_eq(url_skip(rest, text.n), S("/")))
                why = "nothing may follow host and port";
        return why;
}
