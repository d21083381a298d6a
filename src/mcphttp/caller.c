/* caller: serves requests on one connection. */
#include "mcphttp/caller.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/http_body.h"
#include "wire/jsonw.h"
#include "wire/rpc.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define OUT_MAX ((size_t)64 * KIB) /* heads, short answers, comments */

enum caller_state {
        CALLER_HEAD,    /* waits for the head of a request */
        CALLER_BODY,    /* waits for the body of a request */
        CALLER_WAITING, /* the session has the request */
        CALLER_JSON,    /* sends the answer as one message */
        CALLER_EVENTS,  /* sends the answer as a stream of events */
        CALLER_ENDING, /* the last answer is being sent, or was: what comes is dropped until the peer closes */
};

struct caller {
        struct callers *all;
        struct list link; /* callers::all */
        enum caller_state state;
        bool is_dead, is_shut;
        uint64_t since_ms; /* since when the connection has been without a request: is_between_requests */
        int fd;
        struct watch *watch;
        struct timer *timer;
        struct deferred go_on, reap;
        char peer[64];
        struct buf in;
        size_t looked; /* how many bytes `in` had when the head was last found incomplete */
        struct buf out;
        size_t out_sent;

        /* Of the request */
        bool is_head;                   /* the answer has no body */
        bool is_kept_alive, has_chunks; /* has_chunks: the client knows chunked bodies */
        struct identity who;
        struct http_body decoder;
        struct buf body;
        char session_id[MCP_SESSION_ID_MAX + 1];
        bool has_session_id;
        bool is_first; /* the request opens the session */
        /* While the state is WAITING, JSON or EVENTS */
        struct mcp_session *session;
        struct mcp_stream *stream;
        struct stream_reader reader;
        bool was_lost; /* the stream has dropped this reader */
};

/* ---- the end ---- */

static void leave_session(struct caller *c)
{
        struct mcp_session *s = TAKE(c->session);
        struct mcp_stream *stream = TAKE(c->stream);
        if (s)
                mcp_session_detach(s, stream);
}

static void forget_body(struct caller *c)
{
        c->all->body_bytes -= c->body.n;
        buf_release(&c->body);
}

static void on_reap(struct deferred *d)
{
        struct caller *c = container_of(d, struct caller, reap);
        buf_release(&c->in);
        buf_release(&c->out);
        free(c);
}

static void caller_drop(struct caller *c)
{
        if (c->is_dead)
                return;
        c->is_dead = true;
        if (c->is_first &&
            c->session) /* the client does not know the name of the session that it has opened */
                mcp_session_end(c->session);
        leave_session(c);
        forget_body(c);
        c->watch = watch_free(c->watch);
        c->timer = timer_free(c->timer);
        c->fd = fd_close(c->fd);
        deferred_cancel(&c->go_on);
        list_remove(&c->link);
        c->all->count--;
        loop_defer(c->all->loop, &c->reap);
}

/* Drops a connection whose stream was taken from it. A client that has not taken what was sent is told by a reset: an orderly end would
 * stand behind those bytes, which the kernel would keep until the client reads them, or for a while when it does not. */
