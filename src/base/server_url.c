/* server_url: takes the URL of a server apart. */
#include "base/server_url.h"

#include "base/url_text.h"

#include <sys/un.h>

/* The longest path that a unix socket can have. */
#define UNIX_PATH_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)
#define HOST_BYTES_MAX 253 /* the longest name in DNS */
#define WS_PORT 80
#define WSS_PORT 443

static enum server_url_kind kind_of(struct slice text, struct slice *ret_rest)
{
        static const struct {
                struct slice prefix;
                enum server_url_kind kind;
        } kinds[] = { { { "ws://", 5 }, SERVER_URL_WS },
                      { { "wss://", 6 }, SERVER_URL_WSS },
                      { { "unix:", 5 }, SERVER_URL_UNIX },
                      { { "ssh://", 6 }, SERVER_URL_SSH } };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
                if (slice_starts(text, kinds[i].prefix)) {
                        *ret_rest = url_skip(text, kinds[i].prefix.n);
                        return kinds[i].kind;
                }
        return SERVER_URL_OTHER;
}

static const char *check_socket(struct slice path)
{
        if (path.n == 0 || path.p[0] != '/')
                return "expected unix:/ABSOLUTE/PATH";
        if (path.n > UNIX_PATH_MAX)
                return "the path of a unix socket has at most 107 bytes";
        return slice_has_nul(path) ? "its path has a NUL" : NULL;
}

static const char *parse_web(struct slice rest, struct server_url *ret)
{
        for (size_t i = 0; i < rest.n; i++)
                if (rest.p[i] <= ' ' ||
                    rest.p[i] > '~') /* where char is signed, bytes above 127 are below ' ' */
                        return "it has characters that are not printable ASCII";
        struct slice authority = authority_of(rest);
        const char *why = authority_parse(authority, &ret->authority);
        if (ret->authority.has_user)
                return "it has a user or a password";
        ret->path = url_skip(rest, authority.n);
        if (!why && ret->path.n > 0 && memchr(ret->path.p, '#', ret->path.n))
                why = "it has a fragment";
        return why;
}

const char *server_url_parse(struct slice text, struct server_url *ret)
{
        struct slice rest = text;
        const char *why = NULL;
        *ret = (struct server_url){ .kind = kind_of(text, &rest) };
        switch (ret->kind) {
        case SERVER_URL_OTHER:
                return "expected ws://HOST[:PORT], wss://HOST[:PORT], unix:/PATH or ssh://HOST";
        case SERVER_URL_UNIX:
                ret->path = rest;
                return check_socket(rest);
        case SERVER_URL_SSH:
                why = authority_parse_ssh(text, &ret->authority);
                break;
        case SERVER_URL_WS:
        case SERVER_URL_WSS:
                why = parse_web(rest, ret);
                break;
        }
        uint16_t usual = ret->kind == SERVER_URL_WS ? WS_PORT : ret->kind == SERVER_URL_WSS ? WSS_PORT : 0;
        ret->port = ret->authority.port ? ret->authority.port : usual;
        return !why && ret->authority.host.n > HOST_BYTES_MAX ? "its host is too long" : why;
}
