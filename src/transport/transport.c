/* transport: connects to a server, and moves messages over one connection. */
#include "transport/transport.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "transport/child.h"
#include "transport/resolver.h"
#include "transport/upgrade.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 * 1024)
/* Room for a message and what one read brings behind it. */
#define IN_MAX (TRANSPORT_MESSAGE_MAX + 2 * READ_BYTES)
/* Room for what callers queue, and for heads of frames, the handshake, pings and pongs; twice, because sent bytes are cut off only
 * when they are half of the queue. */
#define OUT_MAX (2 * (TRANSPORT_OUT_MAX + 1024 * 1024))
/* The most answers that are queued for a server that pings and does not read. */
#define PONGS_MAX 1000
/* How long an ssh that may be asking for a password gets to put the terminal right. */
#define GREETING_PATIENCE_MS 1000

void transport_init(struct transport *t)
{
        *t = (struct transport){ .fd = -1 };
        buf_init(&t->in, IN_MAX);
        buf_init(&t->message, TRANSPORT_MESSAGE_MAX);
        buf_init(&t->out, OUT_MAX);
}

/* Tells the child that no more bytes will come, and reads until the child has closed its end. A socket that is closed with unread
 * bytes would look to the child like a broken connection, about which ssh prints an error. */
static void take_leave(int fd, int patience_ms)
{
        char dropped[4096];
        uint64_t end = clock_mono_ms() + (uint64_t)patience_ms, now;
        (void)shutdown(fd, SHUT_WR);
        while ((now = clock_mono_ms()) < end) {
                if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, (int)(end - now)) <= 0)
                        continue;
                ssize_t n = recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);
                if (n == 0 || (n < 0 && errno != EINTR && !fd_is_passing(errno)))
                        return;
        }
}

void transport_close(struct transport *t, int patience_ms)
{
        if (t->state == TRANSPORT_GREETING) {
                child_terminate(t->child);
                patience_ms = MAX(patience_ms, GREETING_PATIENCE_MS);
        } else if (t->child > 0 && t->fd >= 0 && patience_ms > 0)
                take_leave(t->fd, patience_ms);
        t->resolver = resolver_free(t->resolver);
        fd_close(t->fd);
        (void)child_end(t->child, patience_ms);
        endpoint_release(&t->endpoint);
        free(t->token);
        buf_release(&t->in);
        buf_release(&t->message);
        buf_release(&t->out);
        unsigned serial = t->serial;
        transport_init(t);
        t->serial = serial + 1;
}

static void begin_messages(struct transport *t)
{
        t->state = TRANSPORT_OPEN;
        t->heard_at_ms = t->pinged_at_ms = clock_mono_ms();
        ws_decoder_init(&t->ws, false, TRANSPORT_MESSAGE_MAX);
        line_decoder_init(&t->lines, TRANSPORT_MESSAGE_MAX);
}

static void begin_upgrade(struct transport *t)
{
        t->state = TRANSPORT_UPGRADING;
        upgrade_key(t->key);
        /* This cannot fail: the queue is empty, and has room for far more than the head of a request. */
        must(upgrade_request(&t->out, &t->endpoint, t->key, t->token) == 0);
}

static void keep_endpoint(struct transport *t, const struct endpoint *e, const char *token)
{
        t->endpoint = (struct endpoint){
                .kind = e->kind,
                .user = mem_strdup(e->user),
                .host = mem_strdup(e->host),
                .port = e->port,
                .path = mem_strdup(e->path),
        };
        t->token = mem_strdup(token);
}

static int open_unix(struct transport *t, struct err *err)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        memcpy(address.sun_path, t->endpoint.path,
               strlen(t->endpoint.path) + 1); /* endpoint_parse has checked that the path fits */
        t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return err_set(err, 0, -errno, "cannot connect to unix:%s: %s", t->endpoint.path,
                               errno_text(errno));
        begin_upgrade(t);
        return 0;
}

