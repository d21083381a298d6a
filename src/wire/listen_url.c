/* listen_url: parses the URL of --listen. Addresses are literals; no host name is looked up, so that the operator sees which
 * address is bound, and whether it is loopback.
 */
#include "wire/listen_url.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>

static bool is_address(int family, const char *host)
{
        struct in6_addr addr; /* large enough for IPv4, too */

        return inet_pton(family, host, &addr) == 1;
}

/* Parses IP:PORT or [IP]:PORT, with at most one "/" behind. Returns false for anything else. */
static bool ws_parse(struct slice text, struct listen_url *ret)
{
        bool is_v6 = slice_starts(text, S("["));
        struct slice host, rest = text;

        if (is_v6) {
                rest = slice_from(rest.p + 1, rest.n - 1);
                host = slice_split(&rest, ']');
                if (!rest.p || rest.n == 0 || rest.p[0] != ':')
                        return false;
                rest = slice_from(rest.p + 1, rest.n - 1);
        } else {
                host = slice_split(&rest, ':');
                if (!rest.p)
                        return false;
        }
        if (rest.n > 0 && rest.p[rest.n - 1] == '/')
                rest.n--;

        uint64_t port;
        _free_ char *copy = slice_dup(host);
        if (!is_address(is_v6 ? AF_INET6 : AF_INET, copy) || slice_to_u64(rest, UINT16_MAX, &port) < 0)
                return false;
        *ret = (struct listen_url){ .kind = LISTEN_WS, .host = TAKE(copy), .port = (uint16_t)port };
        return true;
}

/* Returns whether the host looks like a name. Then the error has another hint than for a wrong address. */
static bool has_name(struct slice place)
{
        struct slice host = slice_split(&place, ':');
        for (size_t i = 0; i < host.n; i++) {
                char c = host.p[i];
                if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
                        return true;
        }
        return false;
}

static int unix_parse(const char *text, const char *path, struct listen_url *ret, struct err *err)
{
        if (path[0] == '\0')
                return err_set(err, 0, -EINVAL, "invalid unix --listen URL `%s`; expected `unix:PATH`", text);
        if (strlen(path) > LISTEN_PATH_MAX)
                return listen_url_too_long(text, err);
        *ret = (struct listen_url){ .kind = LISTEN_UNIX, .path = mem_strdup(path) };
        return 0;
}

int listen_url_too_long(const char *text, struct err *err)
{
        return err_set(err, 0, -ENAMETOOLONG,
                       "invalid unix --listen URL `%s`; the path of a unix socket has at most %zu bytes",
                       text, LISTEN_PATH_MAX);
}

int listen_url_parse(const char *text, struct listen_url *ret, struct err *err)
{
        struct slice url = slice_from_str(text);

        if (slice_eq(url, S("stdio")) || slice_eq(url, S("stdio://"))) {
                *ret = (struct listen_url){ .kind = LISTEN_STDIO };
                return 0;
        }
        if (slice_starts(url, S("unix:")))
                return unix_parse(text, text + strlen("unix:"), ret, err);
        if (slice_starts(url, S("wss://")))
                return err_set(err, 0, -EINVAL,
                               "unsupported --listen URL `%s`: the server has no TLS of its own; listen on "
                               "`ws://127.0.0.1:PORT` behind a proxy that has (README: A machine far away)",
                               text);
        if (!slice_starts(url, S("ws://")))
                return err_set(
                        err, 0, -EINVAL,
                        "unsupported --listen URL `%s`; expected `ws://IP:PORT` or `stdio` (or `unix:PATH`)",
                        text);
        struct slice place = slice_from_str(text + strlen("ws://"));
        if (!ws_parse(place, ret))
                return err_set(err, 0, -EINVAL,
                               "invalid websocket --listen URL `%s`; expected `ws://IP:PORT`%s", text,
                               has_name(place) ? ", and names are not looked up: for this machine alone "
                                                 "`ws://127.0.0.1:PORT`"
                                               : "");
        return 0;
}

void listen_url_release(struct listen_url *u)
{
        free(u->host);
        free(u->path);
        *u = (struct listen_url){ 0 };
}

bool listen_url_is_loopback(const struct listen_url *u)
{
        struct in_addr v4;
        struct in6_addr v6;

        if (u->kind != LISTEN_WS)
                return true;
        if (inet_pton(AF_INET, u->host, &v4) == 1)
                return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
        if (inet_pton(AF_INET6, u->host, &v6) != 1)
                return false;
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}