static void drop_lost(struct caller *c)
{
        const struct linger reset = { .l_onoff = 1 };
        int unsent = 0;
        if (ioctl(c->fd, SIOCOUTQ, &unsent) == 0 && unsent > 0)
                (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        caller_drop(c);
}

/* Returns whether the connection has no request under way, so that it may give way to a new one. It also has none after its last
 * answer, while its client has not closed it yet. */
static bool is_between_requests(const struct caller *c)
{
        return c->state == CALLER_HEAD || c->state == CALLER_ENDING;
}

static void set_state(struct caller *c, enum caller_state state, uint64_t ms)
{
        c->state = state;
        timer_start(c->timer, ms);
        if (!is_between_requests(c))
                return;
        c->since_ms = clock_mono_ms();
        list_remove(&c->link);
        list_append(&c->all->all, &c->link);
}

/* ---- short answers ---- */

static void put_answer(struct caller *c, const struct http_answer *a)
{
        struct http_answer copy = *a;
        copy.is_head = c->is_head;
        copy.wants_close = copy.wants_close || !c->is_kept_alive;
        must(http_answer_write(&c->out, &copy) == 0);
        forget_body(c);
        set_state(c, copy.wants_close ? CALLER_ENDING : CALLER_HEAD, LIMIT_HTTP_HEAD_MS);
}

/* Refuses the request: the body of the answer is an error of JSON-RPC. Unless the whole request was read the connection ends. */
static void refuse(struct caller *c, int status, int code, const char *text, const char *extra)
{
        _buf_ struct buf body = BUF_INIT(OUT_MAX / 2);
        struct jsonw w;
        jsonw_begin(&w, &body);
        jsonw_object(&w);
        jsonw_member_str(&w, "jsonrpc", "2.0");
        jsonw_member_null(&w, "id");
        jsonw_key(&w, "error");
        jsonw_object(&w);
        jsonw_member_i64(&w, "code", code);
        jsonw_member_str(&w, "message", text);
        jsonw_object_end(&w);
        jsonw_object_end(&w);
        must(jsonw_end(&w) == 0);
        put_answer(c, &(struct http_answer){ .status = status,
                                             .content_type = "application/json",
                                             .extra_headers = extra,
                                             .body = buf_slice(&body),
                                             .wants_close = c->decoder.state != HTTP_BODY_DONE });
}

static void refuse_request(struct caller *c, int status, const char *text)
{
        refuse(c, status, RPC_INVALID_REQUEST, text, status == 503 ? "retry-after: 1\r\n" : NULL);
}

/* ---- answers of a session ---- */

/* Takes the first answer of a session, which says whether the session was opened. */
static bool is_welcome(struct caller *c)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(LIMIT_MCP_HTTP_MESSAGE_BYTES);
        struct rpc_message m;
        struct json_error bad;
        must(buf_append(&text, mcp_stream_first(c->stream)) == 0);
        if (rpc_parse(&a, buf_slice(&text), &m, &bad) < 0 || m.kind != RPC_RESPONSE)
                return false;
        const struct json *version = json_get(&m.doc, m.result, S("protocolVersion"));
        c->session->has_greeting = version && version->type == JSON_STRING &&
                                   c->all->has_greeting(json_string(&a, &m.doc, version));
        return true;
}

static void begin_json(struct caller *c)
{
        char session[sizeof("mcp-session-id: \r\n") + UUID_TEXT_BYTES] = "";
        size_t length = mcp_stream_first(c->stream).n;
        if (c->is_first && is_welcome(c))
                (void)snprintf(session, sizeof(session), "mcp-session-id: %s\r\n", c->session->id);
        else if (c->is_first)
                mcp_session_end(c->session);
        must(buf_printf(&c->out,
                        "HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n%s%s\r\n",
                        c->stream->is_refused ? 400 : 200, http_reason(c->stream->is_refused ? 400 : 200),
                        length, session, c->is_kept_alive ? "" : "connection: close\r\n") == 0);
        set_state(c, CALLER_JSON, LIMIT_MCP_HTTP_PULSE_MS);
}

static void begin_events(struct caller *c)
{
        mcp_session_begin_events(c->session, c->stream);
        c->is_kept_alive = c->is_kept_alive && c->has_chunks;
        must(buf_printf(&c->out,
                        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                        "cache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n%s%s\r\n",
                        c->has_chunks ? "transfer-encoding: chunked\r\n" : "",
                        c->is_kept_alive ? "" : "connection: close\r\n") == 0);
        set_state(c, CALLER_EVENTS, LIMIT_MCP_HTTP_PULSE_MS);
}

/* Ends the request after its answer was sent. */
static void end_answer(struct caller *c)
{
        leave_session(c);
        set_state(c, c->is_kept_alive ? CALLER_HEAD : CALLER_ENDING, LIMIT_HTTP_HEAD_MS);
}

