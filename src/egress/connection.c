/* connection: the life of a client's connection, and what it asks for with its first bytes.
 *
 * All that happens is a call from the loop. A connection that ends in such a call is freed at the end of the turn, so that the functions
 * above it on the stack can still look at its stage.
 */
#include "egress/connection.h"

#include "base/fd.h"
#include "base/mem.h"
#include "egress/answers.h"
#include "egress/connection_internal.h"
#include "egress/socks.h"
#include "wire/egressmsg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#define READ_BYTES ((size_t)16 * KIB)
#define EARLY_BYTES ((size_t)16 * KIB) /* what a client may send before it has its answer */
#define LINGER_MS 2000
#define LINGER_BYTES (1 * MIB)

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void on_end(struct deferred *d)
{
        struct conn *c = container_of(d, struct conn, end);
        free(c);
}

static void end_route(struct conn *c)
{
        flow_release(&c->up);
        flow_release(&c->down);
        c->route.bytes_up = c->up.bytes;
        c->route.bytes_down = c->down.bytes;
        c->up.bytes = c->down.bytes = 0;
        route_release(&c->route);
}

void conn_drop_server(struct conn *c)
{
        c->server_watch = watch_free(c->server_watch);
        c->server = fd_close(c->server);
        free(TAKE(c->server_host));
        c->server_peer.ss_family = 0;
        buf_release(&c->reply_in);
        c->reply_scanned = 0;
}

void conn_kill(struct conn *c)
{
        if (c->stage == STAGE_DEAD)
                return;
        c->stage = STAGE_DEAD;
        exchange_release(c);
        end_route(c);
        conn_drop_server(c);
        c->watch = watch_free(c->watch);
        c->fd = fd_close(c->fd);
        c->timer = timer_free(c->timer);
        buf_release(&c->in);
        deferred_cancel(&c->again);
        loop_defer(&c->network->egress->loop, &c->end);
        network_remove(c->network, &c->member);
}

static void cut(struct member *m)
{
        conn_kill(container_of(m, struct conn, member));
}

static void resume(struct member *m)
{
        struct conn *c = container_of(m, struct conn, member);
        if (c->stage == STAGE_HEAD && c->in.n > 0)
                loop_defer(&c->network->egress->loop, &c->again);
        conn_settle(c);
}

static bool may_go_on(struct member *m)
{
        struct conn *c = container_of(m, struct conn, member);
        return !c->route.network || route_rejudge(&c->route);
}

void conn_linger(struct conn *c)
{
        if (c->stage == STAGE_DEAD)
                return;
        end_route(c);
        exchange_release(c);
        conn_drop_server(c);
        if (shutdown(c->fd, SHUT_WR) < 0) {
                conn_kill(c);
                return;
        }
        c->stage = STAGE_LINGER;
        buf_release(&c->in);
        timer_start(c->timer, LINGER_MS);
        conn_settle(c);
}

static void throw_away(struct conn *c)
{
        static char bytes[64 * KIB];
        ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);
        if (n < 0 && fd_is_passing(errno))
                return;
        c->up.bytes += n > 0 ? (size_t)n : 0;
        if (n <= 0 || c->up.bytes > LINGER_BYTES)
                conn_kill(c);
}

/* --- reading and answering ---------------------------------------------------------------------------------------- */

void conn_answer(struct conn *c, const struct buf *out)
{
        if (c->stage != STAGE_DEAD && send(c->fd, out->p, out->n, MSG_NOSIGNAL) != (ssize_t)out->n)
                conn_kill(c);
}

void conn_error(struct conn *c, unsigned status, struct slice text)
{
        _buf_ struct buf out = BUF_INIT(4 * KIB);
        must(answers_error(&out, status, text) == 0);
        conn_answer(c, &out);
        conn_linger(c);
}

bool conn_fill(struct conn *c, size_t max)
{
        char *room;
        if (c->in.n >= max)
                return true;
        size_t n = MIN(READ_BYTES, max - c->in.n);
        must(buf_reserve(&c->in, n, &room) == 0);
        ssize_t got = recv(c->fd, room, n, 0);
        if (got > 0)
                buf_commit(&c->in, (size_t)got);
        else if (got == 0 || !fd_is_passing(errno))
                conn_kill(c);
        return c->stage != STAGE_DEAD;
}

