/* exchange: one HTTP request and its response on their way through the proxy.
 *
 * Heads are read and written anew; bodies pass as they are, with their length or chunks checked, so that both sides agree on where a
 * message ends. When they do not, the connections end too.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "egress/answers.h"
#include "egress/connection_internal.h"

#include <errno.h>
#include <sys/socket.h>

#define READ_BYTES ((size_t)16 * KIB)
#define EARLY_BYTES ((size_t)16 * KIB) /* of later requests, while this one is under way */

static void progress(struct conn *c);

void exchange_release(struct conn *c)
{
        free(TAKE(c->exchange.method));
        buf_release(&c->exchange.request);
}

/* --- the request -------------------------------------------------------------------------------------------------- */

/* What comes after an upgrade is seen by nobody: where methods matter there is none. */
static bool may_upgrade(const struct net_policy *p)
{
        for (size_t i = 0; i < p->rule_count; i++)
                if (p->rules[i].method_count > 0)
                        return false;
        return !p->is_limited;
}

static void begin_chunks(struct http_body *b)
{
        static const struct http_request chunked = { .is_chunked = true };
        http_body_init(b, &chunked);
}

/* Another proxy is told the whole target. */
static bool leads_upstream(const struct conn *c, const struct http_target *t)
{
        _arena_ struct arena a = ARENA_INIT;
        struct net_target target = { .protocol = NET_HTTP, .port = t->port };
        return net_host_normalize(&a, t->host, &target.host) == 0 &&
               upstream_for(&c->network->policy, &target).is_set;
}

/* Does the request twice what it does once (RFC 9110, 9.2.2)? */
static bool is_idempotent(struct slice method)
{
        static const char *const methods[] = { "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE" };
        return slice_find(method, methods, ARRAY_LEN(methods)) < ARRAY_LEN(methods);
}

void exchange_begin(struct conn *c, const struct http_head *h, const struct http_target *t, size_t head_bytes)
{
        struct exchange *x = &c->exchange;
        _free_ char *host = slice_dup(t->host);
        bool is_connect = slice_eq(h->method, S("CONNECT"));
        *x = (struct exchange){ .method = slice_dup(h->method),
                                .is_tls = t->is_tls,
                                .wants_close = !h->is_kept_alive };
        buf_init(&x->request, 2 * LIMIT_EGRESS_HEAD_BYTES);
        if (!is_connect) {
                x->wants_upgrade = h->upgrade.p && may_upgrade(&c->network->policy);
                must(http_request_write(&x->request, h, t, leads_upstream(c, t), x->wants_upgrade) == 0);
                x->is_chunked = h->framing == HTTP_CHUNKED;
                x->length = h->framing == HTTP_LENGTH ? h->length : 0;
                x->is_retryable = is_idempotent(h->method) && !x->is_chunked && x->length == 0;
                if (x->is_chunked)
                        begin_chunks(&x->up_chunks);
        }
        uint16_t port = t->port;
        buf_consume(&c->in, head_bytes);
        c->scanned = 0;
        conn_go(c, is_connect ? NET_HTTPS_CONNECT : NET_HTTP, slice_from_str(host), port);
}

static bool has_whole_body(const struct conn *c)
{
        return c->exchange.is_chunked ? c->exchange.up_chunks.state == HTTP_BODY_DONE : c->up.left == 0;
}

/* The server cannot be understood, or has gone. */
static void fail(struct conn *c)
{
        if (c->exchange.has_reply)
                conn_kill(c);
        else
                conn_error(c, 502, S("upstream failure"));
}

/* Takes the chunks that are there. No more is read while the server has not taken them. */
static void take_chunks(struct conn *c)
{
        struct http_body *b = &c->exchange.up_chunks;
        size_t at = 0;
        struct slice unused;
        while (at < c->in.n && b->state != HTTP_BODY_DONE) {
                ssize_t n = http_body_next(b, slice_from(c->in.p + at, c->in.n - at), &unused);
                if (n < 0) {
                        if (c->exchange.has_reply)
                                conn_kill(c);
                        else
                                conn_error(c, 400, S(""));
                        return;
                }
                at += (size_t)n;
        }
        flow_give(&c->up, slice_from(c->in.p, at));
        buf_consume(&c->in, at);
}

static void take_early_body(struct conn *c)
{
        if (c->exchange.is_chunked) {
                take_chunks(c);
                return;
        }
        size_t n = (size_t)MIN((uint64_t)c->in.n, c->up.left);
        flow_give(&c->up, slice_from(c->in.p, n));
        c->up.left -= n;
        buf_consume(&c->in, n);
}

