/* door: listens, reads the heads of requests, and lets those in that show the token. */
#include "door/door.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "door/guest.h"
#include "wire/http.h"
#include "wire/ws_request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 64
#define REST_MS 100        /* when no descriptor is free, nothing is accepted for this time */
#define KNOCK_LEAST_MS 500 /* a connection has this time for itself before a new one may take its place */

/* ---- opening ---- */

static void make_token(char ret[DOOR_TOKEN_CHARS + 1])
{
        unsigned char bytes[DOOR_TOKEN_CHARS / 2];
        random_bytes(bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++)
                (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static int listen_on(struct door *d, const struct listen_url *where, struct err *err)
{
        union {
                struct sockaddr any;
                struct sockaddr_in v4;
                struct sockaddr_in6 v6;
        } a = { 0 };
        socklen_t n = sizeof(a.v4);
        bool is_v6 = strchr(where->host, ':') != NULL;
        a.v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(where->port) };
        if (is_v6) {
                a.v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(where->port) };
                n = sizeof(a.v6);
        }
        must(inet_pton(a.any.sa_family, where->host,
                       is_v6 ? (void *)&a.v6.sin6_addr : (void *)&a.v4.sin_addr) == 1);
        int on = 1;
        d->fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (d->fd < 0 || setsockopt(d->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
            bind(d->fd, &a.any, n) < 0 || listen(d->fd, BACKLOG) < 0 || getsockname(d->fd, &a.any, &n) < 0)
                return err_set(err, 0, -errno, "cannot listen on %s port %u: %s", where->host, where->port,
                               errno_text(errno));
        int chars = snprintf(d->url, sizeof(d->url), "ws://%s%s%s:%u", is_v6 ? "[" : "", where->host,
                             is_v6 ? "]" : "", ntohs(is_v6 ? a.v6.sin6_port : a.v4.sin_port));
        d->base_chars = (size_t)chars;
        (void)snprintf(d->url + chars, sizeof(d->url) - d->base_chars, "/%s", d->token);
        return 0;
}

int door_open(struct door *d, const struct remote *remote, const struct farhand_options *options,
              const struct listen_url *where, struct err *err)
{
        *d = (struct door){ .guests = { .remote = remote, .options = *options }, .fd = -1 };
        make_token(d->token);
        return listen_on(d, where, err);
}

/* ---- judging a request ---- */

/* Compares in a time that does not tell where the text differs from the token. */
static bool is_token(const struct door *d, struct slice text)
{
        unsigned differs = 0;
        if (text.n != DOOR_TOKEN_CHARS)
                return false;
        for (size_t i = 0; i < DOOR_TOKEN_CHARS; i++)
                differs |= (unsigned char)text.p[i] ^ (unsigned char)d->token[i];
        return differs == 0;
}

static bool shows_token(const struct door *d, const struct http_request *r)
{
        struct slice rest = http_header_find(r, S("authorization"));
        if (slice_eq(r->path, S("/")) && http_header_count(r, S("authorization")) == 1) {
                struct slice scheme = slice_split(&rest, ' ');
                return slice_eq_nocase(scheme, S("bearer")) && is_token(d, slice_trim(rest));
        }
        return slice_starts(r->path, S("/")) && is_token(d, slice_from(r->path.p + 1, r->path.n - 1));
}

/* Returns 0 when the request gets in, or the status of the refusal, with its text. */
static int judge(const struct door *d, const struct http_request *r, const char **ret_why)
{
        *ret_why = "";
        if (http_header_count(r, S("origin")) > 0) /* web pages must not reach us, whatever they know */
                return 403;
        *ret_why = "the token is missing or wrong";
        if (!shows_token(d, r))
                return 401;
        *ret_why = "Request method must be `GET`";
        if (!slice_eq(r->method, S("GET")))
                return 405;
        *ret_why = ws_request_check(r);
        if (*ret_why)
                return 400;
        *ret_why = "too many connections";
        return atomic_load(&d->guests.count) >= GUESTS_MAX ? 503 : 0;
}

/* ---- connections that have not shown the token ---- */

static void drop(struct door *d, size_t i)
{
        fd_close(d->knocking[i].fd);
        buf_release(&d->knocking[i].in);
        d->knocking_count--;
        memmove(&d->knocking[i], &d->knocking[i + 1], (d->knocking_count - i) * sizeof(d->knocking[0]));
}

/* Sends a refusal at once: an answer of this size fits into the empty buffer of a socket. What else the peer sends is read before the
 * socket is closed: otherwise the peer could get a reset in place of the answer. */
static void refuse(struct knock *k, int status, const char *why)
{
        _buf_ struct buf out = BUF_INIT(4096);
        const struct http_answer answer = {
                .status = status,
                .content_type = "text/plain; charset=utf-8",
                .body = slice_from_str(why),
                .wants_close = true,
        };
        if (http_answer_write(&out, &answer) == 0)
                (void)send(k->fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)shutdown(k->fd, SHUT_WR);
        k->is_refused = true;
}

/* Gives the connection to a thread of its own. Returns whether the knock is done with. */
static bool let_in(struct door *d, struct knock *k, const struct http_request *request, size_t head_bytes)
{
        struct slice early = slice_from(k->in.p + head_bytes, k->in.n - head_bytes);
        if (guest_start(&d->guests, k->fd, http_header_find(request, S("sec-websocket-key")), early) < 0) {
                refuse(k, 503, "no thread for the connection");
                return false;
        }
        k->fd = -1;
        return true;
}

/* Looks at what has arrived. Returns whether the knock is done with. */
static bool consider(struct door *d, struct knock *k)
{
        struct http_request request;
        const char *why = "";
        /* Each parse begins at the first byte again. So a head is parsed only when its empty line may be there. */
        if (k->in.n <= HTTP_HEAD_MAX && !memmem(k->in.p, k->in.n, "\n\r\n", 3) &&
            !memmem(k->in.p, k->in.n, "\n\n", 2))
                return false;
        ssize_t used = http_parse(buf_slice(&k->in), &request);
        if (used == 0)
                return false;
        int status = used < 0 ? (int)-used : judge(d, &request, &why);
        if (status == 0)
                return let_in(d, k, &request, (size_t)used);
        refuse(k, status, why);
        return false;
}

/* Reads. Returns whether the knock is done with. */
static bool on_knock(struct door *d, struct knock *k)
{
        char *room, dropped[4096];
        if (k->is_refused) {
                ssize_t n = recv(k->fd, dropped, sizeof(dropped), 0);
                return n == 0 || (n < 0 && errno != EINTR && !fd_is_passing(errno));
        }
        if (buf_reserve(&k->in, HTTP_HEAD_MAX + 1 - k->in.n, &room) < 0)
                return true; /* impossible: http_parse refuses a head of this length */
        ssize_t n = recv(k->fd, room, HTTP_HEAD_MAX + 1 - k->in.n, 0);
        if (n <= 0)
                return n == 0 || (errno != EINTR && !fd_is_passing(errno));
        buf_commit(&k->in, (size_t)n);
        return consider(d, k);
}

/* ---- accepting ---- */

static bool is_crowded(const struct door *d, uint64_t now)
{
        return d->knocking_count == DOOR_KNOCKING_MAX && now - d->knocking[0].since_ms < KNOCK_LEAST_MS;
}

/* Accepts a connection. Returns false when the system has no descriptor or no memory for it. */
static bool accept_one(struct door *d, uint64_t now)
{
        int fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), on = 1;
        if (fd < 0)
                return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (d->knocking_count == DOOR_KNOCKING_MAX)
                drop(d, 0);
        d->knocking[d->knocking_count++] =
                (struct knock){ .fd = fd, .since_ms = now, .in = BUF_INIT(HTTP_HEAD_MAX + 1) };
        return true;
}