int transport_open(struct transport *t, const struct endpoint *e, const char *token, struct err *err)
{
        keep_endpoint(t, e, token);
        if (e->kind == ENDPOINT_UNIX)
                return open_unix(t, err);
        t->resolver = resolver_new(e->host, e->port, err);
        if (!t->resolver)
                return err->code;
        t->state = TRANSPORT_CONNECTING;
        t->fd = -1;
        return 0;
}

void transport_open_child(struct transport *t, int fd, pid_t pid)
{
        t->fd = fd;
        t->child = pid;
        t->is_lines = true;
        begin_messages(t);
}

void transport_open_tls(struct transport *t, const struct endpoint *e, const char *token, int fd, pid_t pid)
{
        keep_endpoint(t, e, token);
        t->fd = fd;
        t->child = pid;
        begin_upgrade(t);
}

void transport_open_ssh(struct transport *t, const struct endpoint *e, int fd, pid_t pid)
{
        keep_endpoint(t, e, NULL);
        t->fd = fd;
        t->child = pid;
        t->state = TRANSPORT_GREETING;
}

void transport_send_program(struct transport *t, struct buf *program)
{
        must(t->state == TRANSPORT_GREETING && t->out.n == 0);
        t->needs_program = false;
        must(buf_append(&t->out, buf_slice(program)) == 0);
}

int transport_poll_fd(const struct transport *t)
{
        return t->state == TRANSPORT_CONNECTING && t->fd < 0 ? resolver_fd(t->resolver) : t->fd;
}

uint32_t transport_events(const struct transport *t)
{
        if (t->state == TRANSPORT_CONNECTING)
                return t->fd < 0 ? EPOLLIN : EPOLLOUT;
        return EPOLLIN | (transport_queued(t) > 0 ? EPOLLOUT : 0);
}

/* ---- connecting over TCP ---- */

static int connect_failed(struct transport *t, int os_errno, struct err *err)
{
        return err_set(err, 0, -os_errno, "cannot connect to %s port %u: %s", t->endpoint.host,
                       t->endpoint.port, errno_text(os_errno));
}

/* Tries the addresses from t->address on, until the kernel begins to connect to one. */
static int try_addresses(struct transport *t, int last_errno, struct err *err)
{
        for (; t->address; t->address = t->address->ai_next) {
                t->fd = fd_close(t->fd);
                t->serial++;
                t->fd = socket(t->address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                               IPPROTO_TCP);
                if (t->fd >= 0 && (connect(t->fd, t->address->ai_addr, t->address->ai_addrlen) == 0 ||
                                   errno == EINPROGRESS)) {
                        t->address = t->address->ai_next;
                        return 0;
                }
                last_errno = errno;
        }
        return connect_failed(t, last_errno, err);
}

static int go_on_connecting(struct transport *t, struct err *err)
{
        if (t->fd < 0) {
                int r = resolver_result(t->resolver, &t->address, err);
                if (r < 0)
                        return r == -EAGAIN ? 0 : r;
                return try_addresses(t, EHOSTUNREACH, err);
        }
        int failure = 0;
        socklen_t n = sizeof(failure);
        if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &failure, &n) < 0)
                failure = errno;
        if (failure)
                return try_addresses(t, failure, err);
        struct sockaddr_storage peer;
        n = sizeof(peer);
        if (getpeername(t->fd, (struct sockaddr *)&peer, &n) < 0)
                return errno == ENOTCONN ? 0 : connect_failed(t, errno, err);
        int on = 1;
        (void)setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        t->resolver = resolver_free(t->resolver);
        begin_upgrade(t);
        return 0;
}

/* ---- bytes ---- */

static int lost(struct err *err, int os_errno)
{
        return err_set(err, 0, -os_errno, "the connection was lost: %s", errno_text(os_errno));
}