/* A kept connection may have been closed by the server just now. A request without a body goes to a new one then, unless the server may
 * have done already what must not be done twice. */
static bool retry(struct conn *c)
{
        if (!c->exchange.is_retryable || !c->route.is_reused)
                return false;
        flow_release(&c->up);
        flow_release(&c->down);
        conn_drop_server(c);
        c->stage = STAGE_ROUTE;
        route_redial(&c->route);
        return true;
}

static void run_up(struct conn *c)
{
        if (c->stage != STAGE_EXCHANGE || flow_run(&c->up) == 0)
                return;
        if (retry(c))
                return;
        /* The server takes no more, but may have answered already. */
        flow_release(&c->up);
        c->up.left = 0;
        c->exchange.is_cut = true;
}

void exchange_start(struct conn *c)
{
        struct exchange *x = &c->exchange;
        if (!c->route.is_reused) {
                conn_drop_server(c);
                conn_adopt_server(c, TAKE_FD(c->route.fd));
                if (c->stage == STAGE_DEAD)
                        return;
                c->server_host = slice_dup(c->route.target.host);
                c->server_port = c->route.target.port;
                c->server_peer = c->route.peer;
        }
        if (x->is_tls) {
                conn_error(c, 502, S("upstream failure"));
                return;
        }
        c->stage = STAGE_EXCHANGE;
        flow_init(&c->up, c->fd, c->server, x->length);
        flow_init(&c->down, c->server, c->fd, 0);
        flow_give(&c->up, buf_slice(&x->request));
        if (!c->route.is_reused || !x->is_retryable)
                buf_release(&x->request);
        take_early_body(c);
        run_up(c);
        conn_settle(c);
}

/* --- the response ------------------------------------------------------------------------------------------------- */

static void begin_body(struct conn *c, const struct http_head *h)
{
        struct exchange *x = &c->exchange;
        struct slice there = buf_slice(&c->reply_in);
        x->is_last = x->is_last || !h->is_kept_alive;
        switch (h->framing) {
        case HTTP_NO_BODY:
                x->reply = REPLY_DONE;
                return;
        case HTTP_CHUNKED:
                x->reply = REPLY_CHUNKS;
                begin_chunks(&x->down_chunks);
                return;
        case HTTP_LENGTH:
                c->down.left = h->length;
                break;
        case HTTP_UNTIL_END:
                c->down.left = FLOW_ENDLESS;
                break;
        }
        x->reply = REPLY_BODY;
        size_t n = (size_t)MIN((uint64_t)there.n, c->down.left);
        flow_give(&c->down, slice_from(there.p, n));
        buf_consume(&c->reply_in, n);
        if (c->down.left != FLOW_ENDLESS)
                c->down.left -= n;
}

/* Takes a whole head. Returns false when the stage has changed. */
static bool take_head(struct conn *c, size_t n)
{
        struct exchange *x = &c->exchange;
        struct http_head h;
        if (http_response_read(slice_from(c->reply_in.p, n), slice_from_str(x->method), &h) < 0 ||
            (h.status == 101 && !(x->wants_upgrade && h.upgrade.p))) {
                fail(c);
                return false;
        }
        bool is_final = h.status >= 200;
        if (is_final)
                x->closes = x->wants_close || h.framing == HTTP_UNTIL_END || !has_whole_body(c) || x->is_cut;
        _buf_ struct buf out = BUF_INIT(2 * LIMIT_EGRESS_HEAD_BYTES);
        must(http_response_write(&out, &h, !x->closes) == 0);
        flow_give(&c->down, buf_slice(&out));
        buf_consume(&c->reply_in, n);
        c->reply_scanned = 0;
        x->has_reply = true;
        if (h.status == 101) {
                tunnel_start(c);
                return false;
        }
        if (is_final)
                begin_body(c, &h);
        return true;
}

static bool read_head(struct conn *c)
{
        ssize_t n = http_head_find(buf_slice(&c->reply_in), &c->reply_scanned);
        if (n > 0 && n <= LIMIT_EGRESS_HEAD_BYTES)
                return take_head(c, (size_t)n);
        if (n != 0 || c->reply_in.n >= LIMIT_EGRESS_HEAD_BYTES)
                fail(c);
        return false;
}

