/* endpoint: takes the URL of a server apart. */
#include "transport/endpoint.h"

#include "base/authority.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/un.h>

#define UNIX_PATH_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)
#define HOST_BYTES_MAX 253 /* the longest name in DNS */
#define TLS_PORT 443

/* Returns whether `host` has only characters of names and addresses, so that no host can end a line of the HTTP head; '%' begins
 * the zone of an IPv6 address. */
static bool is_host(struct slice host)
{
        for (size_t i = 0; i < host.n; i++) {
                char c = host.p[i];
                bool is_word = (c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
                if (!is_word && !strchr(".-_:%", c))
                        return false;
        }
        return host.n > 0 && host.n <= HOST_BYTES_MAX;
}

static bool is_path(struct slice path)
{
        for (size_t i = 0; i < path.n; i++)
                if ((unsigned char)path.p[i] <= ' ' || (unsigned char)path.p[i] >= 0x7f || path.p[i] == '#')
                        return false;
        return true;
}

/* Parses HOST:PORT or [HOST]:PORT, where ":PORT" may be missing if there is a default. */
static bool parse_authority(struct slice text, unsigned default_port, struct endpoint *ret)
{
        struct slice host, port = text;
        if (slice_starts(text, S("["))) {
                port = slice_from(text.p + 1, text.n - 1);
                host = slice_split(&port, ']');
                if (!port.p || (port.n > 0 && port.p[0] != ':'))
                        return false;
                port = port.n > 0 ? slice_from(port.p + 1, port.n - 1) : (struct slice){ 0 };
        } else {
                host = slice_split(&port, ':');
                if (host.n > 0 && memchr(host.p, '%', host.n))
                        return false;
        }
        uint64_t number = default_port;
        if ((port.p ? slice_to_u64(port, UINT16_MAX, &number) < 0 : default_port == 0) || number == 0)
                return false;
        if (!is_host(host))
                return false;
        ret->host = slice_dup(host);
        ret->port = (uint16_t)number;
        return true;
}

static int parse_ssh(const char *text, struct endpoint *ret, struct err *err)
{
        struct authority authority;
        const char *why = authority_parse_ssh(slice_from_str(text), &authority);
        if (!why && authority.host.n > HOST_BYTES_MAX)
                why = "its host is too long";
        if (why)
                return err_set(err, 0, -EINVAL, "`%s`: %s", text, why);
        *ret = (struct endpoint){
                .kind = ENDPOINT_SSH,
                .user = authority.has_user ? slice_dup(authority.user) : NULL,
                .host = slice_dup(authority.host),
                .port = authority.port,
                .path = mem_strdup("/"),
        };
        return 0;
}

int endpoint_parse(const char *text, struct endpoint *ret, struct err *err)
{
        struct slice url = slice_from_str(text);
        if (slice_starts(url, S("unix:"))) {
                const char *path = text + strlen("unix:");
                if (path[0] != '/')
                        return err_set(err, 0, -EINVAL, "`%s`: the path of a unix socket must be absolute",
                                       text);
                if (strlen(path) > UNIX_PATH_MAX)
                        return err_set(err, 0, -ENAMETOOLONG,
                                       "`%s`: the path of a unix socket has at most %zu bytes", text,
                                       UNIX_PATH_MAX);
                *ret = (struct endpoint){ .kind = ENDPOINT_UNIX, .path = mem_strdup(path) };
                return 0;
        }
        if (slice_starts(url, S("ssh://")))
                return parse_ssh(text, ret, err);
        bool is_tls = slice_starts(url, S("wss://"));
        if (!is_tls && !slice_starts(url, S("ws://")))
                return err_set(err, 0, -EINVAL,
                               "`%s`: expected ws://HOST:PORT, wss://HOST, unix:/PATH or ssh://HOST", text);
        size_t scheme = is_tls ? strlen("wss://") : strlen("ws://");
        struct slice rest = slice_from(url.p + scheme, url.n - scheme);
        size_t end = strcspn(rest.p, "/?#");
        struct slice authority = slice_from(rest.p, end), path = slice_from(rest.p + end, rest.n - end);
        if (memchr(authority.p, '@', authority.n))
                return err_set(err, 0, -EINVAL,
                               "a URL with a user or a password is refused: give a token instead");
        struct endpoint found = { .kind = is_tls ? ENDPOINT_TLS : ENDPOINT_TCP };
        if (!is_path(path) || !parse_authority(authority, is_tls ? TLS_PORT : 0, &found))
                return err_set(err, 0, -EINVAL, "`%s`: expected %s", text,
                               is_tls ? "wss://HOST[:PORT]" : "ws://HOST:PORT");
        found.path = path.n > 0 && path.p[0] == '/' ? slice_dup(path) : mem_printf("/%.*s", SLICE(path));
        *ret = found;
        return 0;
}

void endpoint_release(struct endpoint *e)
{
        free(e->user);
        free(e->host);
        free(e->path);
        *e = (struct endpoint){ 0 };
}