int transport_flush(struct transport *t, struct err *err)
{
        while (t->state >= TRANSPORT_GREETING && transport_queued(t) > 0) {
                ssize_t n = send(t->fd, t->out.p + t->out_at, transport_queued(t), MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && fd_is_passing(errno))
                        break;
                if (n < 0)
                        return lost(err, errno);
                t->out_at += (size_t)n;
        }
        /* Sent bytes must not fill a queue that is never empty. They are cut off when they are half of it, so that less is moved
         * than was sent. */
        if (t->out_at >= t->out.n - t->out_at) {
                buf_consume(&t->out, t->out_at);
                t->out_at = 0;
        }
        if (transport_queued(t) == 0)
                t->pongs = 0;
        if (t->out.n == 0 && t->out.allocated > 4 * READ_BYTES)
                buf_release(&t->out);
        return 0;
}

/* Reads once what has arrived. */
static int receive(struct transport *t, struct err *err)
{
        char *room;
        buf_consume(&t->in, t->in_at);
        t->in_at = 0;
        int r = buf_reserve_or_fail(&t->in, READ_BYTES, &room);
        if (r < 0)
                return err_set(err, 0, r, "no memory for a message of the server");
        ssize_t n = read(t->fd, room, READ_BYTES);
        if (n < 0)
                return errno == EINTR || fd_is_passing(errno) ? 0 : lost(err, errno);
        t->at_end = n == 0;
        if (n > 0)
                t->heard_at_ms = clock_mono_ms();
        buf_commit(&t->in, (size_t)n);
        return 0;
}

/* Reads the lines of the script on the far machine. */
static int go_on_greeting(struct transport *t, struct err *err)
{
        struct ssh_said said;
        size_t n;
        while ((n = ssh_next(slice_from(t->in.p + t->in_at, t->in.n - t->in_at), &said)) > 0) {
                t->in_at += n;
                if (said.word == SSH_READY) {
                        /* A machine that asks for the program and is ready without it does not get it. */
                        t->needs_program = false;
                        begin_upgrade(t);
                        return 0;
                }
                if (said.word == SSH_FAIL)
                        return ssh_refused(&t->endpoint, &said, err);
                t->noise += n;
                if (said.word == SSH_NEED && !t->machine[0]) {
                        (void)snprintf(t->machine, sizeof(t->machine), "%.*s", SLICE(said.machine));
                        (void)snprintf(t->system, sizeof(t->system), "%.*s", SLICE(said.system));
                        t->needs_program = true;
                }
        }
        if (t->at_end) {
                int status = child_end(t->child, GREETING_PATIENCE_MS);
                t->child = 0;
                return ssh_ended(&t->endpoint, status, err);
        }
        if (t->noise + (t->in.n - t->in_at) > SSH_NOISE_MAX)
                return err_set(err, 0, -EPROTO,
                               "%s: login scripts there print more than %d bytes before the command begins",
                               t->endpoint.host, SSH_NOISE_MAX);
        return 0;
}

int transport_on_ready(struct transport *t, struct err *err)
{
        if (t->state == TRANSPORT_CONNECTING) {
                int r = go_on_connecting(t, err);
                if (r < 0 || t->state == TRANSPORT_CONNECTING)
                        return r;
        }
        int r = transport_flush(t, err);
        /* What the server has said before it closed is read first: it may say why. So may the end of ssh. */
        int r_in = receive(t, err);
        if (r_in == 0 && t->state == TRANSPORT_GREETING)
                return go_on_greeting(t, err);
        if (r < 0 && r_in == 0 && t->in.n == t->in_at)
                return r;
        if (r_in < 0 || t->state != TRANSPORT_UPGRADING)
                return r_in;

        ssize_t head =
                upgrade_answer(slice_from(t->in.p + t->in_at, t->in.n - t->in_at), t->at_end, t->key, err);
        if (head < 0)
                return (int)head;
        if (head > 0) {
                t->in_at += (size_t)head;
                begin_messages(t);
        }
        return 0;
}

/* ---- messages ---- */

/* Cuts off the bytes that are sent when they are half of the queue, so that less is moved than was sent. */
static void tidy_out(struct transport *t)
{
        if (t->out_at < transport_queued(t) || t->out_at == 0)
                return;
        buf_consume(&t->out, t->out_at);
        t->out_at = 0;
}