/* Begins the answer, when the stream of the request has something to send or has ended. */
static void look_at_stream(struct caller *c)
{
        struct mcp_stream *s = c->stream;
        if (s->is_done && s->is_broken && !mcp_stream_has_waiting(s)) {
                leave_session(c);
                refuse(c, c->is_first ? 500 : 404, RPC_INTERNAL,
                       c->is_first ? "the session could not begin" : "the session has ended", NULL);
        } else if (s->is_done && !mcp_stream_has_waiting(s)) {
                leave_session(c);
                put_answer(c, &(struct http_answer){ .status = 202 });
        } else if (s->is_done && s->last_number == 1) {
                begin_json(c);
        } else if (mcp_stream_has_waiting(s) && !c->is_first) {
                begin_events(c);
        }
}

/* ---- sending ---- */

/* Returns 0 when all is sent, 1 when the socket takes no more now, or -errno. */
static int flush_out(struct caller *c)
{
        while (c->out_sent < c->out.n) {
                ssize_t r = send(c->fd, c->out.p + c->out_sent, c->out.n - c->out_sent, MSG_NOSIGNAL);
                if (r < 0)
                        return fd_is_passing(errno) ? 1 : -errno;
                c->out_sent += (size_t)r;
        }
        buf_release(&c->out);
        c->out_sent = 0;
        return 0;
}

static int flush_stream(struct caller *c)
{
        bool had_waiting = mcp_stream_has_waiting(c->stream);
        enum stream_form form = c->state == CALLER_JSON ? STREAM_JSON
                                : c->has_chunks         ? STREAM_CHUNKED
                                                        : STREAM_EVENTS;
        int r = mcp_stream_flush(c->stream, c->fd, form);
        if (r != 0)
                return r;
        if (had_waiting && c->state == CALLER_EVENTS)
                timer_start(c->timer, LIMIT_MCP_HTTP_PULSE_MS);
        if (!c->stream->is_done)
                return 0;
        if (c->state == CALLER_EVENTS && c->has_chunks)
                must(buf_append(&c->out, S("0\r\n\r\n")) == 0);
        end_answer(c);
        return flush_out(c);
}

/* Shuts the connection for sending. close() would send a reset when unread bytes are left, and the peer might lose the answer. */
static void shut(struct caller *c)
{
        if (c->is_shut)
                return;
        c->is_shut = true;
        if (shutdown(c->fd, SHUT_WR) < 0)
                caller_drop(c);
}

static void flush(struct caller *c)
{
        int r = flush_out(c);
        if (r == 0 && (c->state == CALLER_JSON || c->state == CALLER_EVENTS))
                r = flush_stream(c);
        if (r < 0) {
                caller_drop(c);
                return;
        }
        if (r == 0 && c->state == CALLER_ENDING)
                shut(c);
        if (!c->is_dead)
                watch_set(c->watch, (c->in.n <= HTTP_HEAD_MAX || c->is_shut ? WATCH_READ : 0u) |
                                            (r > 0 ? WATCH_WRITE : 0u));
}

/* ---- requests ---- */

static void answer_post(struct caller *c, struct mcp_session *s)
{
        struct mcp_stream *stream = mcp_session_post(s, buf_slice(&c->body), &c->reader);
        if (!stream) {
                refuse_request(c, s->streams.open >= LIMIT_MCP_HTTP_STREAMS ? 429 : 503,
                               "too much waits for this session");
                return;
        }
        c->session = s;
        c->stream = stream;
        forget_body(c);
        set_state(c, CALLER_WAITING, LIMIT_MCP_HTTP_JSON_MS);
}