/* Every request makes messages to the server. While it does not read them no other request begins. */
static bool may_begin(const struct conn *c)
{
        return !link_is_full(&c->network->egress->link);
}

void conn_settle(struct conn *c)
{
        unsigned client = 0, server = 0;
        switch (c->stage) {
        case STAGE_HEAD:
                client = may_begin(c) ? WATCH_READ : 0u;
                server = WATCH_READ;
                break;
        case STAGE_UPSTREAM:
                server = WATCH_READ;
                __attribute__((fallthrough));
        case STAGE_ROUTE:
                client = c->in.n < EARLY_BYTES ? WATCH_READ : 0u;
                break;
        case STAGE_EXCHANGE:
                client = exchange_client_wants(c);
                server = exchange_server_wants(c);
                break;
        case STAGE_TUNNEL:
                client = (flow_wants_read(&c->up) ? WATCH_READ : 0u) |
                         (flow_is_pending(&c->down) ? WATCH_WRITE : 0u);
                server = (flow_wants_read(&c->down) ? WATCH_READ : 0u) |
                         (flow_is_pending(&c->up) ? WATCH_WRITE : 0u);
                break;
        case STAGE_LINGER:
                client = WATCH_READ;
                break;
        case STAGE_DEAD:
                return;
        }
        watch_set(c->watch, client);
        if (c->server_watch)
                watch_set(c->server_watch, server);
}

/* --- where it goes ------------------------------------------------------------------------------------------------ */

static void answer_refusal(struct conn *c)
{
        struct route *r = &c->route;
        struct answers_refusal refusal = {
                .host = r->target.host,
                .reason = r->reason,
                .decision = slice_from_str(net_action_word(r->action)),
                .source = slice_from_str(net_source_word(r->source)),
                .protocol = slice_from_str(net_protocol_word(r->target.protocol)),
                .port = r->target.port,
        };
        _buf_ struct buf out = BUF_INIT(8 * KIB);
        if (r->target.protocol == NET_HTTP) {
                must(answers_refuse_http(&out, &refusal) == 0);
                conn_answer(c, &out);
                conn_linger(c);
                return;
        }
        must(answers_refuse_connect(&out, &refusal) == 0);
        conn_answer(c, &out);
        if (c->stage != STAGE_DEAD)
                conn_next(c);
}

static void answer_socks(struct conn *c, enum socks_code code, const struct sockaddr_storage *bound)
{
        char reply[SOCKS_REPLY_MAX];
        size_t n = socks_reply_write(reply, code, bound);
        if (send(c->fd, reply, n, MSG_NOSIGNAL) != (ssize_t)n)
                conn_kill(c);
        else if (code != SOCKS_DONE)
                conn_linger(c);
}

/* The client hears that it is connected. */
static void begin_tunnel(struct conn *c)
{
        struct sockaddr_storage bound;
        socklen_t size = sizeof(bound);
        if (c->kind == LISTENER_SOCKS) {
                bool is_known = getsockname(c->server, (struct sockaddr *)&bound, &size) == 0;
                answer_socks(c, SOCKS_DONE, is_known ? &bound : NULL);
        } else {
                _buf_ struct buf out = BUF_INIT(KIB);
                must(answers_connected(&out) == 0);
                conn_answer(c, &out);
        }
        if (c->stage == STAGE_DEAD)
                return;
        flow_init(&c->up, c->fd, c->server, FLOW_ENDLESS);
        flow_init(&c->down, c->server, c->fd, FLOW_ENDLESS);
        tunnel_start(c);
}

static void answer_failure(struct conn *c)
{
        char text[64];
        if (c->kind == LISTENER_SOCKS) {
                answer_socks(c, SOCKS_UNREACHABLE, NULL);
                return;
        }
        if (c->route.target.protocol == NET_HTTP)
                (void)snprintf(text, sizeof(text), "upstream failure");
        else
                (void)snprintf(text, sizeof(text), "upstream failure: %s", errno_name(c->route.why));
        conn_error(c, 502, slice_from_str(text));
}