static void send_frame(struct transport *t, enum ws_opcode opcode, struct slice payload)
{
        char head[WS_HEAD_MAX + 4], *room;
        uint8_t key[4];
        unsigned key_at = 0;
        random_bytes(key, sizeof(key));
        size_t n = ws_head_write_masked(head, opcode, true, payload.n, key);
        tidy_out(t);
        must(buf_reserve(&t->out, n + payload.n, &room) == 0);
        memcpy(room, head, n);
        if (payload.n > 0)
                memcpy(room + n, payload.p, payload.n);
        ws_mask(room + n, payload.n, key, &key_at);
        buf_commit(&t->out, n + payload.n);
}

void transport_send(struct transport *t, struct slice text)
{
        if (!t->is_lines) {
                send_frame(t, WS_TEXT, text);
                return;
        }
        tidy_out(t);
        must(buf_append(&t->out, text) == 0);
        must(buf_append_char(&t->out, '\n') == 0);
}

void transport_ping(struct transport *t)
{
        t->pinged_at_ms = clock_mono_ms();
        if (!t->is_lines)
                send_frame(t, WS_PING, S(""));
}

static int next_line(struct transport *t, struct slice *ret, struct err *err)
{
        for (;;) {
                struct slice line;
                ssize_t n = line_next(&t->lines, slice_from(t->in.p + t->in_at, t->in.n - t->in_at),
                                      t->at_end, &line);
                if (n < 0)
                        return err_set(err, 0, (int)n, "a message of the server is longer than %d bytes",
                                       TRANSPORT_MESSAGE_MAX);
                t->in_at += (size_t)n;
                if (n == 0)
                        return 0;
                if (!line.p)
                        continue;
                *ret = line;
                return 1;
        }
}

/* Takes a piece of a data message. Returns 1 with *ret when the message is complete, 0 when it is not, or -errno with *err
 * filled. */
static int on_piece(struct transport *t, const struct ws_piece *piece, struct slice *ret, struct err *err)
{
        char *room;
        if (piece->message_start && piece->message_end) {
                *ret = piece->payload; /* the bytes stay in t->in until the next read */
                return 1;
        }
        if (piece->message_start)
                buf_truncate(&t->message, 0);
        int r = buf_reserve_or_fail(&t->message, piece->payload.n, &room);
        if (r < 0)
                return err_set(err, 0, r, "no memory for a message of the server");
        if (piece->payload.n > 0)
                memcpy(room, piece->payload.p, piece->payload.n);
        buf_commit(&t->message, piece->payload.n);
        if (!piece->message_end)
                return 0;
        *ret = buf_slice(&t->message);
        return 1;
}

static int on_control(struct transport *t, const struct ws_piece *piece, struct err *err)
{
        if (piece->opcode == WS_PING && t->pongs++ < PONGS_MAX)
                send_frame(t, WS_PONG, piece->payload);
        if (piece->opcode != WS_CLOSE)
                return 0;
        if (piece->close_code == WS_CLOSE_TAKEN_OVER)
                return err_set(err, 0, -ESTALE, "another connection has taken the session over");
        return err_set(err, 0, -ECONNRESET, "the server closed the connection (%d)", piece->close_code);
}

int transport_next(struct transport *t, struct slice *ret, struct err *err)
{
        if (t->state != TRANSPORT_OPEN)
                return t->at_end ? lost(err, ECONNRESET) : 0;
        int r = 0;
        while (r == 0 && t->in_at < t->in.n) {
                if (t->is_lines) {
                        r = next_line(t, ret, err);
                        if (r == 0)
                                break;
                        continue;
                }
                struct ws_piece piece;
                size_t used = 0;
                enum ws_event event = ws_next(&t->ws, t->in.p + t->in_at, t->in.n - t->in_at, &used, &piece);
                t->in_at += used;
                if (event == WS_MORE)
                        break;
                if (event == WS_FAIL)
                        return err_set(err, 0, -EPROTO, "the server sent a broken frame (%d)",
                                       piece.close_code);
                r = event == WS_DATA ? on_piece(t, &piece, ret, err) : on_control(t, &piece, err);
        }
        return r == 0 && t->at_end ? lost(err, ECONNRESET) : r;
}
