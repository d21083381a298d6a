/* httpd: serves HTTP requests on one connection until it closes or becomes a WebSocket. */
#include "conn/httpd.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "conn/auth.h"
#include "conn/conn.h"
#include "conn/outq.h"
#include "wire/ws.h"
#include "wire/ws_request.h"

#include <errno.h>
#include <sys/socket.h>

struct httpd {
        struct conns *conns;
        struct list link; /* conns::httpds */
        int fd;
        struct watch *watch;
        struct timer *timer;
        uint64_t since_ms;
        struct buf in;
        size_t looked; /* bytes of `in` that were there when the head was last found incomplete */
        struct outq out;
        char peer[64];
        bool is_ending; /* the last answer is queued; the connection ends when it is sent */
        bool is_shut;   /* the last answer was sent: input is discarded until the peer closes */
        bool is_dead;
        struct deferred reap;
};

/* One request, as its route sees it. */
struct exchange {
        struct httpd *h;
        const struct http_request *request;
        size_t head_bytes; /* length of the request head in h->in */
        bool is_last;      /* the answer ends the connection */
};

struct route {
        const char *path;
        void (*handle)(struct exchange *x);
};

/* --- ending and sending ------------------------------------------------------------------------------------------- */

static void free_httpd(struct deferred *d)
{
        struct httpd *h = container_of(d, struct httpd, reap);
        buf_release(&h->in);
        outq_release(&h->out);
        free(h);
}

/* Ends the connection; it is freed at the end of the turn. The descriptor is closed unless it was handed over (-1). */
static void httpd_drop(struct httpd *h)
{
        if (h->is_dead)
                return;
        h->is_dead = true;
        h->watch = watch_free(h->watch);
        h->timer = timer_free(h->timer);
        h->fd = fd_close(h->fd);
        list_remove(&h->link);
        h->conns->http_count--;
        h->conns->count--;
        loop_defer(h->conns->loop, &h->reap);
}

void httpd_drop_all(struct conns *s)
{
        struct httpd *h;
        list_each (h, &s->httpds, link)
                httpd_drop(h);
}

uint64_t httpd_oldest_wait_ms(const struct conns *s)
{
        const struct httpd *h = list_first(&s->httpds, struct httpd, link);
        uint64_t age_ms = clock_mono_ms() - h->since_ms;
        return age_ms < LIMIT_HTTP_PENDING_MS ? LIMIT_HTTP_PENDING_MS - age_ms : 0;
}

void httpd_drop_oldest(struct conns *s)
{
        struct httpd *h = list_first(&s->httpds, struct httpd, link);
        log_debug("http connection makes room", "peer=%s", h->peer);
        httpd_drop(h);
}

