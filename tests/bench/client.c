/* client: one WebSocket connection to a server under measurement: sends masked frames, and takes or counts messages. */
#include "client.h"

#include "base/fd.h"
#include "base/mem.h"
#include "wire/ws.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

#define WAIT_S 20 /* how long one answer may take */
#define OUT_MAX 65536
#define ROOM_MAX ((size_t)256 << 20) /* longer than any message of a measured server */

#define FRAGMENT_BYTES (1 << 20)

/* A client must mask its frames. The key is fixed, because unmasking costs the server the same with any key. */
static const uint8_t key[4] = { 0x5a, 0x13, 0xc4, 0x7e };

static int lost(struct err *err, int code)
{
        if (code == -EINTR)
                return err_set(err, 0, code, "interrupted");
        return err_set(err, 0, code, "connection: %s",
                       code == -EAGAIN ? "no answer in time" : errno_text(code));
}

static void ack_now(const struct client *c)
{
        int on = 1;
        if (c->wants_quick_ack)
                (void)setsockopt(c->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static int send_all(struct client *c, struct slice s, struct err *err)
{
        while (s.n > 0) {
                ssize_t r = send(c->fd, s.p, s.n, MSG_NOSIGNAL);
                if (r < 0 && errno == EINTR && !is_interrupted())
                        continue;
                if (r < 0)
                        return lost(err, -errno);
                s.p += r;
                s.n -= (size_t)r;
        }
        return 0;
}

static int send_frame(struct client *c, enum ws_opcode opcode, struct slice payload, struct err *err)
{
        char head[WS_HEAD_MAX + 4];
        size_t n = ws_head_write_masked(head, opcode, true, payload.n, key);
        unsigned key_at = 0;
        buf_truncate(&c->out, 0);
        must(buf_append(&c->out, slice_from(head, n)) == 0 && buf_append(&c->out, payload) == 0);
        ws_mask(c->out.p + n, payload.n, key, &key_at);
        return send_all(c, buf_slice(&c->out), err);
}

static void frame_prepare(struct buf *to, enum ws_opcode opcode, bool fin, struct slice payload)
{
        char head[WS_HEAD_MAX + 4];
        size_t n = ws_head_write_masked(head, opcode, fin, payload.n, key), at = to->n + n;
        unsigned key_at = 0;
        must(buf_append(to, slice_from(head, n)) == 0 && buf_append(to, payload) == 0);
        ws_mask(to->p + at, payload.n, key, &key_at);
}

void client_prepare(struct buf *to, struct slice message)
{
        frame_prepare(to, WS_TEXT, true, message);
}

void client_prepare_fragments(struct buf *to, struct slice message)
{
        for (size_t at = 0; at < message.n; at += FRAGMENT_BYTES) {
                size_t n = MIN(message.n - at, (size_t)FRAGMENT_BYTES);
                frame_prepare(to, at == 0 ? WS_TEXT : WS_CONTINUATION, at + n == message.n,
                              slice_from(message.p + at, n));
        }
}

int client_send_prepared(struct client *c, struct slice frames, struct err *err)
{
        return send_all(c, frames, err);
}

int client_send(struct client *c, struct err *err, const char *fmt, ...)
{
        char text[4096];
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        must(n >= 0 && (size_t)n < sizeof(text));
        return send_frame(c, WS_TEXT, slice_from(text, (size_t)n), err);
}

int client_request(struct client *c, const char *method, const char *params, struct err *err)
{
        return client_send(c, err, "{\"id\":%u,\"method\":\"%s\",\"params\":%s}", ++c->ids, method, params);
}

int client_start_with(struct client *c, const char *process_id, const char *argv, bool tty, const char *cwd,
                      const char *more, struct err *err)
{
        return client_send(
                c, err,
                "{\"id\":%u,\"method\":\"process/start\",\"params\":{\"processId\":\"%s\",\"argv\":%s,"
                "\"cwd\":\"%s\",\"env\":{\"PATH\":\"/usr/bin:/bin\"},\"tty\":%s%s}}",
                ++c->ids, process_id, argv, cwd, tty ? "true" : "false", more);
}

int client_start(struct client *c, const char *process_id, const char *argv, bool tty, struct err *err)
{
        return client_start_with(c, process_id, argv, tty, "file:///", "", err);
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

/* Discards the bytes that were given out, and moves the incomplete message to the front. */
static void make_room(struct client *c)
{
        size_t from = c->message_n ? c->message_at : c->at;
        if (from == c->end) {
                c->at = c->end = c->message_at = 0;
        } else if (c->room - c->end < c->room / 8) {
                memmove(c->in, c->in + from, c->end - from);
                c->at -= from;
                c->end -= from;
                c->message_at = 0;
        }
        if (c->end == c->room) {
                c->room *= 2;
                c->in = mem_realloc(c->in, c->room);
        }
}

int client_fill(struct client *c, struct err *err)
{
        make_room(c);
        if (c->room > ROOM_MAX)
                return lost(err, -EMSGSIZE);
        for (;;) {
                ssize_t r = recv(c->fd, c->in + c->end, c->room - c->end, 0);
                if (r < 0 && errno == EINTR && !is_interrupted())
                        continue;
                if (r <= 0)
                        return lost(err, r < 0 ? -errno : -ECONNRESET);
                ack_now(c);
                c->end += (size_t)r;
                return 0;
        }
}

struct frame {
        enum ws_opcode opcode;
        bool fin;
        size_t head, n;
};

/* Parses the head of the next frame. Returns false when the head is not complete. */
static bool frame_parse(const struct client *c, struct frame *ret)
{
        const uint8_t *p = (const uint8_t *)c->in + c->at;
        size_t have = c->end - c->at;
        if (have < 2)
                return false;
        size_t n = p[1] & 127u, more = n == 127 ? 8 : n == 126 ? 2 : 0;
        if (have < 2 + more)
                return false;
        for (size_t i = 0; i < more; i++)
                n = (i ? n << 8 : 0) | p[2 + i];
        *ret = (struct frame){ (enum ws_opcode)(p[0] & 15u), p[0] >> 7, 2 + more, n };
        return true;
}

int client_take(struct client *c, struct slice *ret, struct err *err)
{
        struct frame f;
        while (frame_parse(c, &f) && c->end - c->at >= f.head + f.n) {
                char *payload = c->in + c->at + f.head;
                c->at += f.head + f.n;
                if (f.opcode == WS_CLOSE)
                        return lost(err, -ECONNRESET);
                if (f.opcode == WS_PING) {
                        int r = send_frame(c, WS_PONG, slice_from(payload, f.n), err);
                        if (r < 0)
                                return r;
                }
                if (f.opcode >= WS_CLOSE)
                        continue;
                if (c->message_n == 0)
                        c->message_at = (size_t)(payload - c->in);
                else
                        memmove(c->in + c->message_at + c->message_n, payload, f.n);
                c->message_n += f.n;
                if (f.fin) {
                        *ret = slice_from(c->in + c->message_at, c->message_n);
                        c->message_n = 0;
                        return 1;
                }
        }
        return 0;
}

int client_next(struct client *c, struct slice *ret, struct err *err)
{
        for (;;) {
                int r = client_take(c, ret, err);
                if (r != 0)
                        return r;
                r = client_fill(c, err);
                if (r < 0)
                        return r;
        }
}

/* Counts the payload that has arrived, up to the end of its frame. */
static size_t gist_add(struct gist *g, struct client *c, size_t left)
{
        size_t n = MIN(left, c->end - c->at), front = MIN(n, sizeof(g->front) - g->front_n);
        memcpy(g->front + g->front_n, c->in + c->at, front);
        g->front_n += front;
        g->n += n;
        c->at += n;
        return left - n;
}

/* Reads up to the head of the next data frame; handles the control frames before it. */
static int next_data_head(struct client *c, struct frame *ret, struct err *err)
{
        for (;;) {
                int r;
                if (!frame_parse(c, ret)) {
                        r = client_fill(c, err);
                } else if (ret->opcode < WS_CLOSE) {
                        c->at += ret->head;
                        return 0;
                } else if (ret->opcode == WS_CLOSE) {
                        r = lost(err, -ECONNRESET);
                } else if (c->end - c->at < ret->head + ret->n) {
                        r = client_fill(c, err);
                } else {
                        struct slice payload = slice_from(c->in + c->at + ret->head, ret->n);
                        c->at += ret->head + ret->n;
                        r = ret->opcode == WS_PING ? send_frame(c, WS_PONG, payload, err) : 0;
                }
                if (r < 0)
                        return r;
        }
}

int client_count(struct client *c, struct gist *ret, struct err *err)
{
        struct frame f;
        *ret = (struct gist){ 0 };
        do {
                int r = next_data_head(c, &f, err);
                if (r < 0)
                        return r;
                for (size_t left = gist_add(ret, c, f.n); left > 0; left = gist_add(ret, c, left)) {
                        r = client_fill(c, err);
                        if (r < 0)
                                return r;
                }
        } while (!f.fin);
        struct slice front = slice_from(ret->front, ret->front_n);
        return message_has(front, S("\"error\":{"))
                       ? err_set(err, 0, -EPROTO, "the server answered %.*s", SLICE(front))
                       : 0;
}

bool message_has(struct slice message, struct slice name)
{
        return memmem(message.p, message.n, name.p, name.n) != NULL;
}

int client_await(struct client *c, struct slice name, struct slice *ret, struct err *err)
{
        for (;;) {
                int r = client_next(c, ret, err);
                if (r < 0)
                        return r;
                if (message_has(*ret, name))
                        return 0;
                if (message_has(*ret, S("\"error\":{")))
                        return err_set(err, 0, -EPROTO, "the server answered %.*s", (int)MIN(ret->n, 400),
                                       ret->p);
        }
}

ssize_t message_chunk_bytes(struct slice message)
{
        const struct slice name = S("\"chunk\":\"");
        const char *p = memmem(message.p, message.n, name.p, name.n);
        if (!p)
                return -1;
        p += name.n;
        const char *end = memchr(p, '"', (size_t)(message.p + message.n - p));
        if (!end || (end - p) % 4 != 0)
                return -1;
        ssize_t padding = end - p < 4 ? 0 : (end[-1] == '=') + (end[-2] == '=');
        return (end - p) / 4 * 3 - padding;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static int dial(struct client *c, uint16_t port, struct err *err)
{
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct timeval wait = { .tv_sec = WAIT_S };
        int on = 1;
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (c->fd < 0 || setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
            setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0 ||
            setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
            connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
                return lost(err, -errno);
        ack_now(c);
        return 0;
}

static int upgrade(struct client *c, struct err *err)
{
        const struct slice request = S("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
                                       "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                                       "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n");
        int r = send_all(c, request, err);
        for (;;) {
                if (r >= 0)
                        r = client_fill(c, err);
                if (r < 0)
                        return r;
                const char *end = memmem(c->in, c->end, "\r\n\r\n", 4);
                if (!end)
                        continue;
                if (!slice_starts(slice_from(c->in, c->end), S("HTTP/1.1 101 ")))
                        return err_set(err, 0, -EPROTO, "no upgrade: %.*s",
                                       (int)MIN((size_t)(end - c->in), 200), c->in);
                c->at = (size_t)(end + 4 - c->in);
                return 0;
        }
}

int client_open(struct client *c, const struct turn *t, size_t room, struct err *err)
{
        *c = (struct client){ .fd = -1, .wants_quick_ack = t->ack == ACK_QUICK, .room = room };
        c->in = mem_alloc(room);
        buf_init(&c->out, OUT_MAX);
        int r = dial(c, t->server->port, err);
        if (r == 0)
                r = upgrade(c, err);
        if (r < 0)
                client_close(c);
        return r;
}

int client_open_session(struct client *c, const struct turn *t, size_t room, struct err *err)
{
        struct slice answer;
        char params[96]; /* a server that does not know maxMessageBytes ignores it */
        snprintf(params, sizeof(params), "{\"clientName\":\"bench\",\"maxMessageBytes\":%zu}", ROOM_MAX);
        int r = client_open(c, t, room, err);
        if (r == 0)
                r = client_request(c, "initialize", params, err);
        if (r == 0)
                r = client_await(c, NAME_RESULT, &answer, err);
        if (r == 0)
                r = client_send(c, err, "{\"method\":\"initialized\",\"params\":{}}");
        if (r < 0)
                client_close(c);
        return r;
}

void client_close(struct client *c)
{
        if (!c->in)
                return;
        fd_close(c->fd);
        free(c->in);
        buf_release(&c->out);
        *c = CLIENT_INIT;
}