/* Tells the upstream proxy where the tunnel shall lead. */
static void ask_upstream(struct conn *c)
{
        const struct net_target *t = &c->route.target;
        _buf_ struct buf out = BUF_INIT(4 * KIB);
        must(buf_printf(&out, "CONNECT %.*s:%u HTTP/1.1\r\nHost: %.*s:%u\r\n\r\n", SLICE(t->host), t->port,
                        SLICE(t->host), t->port) == 0);
        if (send(c->server, out.p, out.n, MSG_NOSIGNAL) != (ssize_t)out.n) {
                c->route.why = -EPIPE;
                answer_failure(c);
                return;
        }
        c->stage = STAGE_UPSTREAM;
        timer_start(c->timer, LIMIT_EGRESS_DIAL_MS);
        conn_settle(c);
}

static void read_upstream(struct conn *c)
{
        char *room;
        struct http_head h;
        must(buf_reserve(&c->reply_in, READ_BYTES, &room) == 0);
        ssize_t got = recv(c->server, room, READ_BYTES, 0);
        if (got < 0 && fd_is_passing(errno))
                return;
        if (got > 0)
                buf_commit(&c->reply_in, (size_t)got);
        ssize_t n = http_head_find(buf_slice(&c->reply_in), &c->reply_scanned);
        if (n == 0 && got > 0 && c->reply_in.n < LIMIT_EGRESS_HEAD_BYTES)
                return;
        if (n <= 0 || http_response_read(slice_from(c->reply_in.p, (size_t)n), S("CONNECT"), &h) < 0 ||
            h.status / 100 != 2) {
                c->route.why = -ECONNREFUSED;
                answer_failure(c);
                return;
        }
        buf_consume(&c->reply_in, (size_t)n); /* what is behind it comes from the target */
        begin_tunnel(c);
}

static void connect_tunnel(struct conn *c)
{
        conn_adopt_server(c, TAKE_FD(c->route.fd));
        if (c->stage == STAGE_DEAD)
                return;
        if (c->route.is_upstream)
                ask_upstream(c);
        else
                begin_tunnel(c);
}

static void on_routed(struct route *r, enum route_result result)
{
        struct conn *c = container_of(r, struct conn, route);
        if (result == ROUTE_REACHED && r->target.protocol == NET_HTTP)
                exchange_start(c);
        else if (result == ROUTE_REACHED)
                connect_tunnel(c);
        else if (result == ROUTE_FAILED)
                answer_failure(c);
        else if (c->kind == LISTENER_SOCKS)
                answer_socks(c, SOCKS_NOT_ALLOWED, NULL);
        else
                answer_refusal(c);
}

/* A server that the connection already has stays only when this is for the same one. */
void conn_go(struct conn *c, enum net_protocol protocol, struct slice host, uint16_t port)
{
        _arena_ struct arena a = ARENA_INIT;
        struct net_target t = { .protocol = protocol,
                                .port = port,
                                .method = slice_from_str(c->exchange.method) };
        if (net_host_normalize(&a, host, &t.host) < 0) {
                if (c->kind == LISTENER_SOCKS)
                        answer_socks(c, SOCKS_NOT_ALLOWED, NULL);
                else
                        conn_error(c, 400, S(""));
                return;
        }
        bool is_same = c->server >= 0 && protocol == NET_HTTP && port == c->server_port &&
                       slice_eq(slice_from_str(c->server_host), t.host);
        if (!is_same)
                conn_drop_server(c);
        timer_stop(c->timer);
        c->stage = STAGE_ROUTE;
        c->route = (struct route){ .fd = -1, .peer = c->server_peer, .done = on_routed };
        memcpy(c->route.client, c->client, sizeof(c->client));
        route_start(&c->route, c->network, &t);
        conn_settle(c);
}

/* --- the first bytes ---------------------------------------------------------------------------------------------- */