/* Opens a session for a body that names none: it must be the request that opens one. */
static void answer_first(struct caller *c)
{
        _arena_ struct arena a = ARENA_INIT;
        struct rpc_message m;
        struct json_error bad;
        struct err err = ERR_INIT;
        if (rpc_parse(&a, buf_slice(&c->body), &m, &bad) < 0) {
                struct json_doc doc;
                bool is_json = json_parse(&a, buf_slice(&c->body), &doc, &bad) == 0;
                refuse(c, 400, is_json ? RPC_INVALID_REQUEST : -32700,
                       is_json ? "the request has no Mcp-Session-Id header, and is not `initialize`"
                               : "not JSON",
                       NULL);
                return;
        }
        if (m.kind != RPC_REQUEST || !slice_eq(m.method, S("initialize"))) {
                refuse_request(c, 400, "the request has no Mcp-Session-Id header, and is not `initialize`");
                return;
        }
        struct mcp_session *s = mcp_session_new(c->all->sessions, &c->who, &err);
        if (!s) {
                if (refusal_must_log(&c->all->refusals, REFUSAL_CONNECTION))
                        log_warn("no session", "peer=%s why=%s", c->peer,
                                 log_quote(slice_from_str(err.text)));
                refuse_request(c, 503, "no session can be opened now");
                return;
        }
        c->is_first = true;
        answer_post(c, s);
        if (c->session)
                timer_start(c->timer, LIMIT_MCP_HTTP_START_MS);
        else
                mcp_session_end(s);
}

/* Returns the session that the request names, or refuses. */
static struct mcp_session *find_session(struct caller *c)
{
        struct mcp_session *s = mcp_sessions_find(c->all->sessions, slice_from_str(c->session_id), &c->who);
        if (!s)
                refuse_request(c, 404, "there is no such session");
        return s;
}

static void on_body(struct caller *c)
{
        struct mcp_session *s;
        if (!c->has_session_id)
                answer_first(c);
        else if ((s = find_session(c)))
                answer_post(c, s);
}

static void answer_get(struct caller *c, const struct mcp_request *r)
{
        struct mcp_session *s = find_session(c);
        if (!s)
                return;
        c->stream = mcp_session_get(s, r->last_event, &c->reader);
        if (!c->stream) {
                refuse_request(c, 400, "what follows the Last-Event-ID is gone");
                return;
        }
        c->session = s;
        begin_events(c);
}

static void answer_delete(struct caller *c)
{
        struct mcp_session *s = find_session(c);
        if (!s)
                return;
        log_debug("a session was deleted", "session=%.8s", s->id);
        mcp_session_end(s);
        put_answer(c, &(struct http_answer){ .status = 204 });
}

static void begin_body(struct caller *c, const struct http_request *r)
{
        buf_init(&c->body, c->has_session_id ? LIMIT_MCP_HTTP_BODY_BYTES : LIMIT_MCP_HTTP_FIRST_BYTES);
        if (r->content_length > c->body.cap) {
                refuse_request(c, 413, "the body is too long");
                return;
        }
        set_state(c, CALLER_BODY, LIMIT_MCP_HTTP_BODY_MS);
        if (http_header_has_token(r, S("expect"), S("100-continue")) && r->minor_version > 0)
                must(buf_append(&c->out, S("HTTP/1.1 100 Continue\r\n\r\n")) == 0);
}

/* Returns whether the token is good. Each guess costs a connection. */
static bool check_token(struct caller *c, const struct http_request *r)
{
        const char *why = auth_check(c->all->auth, r, clock_unix_ms() / 1000, &c->who);
        if (!why)
                return true;
        if (refusal_must_log(&c->all->refusals, REFUSAL_UPGRADE))
                log_warn(refusal_event(REFUSAL_UPGRADE), "peer=%s why=%s", c->peer,
                         log_quote(slice_from_str(why)));
        c->is_kept_alive = false;
        refuse(c, 401, RPC_INVALID_REQUEST, "a bearer token is needed", "www-authenticate: Bearer\r\n");
        return false;
}

static void on_head(struct caller *c, const struct http_request *r)
{
        struct refusal_answer bad;
        struct mcp_request m;
        c->is_first = false;
        c->is_head = slice_eq(r->method, S("HEAD"));
        c->is_kept_alive = r->is_kept_alive;
        c->has_chunks = r->minor_version > 0;
        http_body_init(&c->decoder, r);
        if (!mcp_request_is_for_us(r, &c->all->rules, &bad)) {
                refuse(c, bad.status, RPC_INVALID_REQUEST, bad.text, bad.extra);
                return;
        }
        if (!check_token(c, r))
                return;
        if (!mcp_request_read(r, &c->all->rules, &m, &bad)) {
                refuse(c, bad.status, RPC_INVALID_REQUEST, bad.text, bad.extra);
                return;
        }
        c->has_session_id = m.session.p != NULL;
        (void)snprintf(c->session_id, sizeof(c->session_id), "%.*s", SLICE(m.session));
        if (m.kind == REQUEST_POST)
                begin_body(c, r);
        else if (c->decoder.state != HTTP_BODY_DONE)
                refuse_request(c, 400, "only a POST has a body");
        else if (m.kind == REQUEST_GET)
                answer_get(c, &m);
        else
                answer_delete(c);
}