void door_run(struct door *d, int wake)
{
        uint64_t rest_until = 0;
        for (;;) {
                struct pollfd asked[DOOR_KNOCKING_MAX + 2] = { { .fd = wake, .events = POLLIN } };
                uint64_t now = clock_mono_ms(), due = UINT64_MAX;
                while (d->knocking_count > 0 && now - d->knocking[0].since_ms >= DOOR_HEAD_MS)
                        drop(d, 0);
                if (d->knocking_count > 0)
                        due = d->knocking[0].since_ms + DOOR_HEAD_MS;
                if (is_crowded(d, now))
                        rest_until = MAX(rest_until, d->knocking[0].since_ms + KNOCK_LEAST_MS);
                if (now < rest_until)
                        due = MIN(due, rest_until);
                asked[1] = (struct pollfd){ .fd = now < rest_until ? -1 : d->fd, .events = POLLIN };
                for (size_t i = 0; i < d->knocking_count; i++)
                        asked[i + 2] = (struct pollfd){ .fd = d->knocking[i].fd, .events = POLLIN };
                int n = poll(asked, d->knocking_count + 2, due == UINT64_MAX ? -1 : (int)(due - now));
                if (n > 0 && asked[0].revents)
                        return;
                if (n <= 0)
                        continue;
                for (size_t i = d->knocking_count; i-- > 0;)
                        if (asked[i + 2].revents && on_knock(d, &d->knocking[i]))
                                drop(d, i);
                if (asked[1].revents && !accept_one(d, now))
                        rest_until = now + REST_MS;
        }
}