static void report_unix_socket(struct conn *c, struct slice method)
{
        struct net_target t = { .protocol = NET_HTTP, .host = S("unix-socket"), .method = method };
        struct decision d = {
                .action = NET_DENY,
                .source = NET_PROXY_STATE,
                .is_guard = true,
                .target = &t,
                .reason = slice_from_str(net_reason_word(NET_UNIX_SOCKET_UNSUPPORTED)),
                .client = slice_from_str(c->client),
        };
        network_decided(c->network, &d);
}

/* Takes a whole head. */
static void take_request(struct conn *c, size_t n)
{
        struct http_head h;
        struct http_target t;
        int r = http_request_read(slice_from(c->in.p, n), &h);
        if (r == 0 && h.method.n > EGRESSMSG_METHOD_MAX)
                r = -EBADMSG;
        if (r < 0) {
                conn_error(c, r == -EMSGSIZE ? 431 : 400, S(""));
                return;
        }
        if (h.has_unix_socket) {
                report_unix_socket(c, h.method);
                conn_error(c, 501, S("unix sockets unsupported"));
                return;
        }
        r = http_target_read(&h, &t);
        if (r == -ENOENT)
                conn_error(c, 400, S("missing host"));
        else if (r == -EXDEV)
                conn_error(c, 400, S("Host header does not match request target"));
        else if (r < 0)
                conn_error(c, 400, S(""));
        else if (slice_eq(h.method, S("CONNECT")) && h.framing != HTTP_NO_BODY)
                conn_error(c, 400, S(""));
        else
                exchange_begin(c, &h, &t, n);
}

static void read_http(struct conn *c)
{
        if (c->scanned == 0 && slice_starts(buf_slice(&c->in), S("\r\n")))
                buf_consume(&c->in, 2); /* some clients end a body with an empty line (RFC 9112, 2.2) */
        ssize_t n = http_head_find(buf_slice(&c->in), &c->scanned);
        if (n < 0)
                conn_error(c, 400, S(""));
        else if (n > LIMIT_EGRESS_HEAD_BYTES || (n == 0 && c->in.n >= LIMIT_EGRESS_HEAD_BYTES))
                conn_error(c, 431, S(""));
        else if (n > 0)
                take_request(c, (size_t)n);
}

static void take_socks_request(struct conn *c)
{
        struct socks_request request;
        ssize_t n = socks_request_read(buf_slice(&c->in), &request);
        if (n == 0)
                return;
        if (n == -EAFNOSUPPORT)
                answer_socks(c, SOCKS_NO_ADDRESS_TYPE, NULL);
        else if (n < 0)
                conn_kill(c);
        else if (request.command != SOCKS_CONNECT)
                answer_socks(c, SOCKS_NO_COMMAND, NULL);
        else {
                char host[256];
                memcpy(host, request.host.p, request.host.n);
                struct slice name = slice_from(host, request.host.n);
                buf_consume(&c->in, (size_t)n);
                conn_go(c, NET_SOCKS5_TCP, name, request.port);
        }
}

static void read_socks(struct conn *c)
{
        bool is_welcome;
        if (c->has_hello) {
                take_socks_request(c);
                return;
        }
        ssize_t n = socks_hello_read(buf_slice(&c->in), &is_welcome);
        if (n == 0)
                return;
        if (n < 0) {
                conn_kill(c);
                return;
        }
        static const char yes[] = { 5, 0 }, no[] = { 5, (char)0xff };
        if (send(c->fd, is_welcome ? yes : no, 2, MSG_NOSIGNAL) != 2) {
                conn_kill(c);
                return;
        }
        if (!is_welcome) {
                conn_linger(c);
                return;
        }
        c->has_hello = true;
        buf_consume(&c->in, (size_t)n);
        take_socks_request(c);
}

static void read_first(struct conn *c)
{
        if (c->in.n == 0)
                return;
        if (c->kind == LISTENER_SOCKS)
                read_socks(c);
        else
                read_http(c);
        conn_settle(c);
}

void conn_next(struct conn *c)
{
        end_route(c);
        exchange_release(c);
        c->stage = STAGE_HEAD;
        c->scanned = 0;
        timer_start(c->timer, LIMIT_EGRESS_HEAD_MS);
        if (c->in.n == 0)
                buf_release(&c->in);
        else
                loop_defer(&c->network->egress->loop,
                           &c->again); /* not here: a client can send thousands of requests at once */
        conn_settle(c);
}