/* ---- reading ---- */

/* Each parse begins at the first byte. So a head that arrives byte by byte is parsed only when it may be complete, and once per
 * KiB, to refuse early what is not HTTP. */
static bool is_worth_parsing(const struct caller *c)
{
        if (c->looked == 0 || c->in.n - c->looked >= KIB || c->in.n > HTTP_HEAD_MAX)
                return true;
        size_t from = c->looked > 3 ? c->looked - 3 : 0;
        return memmem(c->in.p + from, c->in.n - from, "\n\r\n", 3) ||
               memmem(c->in.p + from, c->in.n - from, "\n\n", 2);
}

/* Returns false when more bytes are needed. */
static bool take_head(struct caller *c)
{
        struct http_request request;
        if (c->in.n == 0 || !is_worth_parsing(c))
                return false;
        ssize_t used = http_parse(buf_slice(&c->in), &request);
        c->looked = used == 0 ? c->in.n : 0;
        if (used == 0)
                return false;
        if (used < 0) {
                put_answer(c, &(struct http_answer){ .status = (int)-used, .wants_close = true });
                return true;
        }
        on_head(c, &request);
        if (!c->is_dead)
                buf_consume(&c->in, (size_t)used);
        return true;
}

/* Appends a piece of the body. Returns false when the piece does not fit. */
static bool add_to_body(struct caller *c, struct slice piece)
{
        int status = c->body.n + piece.n > c->body.cap                            ? 413
                     : c->all->body_bytes + piece.n > LIMIT_MCP_HTTP_BODIES_BYTES ? 503
                                                                                  : 0;
        if (status > 0) {
                refuse_request(c, status,
                               status == 413 ? "the body is too long" : "too many bodies are on their way");
                return false;
        }
        must(buf_append(&c->body, piece) == 0);
        c->all->body_bytes += piece.n;
        return true;
}

static bool take_body(struct caller *c)
{
        struct slice piece;
        ssize_t used = http_body_next(&c->decoder, buf_slice(&c->in), &piece);
        if (used < 0) {
                refuse_request(c, 400, "the body is no sequence of chunks");
                return true;
        }
        if (!add_to_body(c, piece))
                return true;
        buf_consume(&c->in, (size_t)used);
        if (c->decoder.state == HTTP_BODY_DONE)
                on_body(c);
        return used > 0 || c->state != CALLER_BODY;
}

/* Handles what was read, until a request is under way or bytes are missing. */
static void consume(struct caller *c)
{
        bool goes_on = true;
        while (goes_on && !c->is_dead && (c->out.n < OUT_MAX / 2)) {
                if (c->state == CALLER_HEAD)
                        goes_on = take_head(c);
                else if (c->state == CALLER_BODY)
                        goes_on = take_body(c);
                else
                        return;
        }
}

static void receive(struct caller *c)
{
        char *room, drain[4096];
        size_t want = HTTP_HEAD_MAX + 1 - MIN(c->in.n, (size_t)HTTP_HEAD_MAX);
        bool drops = c->state == CALLER_ENDING;
        if (!drops && buf_reserve(&c->in, want, &room) < 0)
                return;
        ssize_t r = recv(c->fd, drops ? drain : room, drops ? sizeof(drain) : want, 0);
        if (r == 0 || (r < 0 && !fd_is_passing(errno))) {
                caller_drop(c);
        } else if (r > 0 && !drops) {
                buf_commit(&c->in, (size_t)r);
                consume(c);
        }
}

/* ---- what happens ---- */