static void flush(struct httpd *h)
{
        int r = outq_flush(&h->out, h->fd);
        if (r < 0) {
                httpd_drop(h);
                return;
        }
        if (r == 0 && h->is_ending && !h->is_shut) {
                /* close() would send a reset when unread bytes are left, and the peer might lose the answer. */
                h->is_shut = true;
                if (shutdown(h->fd, SHUT_WR) < 0) {
                        httpd_drop(h);
                        return;
                }
        }
        bool reads = h->is_shut || (!h->is_ending && h->out.bytes == 0);
        watch_set(h->watch, (reads ? WATCH_READ : 0u) | (h->out.bytes ? WATCH_WRITE : 0u));
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void answer(struct httpd *h, const struct http_answer *a)
{
        struct buf *b = outq_begin(&h->out, 256 + a->body.n);
        must(http_answer_write(b, a) == 0);
        must(outq_end(&h->out) == 0);
        if (a->wants_close)
                h->is_ending = true;
}

/* No route reads a body. So the connection ends after a request with a body: we do not know where the next request begins. */
static bool must_close(const struct http_request *r)
{
        return !r->is_kept_alive || r->content_length > 0 || r->is_chunked;
}

static void reply(struct exchange *x, int status, const char *text, const char *extra_headers)
{
        answer(x->h, &(struct http_answer){
                             .status = status,
                             .content_type = text ? "text/plain; charset=utf-8" : NULL,
                             .body = slice_from_str(text ? text : ""),
                             .extra_headers = extra_headers,
                             .is_head = slice_eq(x->request->method, S("HEAD")),
                             .wants_close = x->is_last || must_close(x->request),
                     });
}

static bool is_get_or_head(const struct http_request *r)
{
        return slice_eq(r->method, S("GET")) || slice_eq(r->method, S("HEAD"));
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

static void route_alive(struct exchange *x)
{
        if (!is_get_or_head(x->request))
                reply(x, 405, NULL, "allow: GET,HEAD\r\n");
        else
                reply(x, 200, NULL, NULL);
}

static void route_ready(struct exchange *x)
{
        if (is_get_or_head(x->request) && x->h->conns->is_draining)
                reply(x, 503, "draining", NULL);
        else
                route_alive(x);
}

/* Returns whether one more connection is allowed. The limit keeps enough descriptors for the commands of the clients that are
 * connected already. */
static bool has_room(struct conns *s)
{
        size_t conns = s->count - s->http_count;
        if (conns < s->max) {
                s->is_full_logged = false;
                return true;
        }
        if (!s->is_full_logged)
                log_warn("connections refused", "limit=open_files connections=%zu remedy=RLIMIT_NOFILE",
                         conns);
        s->is_full_logged = true;
        return false;
}

static void upgrade(struct exchange *x, struct slice key, const struct identity *who)
{
        struct httpd *h = x->h;
        if (!has_room(h->conns)) {
                x->is_last = true;
                reply(x, 503, "too many connections for the server's limit on open files (RLIMIT_NOFILE)",
                      NULL);
                return;
        }
        char accept[29], headers[128];
        ws_accept(key, accept);
        snprintf(headers, sizeof(headers),
                 "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: %s\r\n", accept);
        answer(h, &(struct http_answer){ .status = 101, .extra_headers = headers });
        struct slice pending = slice_from(h->in.p + x->head_bytes, h->in.n - x->head_bytes);
        h->watch = watch_free(h->watch);
        struct conn *c = conn_new_ws(h->conns, h->fd, h->peer, who, pending);
        if (c) {
                h->fd = -1;
                conn_send_first(c, &h->out);
        }
        httpd_drop(h);
}

/* Upgrades the connection. The order of the checks is that of the reference server (docs/PROTOCOL.md): first the form of the
 * request, then the token. */
static void route_websocket(struct exchange *x)
{
        const struct http_request *r = x->request;
        struct slice key = http_header_find(r, S("sec-websocket-key"));
        if (!slice_eq(r->method, S("GET"))) {
                reply(x, 405, "Request method must be `GET`", NULL);
                return;
        }
        const char *bad = ws_request_check(r);
        if (bad) {
                reply(x, 400, bad, NULL);
                return;
        }
        struct identity who;
        const char *refusal = auth_check(&x->h->conns->options->auth, r, clock_unix_ms() / 1000, &who);
        if (refusal) {
                if (refusal_must_log(&x->h->conns->refusals, REFUSAL_UPGRADE))
                        log_warn(refusal_event(REFUSAL_UPGRADE), "peer=%s why=%s", x->h->peer,
                                 log_quote(slice_from_str(refusal)));
                x->is_last = true; /* each guess at a token costs a connection */
                reply(x, 401, refusal, NULL);
                return;
        }
        upgrade(x, key, &who);
}

static const struct route routes[] = {
        { "/", route_websocket },
        { "/readyz", route_ready },
        { "/livez", route_alive },
        { "/healthz", route_alive },
};

static void on_request(struct exchange *x)
{
        /* Browsers send Origin with every WebSocket, other clients do not. Web pages must not reach us, so this comes first. */
        if (http_header_count(x->request, S("origin")) > 0) {
                reply(x, 403, NULL, NULL);
                return;
        }
        for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
                if (slice_eq(x->request->path, slice_from_str(routes[i].path))) {
                        routes[i].handle(x);
                        return;
                }
        }
        reply(x, 404, NULL, NULL);
}

/* --- reading requests --------------------------------------------------------------------------------------------- */

/* Each parse begins at the first byte. So a head that arrives byte by byte is parsed only when it may be complete, and once per
 * KiB, to refuse early what is not HTTP. */
static bool is_worth_parsing(const struct httpd *h)
{
        if (h->looked == 0 || h->in.n - h->looked >= KIB || h->in.n > HTTP_HEAD_MAX)
                return true;
        size_t from = h->looked > 3 ? h->looked - 3 : 0;
        return memmem(h->in.p + from, h->in.n - from, "\n\r\n", 3) ||
               memmem(h->in.p + from, h->in.n - from, "\n\n", 2);
}

/* Handles the requests in `in`. Clients may pipeline requests: while many bytes of answers wait to be sent, no further request
 * is handled. */
static void consume(struct httpd *h)
{
        while (!h->is_dead && !h->is_ending && h->out.bytes < LIMIT_OUT_HIGH_BYTES && h->in.n > 0) {
                struct http_request request;
                if (!is_worth_parsing(h))
                        return;
                ssize_t used = http_parse(buf_slice(&h->in), &request);
                h->looked = used == 0 ? h->in.n : 0;
                if (used == 0)
                        return;
                if (used < 0) {
                        answer(h, &(struct http_answer){ .status = (int)-used, .wants_close = true });
                        return;
                }
                struct exchange x = { .h = h, .request = &request, .head_bytes = (size_t)used };
                on_request(&x);
                if (!h->is_dead) {
                        buf_consume(&h->in, (size_t)used);
                        timer_start(h->timer, LIMIT_HTTP_HEAD_MS);
                }
        }
}

static void discard(struct httpd *h)
{
        ssize_t r = recv(h->fd, h->conns->scratch, LIMIT_READ_BYTES, 0);
        if (r == 0 || (r < 0 && !fd_is_passing(errno)))
                httpd_drop(h);
}

static void receive(struct httpd *h)
{
        char *room;
        if (buf_reserve(&h->in, HTTP_HEAD_MAX + 1 - h->in.n, &room) < 0 || h->in.n > HTTP_HEAD_MAX)
                return; /* impossible: http_parse refuses a head of this length */
        ssize_t r = recv(h->fd, room, HTTP_HEAD_MAX + 1 - h->in.n, 0);
        if (r > 0) {
                buf_commit(&h->in, (size_t)r);
                consume(h);
        } else if (r == 0 || !fd_is_passing(errno)) {
                httpd_drop(h);
        }
}

static void on_ready(void *arg, unsigned events)
{
        struct httpd *h = arg;
        if (events & WATCH_READ) {
                if (h->is_shut)
                        discard(h);
                else
                        receive(h);
        }
        if (!h->is_dead)
                flush(h);
}

static void on_deadline(void *arg)
{
        struct httpd *h = arg;
        log_debug("http deadline", "peer=%s", h->peer);
        httpd_drop(h);
}

void httpd_new(struct conns *s, int fd, const char *peer)
{
        struct httpd *h = mem_new(struct httpd);
        h->conns = s;
        h->fd = fd;
        h->since_ms = clock_mono_ms();
        snprintf(h->peer, sizeof(h->peer), "%s", peer);
        buf_init(&h->in, HTTP_HEAD_MAX + 1);
        outq_init(&h->out, FRAMING_RAW, 2 * LIMIT_OUT_HIGH_BYTES);
        deferred_init(&h->reap, free_httpd);
        list_append(&s->httpds, &h->link);
        s->http_count++;
        s->count++;
        h->timer = timer_new(s->loop, on_deadline, h);
        timer_start(h->timer, LIMIT_HTTP_HEAD_MS);
        int r = watch_new(s->loop, fd, WATCH_READ, on_ready, h, &h->watch);
        if (r < 0) {
                if (refusal_must_log(&s->refusals, REFUSAL_CONNECTION))
                        log_warn_r(r, refusal_event(REFUSAL_CONNECTION), "peer=%s", h->peer);
                httpd_drop(h);
        }
}