static void pass_chunks(struct conn *c)
{
        struct http_body *b = &c->exchange.down_chunks;
        size_t at = 0;
        struct slice unused;
        while (at < c->reply_in.n && b->state != HTTP_BODY_DONE) {
                ssize_t n = http_body_next(b, slice_from(c->reply_in.p + at, c->reply_in.n - at), &unused);
                if (n < 0) {
                        conn_kill(c);
                        return;
                }
                at += (size_t)n;
        }
        flow_give(&c->down, slice_from(c->reply_in.p, at));
        buf_consume(&c->reply_in, at);
        if (b->state == HTTP_BODY_DONE)
                c->exchange.reply = REPLY_DONE;
}

/* Both messages have passed. */
static void complete(struct conn *c)
{
        const struct exchange *x = &c->exchange;
        bool is_sent = has_whole_body(c) && !flow_is_pending(&c->up) && !x->is_cut;
        if (x->is_last || !is_sent || c->reply_in.n > 0)
                conn_drop_server(c);
        if (x->closes || !is_sent)
                conn_linger(c);
        else
                conn_next(c);
}

static void progress(struct conn *c)
{
        struct exchange *x = &c->exchange;
        while (c->stage == STAGE_EXCHANGE && c->reply_in.n > 0 && x->reply == REPLY_HEAD)
                if (!read_head(c))
                        break;
        if (c->stage == STAGE_EXCHANGE && x->reply == REPLY_CHUNKS)
                pass_chunks(c);
        if (c->stage != STAGE_EXCHANGE)
                return;
        if (flow_run(&c->down) < 0) {
                conn_kill(c);
                return;
        }
        if (x->reply == REPLY_BODY && c->down.has_ended && c->down.left != FLOW_ENDLESS) {
                conn_kill(c); /* the body is shorter than was said */
                return;
        }
        if (x->reply == REPLY_BODY && (c->down.left == 0 || c->down.has_ended))
                x->reply = REPLY_DONE;
        if (x->reply == REPLY_DONE && !flow_is_pending(&c->down))
                complete(c);
        else
                conn_settle(c);
}

static void fill_reply(struct conn *c)
{
        char *room;
        must(buf_reserve(&c->reply_in, READ_BYTES, &room) == 0);
        ssize_t n = recv(c->server, room, READ_BYTES, 0);
        if (n > 0) {
                buf_commit(&c->reply_in, (size_t)n);
                c->exchange.is_retryable = false;
                buf_release(&c->exchange.request);
        } else if (n == 0 || !fd_is_passing(errno)) {
                if (!retry(c))
                        fail(c);
        }
}

/* --- calls from the loop ------------------------------------------------------------------------------------------ */

void exchange_server_ready(struct conn *c, unsigned events)
{
        if (events & WATCH_WRITE)
                run_up(c);
        bool is_read = c->exchange.reply == REPLY_HEAD || c->exchange.reply == REPLY_CHUNKS;
        if (c->stage == STAGE_EXCHANGE && (events & WATCH_READ) && is_read)
                fill_reply(c);
        if (c->stage == STAGE_EXCHANGE)
                progress(c);
}

void exchange_client_ready(struct conn *c, unsigned events)
{
        if (events & WATCH_READ) {
                if (c->up.left == 0 && !conn_fill(c, EARLY_BYTES))
                        return;
                if (c->exchange.is_chunked)
                        take_chunks(c);
                run_up(c);
                if (c->stage == STAGE_EXCHANGE && c->up.has_ended) {
                        conn_kill(c); /* the body is shorter than was said */
                        return;
                }
        }
        if (c->stage == STAGE_EXCHANGE)
                progress(c);
}

unsigned exchange_client_wants(const struct conn *c)
{
        unsigned events = flow_is_pending(&c->down) ? WATCH_WRITE : 0u;
        bool reads;
        if (c->up.left > 0)
                reads = flow_wants_read(&c->up);
        else
                reads = c->in.n < EARLY_BYTES && (has_whole_body(c) || !flow_is_pending(&c->up));
        return events | (reads ? WATCH_READ : 0u);
}

unsigned exchange_server_wants(const struct conn *c)
{
        unsigned events = flow_is_pending(&c->up) ? WATCH_WRITE : 0u;
        bool reads = c->exchange.reply == REPLY_BODY
                             ? flow_wants_read(&c->down)
                             : c->exchange.reply != REPLY_DONE && !flow_is_pending(&c->down);
        return events | (reads ? WATCH_READ : 0u);
}