static void on_go_on(struct deferred *d)
{
        struct caller *c = container_of(d, struct caller, go_on);
        if (c->is_dead)
                return;
        if (c->was_lost) {
                drop_lost(c);
                return;
        }
        if (c->state == CALLER_WAITING)
                look_at_stream(c);
        flush(c);
        if (c->is_dead)
                return;
        /* Handles the bytes that the client has sent behind a request that is answered now. */
        size_t before = c->in.n;
        consume(c);
        if (!c->is_dead && c->in.n != before)
                loop_defer(c->all->loop, &c->go_on);
}

static void on_ready(void *arg, unsigned events)
{
        struct caller *c = arg;
        if (events & WATCH_READ)
                receive(c);
        if (!c->is_dead)
                loop_defer(c->all->loop, &c->go_on);
}

static void on_timer(void *arg)
{
        struct caller *c = arg;
        if (c->was_lost) /* the connection is dropped at the end of this turn */
                return;
        switch (c->state) {
        case CALLER_HEAD:
        case CALLER_BODY:
        case CALLER_ENDING:
                log_debug("http deadline", "peer=%s", c->peer);
                caller_drop(c);
                return;
        case CALLER_WAITING:
                look_at_stream(c);
                if (c->state == CALLER_WAITING && c->is_first)
                        mcp_session_end(c->session);
                else if (c->state == CALLER_WAITING)
                        begin_events(c);
                break;
        case CALLER_JSON:
                break; /* the kernel notices when the peer is gone */
        case CALLER_EVENTS:
                timer_start(c->timer, LIMIT_MCP_HTTP_PULSE_MS);
                if (c->out.n == 0 && !mcp_stream_has_waiting(c->stream))
                        must(buf_append(&c->out, c->has_chunks ? S("3\r\n:\n\n\r\n") : S(":\n\n")) == 0);
                break;
        }
        loop_defer(c->all->loop, &c->go_on);
}

static void on_stream(struct stream_reader *r)
{
        struct caller *c = container_of(r, struct caller, reader);
        loop_defer(c->all->loop, &c->go_on);
}

static void on_lost(struct stream_reader *r)
{
        struct caller *c = container_of(r, struct caller, reader);
        c->was_lost = true;
        c->stream = NULL;
        loop_defer(c->all->loop, &c->go_on);
}

void caller_new(struct callers *all, int fd, const char *peer)
{
        struct caller *c = mem_new(struct caller);
        c->all = all;
        c->fd = fd;
        c->reader = (struct stream_reader){ .ready = on_stream, .lost = on_lost };
        (void)snprintf(c->peer, sizeof(c->peer), "%s", peer);
        buf_init(&c->in, 2 * HTTP_HEAD_MAX + 2);
        buf_init(&c->out, 2 * OUT_MAX);
        buf_init(&c->body, 0);
        deferred_init(&c->go_on, on_go_on);
        deferred_init(&c->reap, on_reap);
        list_append(&all->all, &c->link);
        all->count++;
        c->timer = timer_new(all->loop, on_timer, c);
        set_state(c, CALLER_HEAD, LIMIT_HTTP_HEAD_MS);
        if (watch_new(all->loop, fd, WATCH_READ, on_ready, c, &c->watch) < 0)
                caller_drop(c);
}

/* ---- all of them ---- */

void callers_init(struct callers *all, struct loop *loop, struct mcp_sessions *sessions)
{
        *all = (struct callers){ .loop = loop, .sessions = sessions };
        list_init(&all->all);
        refusals_init(&all->refusals, loop);
}

void callers_drop(struct callers *all)
{
        struct caller *c;
        list_each (c, &all->all, link)
                caller_drop(c);
}

void callers_release(struct callers *all)
{
        callers_drop(all);
        refusals_release(&all->refusals);
}

bool callers_make_room(struct callers *all)
{
        struct caller *c;
        list_each (c, &all->all, link) {
                if (!is_between_requests(c))
                        continue;
                if (clock_mono_ms() - c->since_ms < LIMIT_HTTP_PENDING_MS)
                        return false;
                log_debug("http connection makes room", "peer=%s", c->peer);
                caller_drop(c);
                return true;
        }
        return false;
}