static void on_again(struct deferred *d)
{
        struct conn *c = container_of(d, struct conn, again);
        if (c->stage == STAGE_HEAD && may_begin(c))
                read_first(c);
}

/* --- calls from the loop ------------------------------------------------------------------------------------------ */

static void on_client(void *arg, unsigned events)
{
        struct conn *c = arg;
        switch (c->stage) {
        case STAGE_HEAD:
                if (!may_begin(c))
                        conn_settle(c);
                else if (conn_fill(c, LIMIT_EGRESS_HEAD_BYTES))
                        read_first(c);
                break;
        case STAGE_ROUTE:
        case STAGE_UPSTREAM:
                if (conn_fill(c, EARLY_BYTES))
                        conn_settle(c);
                break;
        case STAGE_EXCHANGE:
                exchange_client_ready(c, events);
                break;
        case STAGE_TUNNEL:
                tunnel_run(c, events & WATCH_READ, events & WATCH_WRITE);
                break;
        case STAGE_LINGER:
                throw_away(c);
                break;
        case STAGE_DEAD:
                break;
        }
}

static void on_server(void *arg, unsigned events)
{
        struct conn *c = arg;
        if (c->stage == STAGE_TUNNEL)
                tunnel_run(c, events & WATCH_WRITE, events & WATCH_READ);
        else if (c->stage == STAGE_EXCHANGE)
                exchange_server_ready(c, events);
        else if (c->stage == STAGE_UPSTREAM)
                read_upstream(c);
        else
                conn_drop_server(c); /* nothing was asked of it: it has closed, or says what it should not */
}

void conn_adopt_server(struct conn *c, int fd)
{
        c->server = fd;
        if (watch_new(&c->network->egress->loop, fd, 0, on_server, c, &c->server_watch) < 0)
                conn_kill(c);
}

static void on_late(void *arg)
{
        conn_kill(arg);
}

static void write_client(struct conn *c, const struct sockaddr_storage *a)
{
        char text[INET6_ADDRSTRLEN] = "";
        const struct sockaddr_in *in4 = (const void *)a;
        const struct sockaddr_in6 *in6 = (const void *)a;
        if (a->ss_family == AF_INET6) {
                (void)inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
                (void)snprintf(c->client, sizeof(c->client), "[%s]:%u", text, ntohs(in6->sin6_port));
        } else {
                (void)inet_ntop(AF_INET, &in4->sin_addr, text, sizeof(text));
                (void)snprintf(c->client, sizeof(c->client), "%s:%u", text, ntohs(in4->sin_port));
        }
}

void connection_start(struct network *n, enum listener_kind kind, int fd,
                      const struct sockaddr_storage *client)
{
        struct conn *c = mem_new(struct conn);
        *c = (struct conn){ .network = n, .kind = kind, .fd = fd, .server = -1, .route = { .fd = -1 } };
        c->member.cut = cut;
        c->member.may_go_on = may_go_on;
        c->member.resume = resume;
        list_init(&c->member.link);
        deferred_init(&c->end, on_end);
        deferred_init(&c->again, on_again);
        buf_init(&c->in, 2 * LIMIT_EGRESS_HEAD_BYTES);
        buf_init(&c->reply_in, 2 * LIMIT_EGRESS_HEAD_BYTES);
        flow_init(&c->up, -1, -1, 0);
        flow_init(&c->down, -1, -1, 0);
        c->timer = timer_new(&n->egress->loop, on_late, c);
        write_client(c, client);
        network_add(n, &c->member);
        if (watch_new(&n->egress->loop, fd, WATCH_READ, on_client, c, &c->watch) < 0) {
                conn_kill(c);
                return;
        }
        timer_start(c->timer, LIMIT_EGRESS_HEAD_MS);
        if (conn_fill(c, LIMIT_EGRESS_HEAD_BYTES)) /* often it is there already */
                read_first(c);
}
