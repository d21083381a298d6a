/* environment_url: checks the URL of an environment, and takes apart those of ssh. */
#include "env/environment_url.h"

#include "base/printable.h"
#include "base/url_text.h"

#include <errno.h>
#include <sys/un.h>

/* The longest path that a unix socket can have. */
#define UNIX_PATH_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

struct authority {
        bool has_user;
        struct slice user, host; /* the host without brackets */
        uint16_t port;           /* 0: none is written */
};

static int invalid(struct arena *a, struct slice url, const char *why, struct err *err)
{
        return err_set(err, 0, -EINVAL, "environment url `%s` is invalid: %s", printable_text(a, url), why);
}

static bool has_only(struct slice s, const char *others)
{
        for (size_t i = 0; i < s.n; i++)
                if (!url_is_alpha(s.p[i]) && !url_is_digit(s.p[i]) &&
                    (s.p[i] == '\0' || !strchr(others, s.p[i])))
                        return false;
        return s.n > 0;
}

/* Splits [HOST] or HOST from what follows it. Returns what is wrong with it, or NULL. */
static const char *host_split(struct slice *rest, struct slice *ret)
{
        static const char bad[] = "its host is neither a name nor an address";

        if (slice_starts(*rest, S("["))) {
                struct slice after = url_skip(*rest, 1), host = slice_split(&after, ']');
                if (!after.p || !has_only(host, ":.") || !memchr(host.p, ':', host.n))
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

/* Reads [USER@]HOST[:PORT]. Returns what is wrong with it, or NULL. */
static const char *authority_parse(struct slice text, struct authority *ret)
{
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

static struct slice without_prefix(struct slice url, struct slice prefix)
{
        return url_skip(url, prefix.n);
}

/* Returns the part of `text` in front of a path, a query or a fragment. */
static struct slice authority_of(struct slice text)
{
        size_t n = 0;
        while (n < text.n && !strchr("/?#", text.p[n]))
                n++;
        return slice_from(text.p, n);
}

static int ws_check(struct arena *a, struct slice url, struct err *err)
{
        struct slice rest = without_prefix(url, slice_starts(url, S("ws://")) ? S("ws://") : S("wss://"));
        struct authority authority = { 0 };
        const char *why = authority_parse(authority_of(rest), &authority);

        if (authority.has_user) /* a password is not to be shown */
                return err_set(err, 0, -EINVAL,
                               "environment url is invalid: it has a user or a password; use token_file or "
                               "token_env");
        return why ? invalid(a, url, why, err) : 0;
}

static int unix_check(struct arena *a, struct slice url, struct err *err)
{
        struct slice path = without_prefix(url, S("unix:"));

        if (path.n == 0 || path.p[0] != '/')
                return invalid(a, url, "expected unix:/ABSOLUTE/PATH", err);
        if (path.n > UNIX_PATH_MAX)
                return invalid(a, url, "the path of a unix socket has at most 107 bytes", err);
        return 0;
}

int ssh_url_parse(struct arena *a, struct slice url, struct ssh_url *ret, struct err *err)
{
        if (!slice_starts(url, S("ssh://")))
                return invalid(a, url, "expected ssh://[USER@]HOST[:PORT]", err);
        struct slice rest = without_prefix(url, S("ssh://")), text = authority_of(rest);
        struct authority authority = { 0 };
        const char *why = authority_parse(text, &authority);

        if (!why && authority.has_user && (!has_only(authority.user, "._-+") || authority.user.p[0] == '-'))
                why = "its user has other characters than letters, digits and `._-+`, or begins with a dash";
        if (!why && rest.n > text.n && !slice_eq(url_skip(rest, text.n), S("/")))
                why = "nothing may follow host and port";
        if (why)
                return invalid(a, url, why, err);
        *ret = (struct ssh_url){
                .user = authority.has_user ? arena_dup(a, authority.user) : NULL,
                .host = arena_dup(a, authority.host),
                .port = authority.port,
        };
        return 0;
}

int environment_url_check(struct arena *a, struct slice text, const char **ret,
                          enum environment_kind *ret_kind, struct err *err)
{
        struct slice url = slice_trim(text);
        bool is_ssh = slice_starts(url, S("ssh://")), is_unix = slice_starts(url, S("unix:"));
        struct ssh_url parts;

        if (url.n == 0)
                return err_set(err, 0, -EINVAL, "environment url cannot be empty");
        if (!is_ssh && !is_unix && !slice_starts(url, S("ws://")) && !slice_starts(url, S("wss://")))
                return err_set(err, 0, -EINVAL, "environment url `%s` must use ws:// or wss://",
                               printable_text(a, url));
        for (size_t i = 0; i < url.n; i++)
                if (url.p[i] <= ' ' || url.p[i] > '~') /* a char may be signed */
                        return invalid(a, url, "it has characters that are not printable ASCII", err);

        int r = is_ssh    ? ssh_url_parse(a, url, &parts, err)
                : is_unix ? unix_check(a, url, err)
                          : ws_check(a, url, err);
        if (r < 0)
                return r;
        *ret = arena_dup(a, url);
        *ret_kind = is_ssh ? ENVIRONMENT_SSH : ENVIRONMENT_URL;
        return 0;
}
