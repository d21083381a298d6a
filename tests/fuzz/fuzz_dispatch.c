/* fuzz_dispatch: hostile clients and a hostile order of events against the real server code, with a spawner that starts
 * nothing, file operations that touch nothing (no_files.h, no_watches.h), sandboxes that limit nothing (no_boxes.h,
 * no_fs_helpers.h) and an HTTP helper that sends nothing (no_net.h).
 *
 * The first byte of the input chooses the configuration; the rest is lines. A line that begins with one of the letters
 * below is an event, every other one is a message of the current client. N is the n-th start, as one digit.
 *
 *     sN started   fN failed   xN exited (text: status)   iN signal answered   gN gone   l the spawner is lost
 *     oN eN text to stdout, stderr   ON KiB of it (text: how many)   cN CN the child closes stdout, stderr
 *     rN the child reads stdin (text: KiB)   kN the child closes stdin   z the server drains
 *     vN something happens in the N-th watched directory (text: letter, cookie, name)   tN time passes, the more the higher N is
 *     hN the N-th HTTP call gets its head (text: value of a header)   bN BN a piece of body, KiB of it   qN it ends
 *     jN JN the N-th of the file works that wait is done; only runs   aN the N-th that ran is done   A all are done
 *     nN client N is the current one, connected anew when it is not   d drops it   w W it stops, goes on reading
 *     R T it initializes with the last session's id, T with takeover   *N sends the rest of the line N times
 *     @ sends the rest of the line with the last session's id in place of $, and with its shortened id in place of %
 *     ~ the rest of the line as two fragments   # the rest of the line as bytes, not as a frame
 *
 * Checked: every frame is one good message; no request is answered twice, and in the end each is answered, unless its
 * connection was closed; what a client hears of a process has rising numbers without holes and nothing behind `closed`;
 * file requests begin in the order that was promised; nothing is left, and nothing leaks, descriptors neither.
 */
#include "bare_server.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/job.h"
#include "no_boxes.h"
#include "no_files.h"
#include "no_fs_helpers.h"
#include "no_net.h"
#include "no_watches.h"
#include "server/drain.h"
#include "server/open_file.h"
#include "session/task_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STARTS_MAX 10
#define CLIENTS_MAX 3
#define LINES_MAX 100
#define SENT_MAX (128 * KIB)   /* bytes that one client may have waiting */
#define RECEIVED_MAX (2 * MIB) /* the input ends there, so that one run does not take too long */
#define TURNS 2                /* one to read what came, one to send the answer */

/* --- a spawner that starts nothing -------------------------------------------------------------------------------- */

struct start {
        bool is_used, has_started, is_over; /* is_over: failed or exited */
        uint32_t number;
        int in, out, err; /* the child's ends */
        unsigned unanswered;
};

struct spawner {
        const struct spawn_events *events;
        void *arg;
        int fd;
};

static struct start starts[STARTS_MAX];

struct spawner *spawner_new(const struct spawn_events *events, void *arg, UNUSED struct err *err)
{
        struct spawner *s = mem_new(struct spawner);
        *s = (struct spawner){ .events = events, .arg = arg, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
        must(s->fd >= 0);
        return s;
}

static void start_end(struct start *st)
{
        fd_close(st->in);
        fd_close(st->out);
        fd_close(st->err);
        *st = (struct start){ .in = -1, .out = -1, .err = -1 };
}

struct spawner *spawner_free(struct spawner *s)
{
        if (!s)
                return NULL;
        for (size_t i = 0; i < STARTS_MAX; i++)
                if (starts[i].is_used)
                        start_end(&starts[i]);
        fd_close(s->fd);
        free(s);
        return NULL;
}

int spawn_fd(const struct spawner *s)
{
        return s->fd;
}

pid_t spawn_pid(UNUSED const struct spawner *s)
{
        return 0;
}

bool spawn_wants_write(UNUSED const struct spawner *s)
{
        return false;
}

int spawn_wait_ms(UNUSED const struct spawner *s)
{
        return -1;
}

void spawn_on_ready(UNUSED struct spawner *s)
{
}

static int dup_nonblock(int fd)
{
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        must(copy >= 0 && fd_set_nonblock(copy, true) == 0);
        return copy;
}

int spawn_start(struct spawner *s, uint32_t number, const struct command_spec *c, const int stdio[static 3])
{
        must(s && c->argv[0] && c->candidates[0] && c->cwd[0] == '/');
        for (const char *const *e = c->env; *e; e++)
                must(strchr(*e, '='));
        for (size_t i = 0; i < STARTS_MAX; i++) {
                must(!starts[i].is_used || starts[i].number != number);
                if (starts[i].is_used)
                        continue;
                starts[i] = (struct start){ .is_used = true, .number = number };
                starts[i].in = dup_nonblock(stdio[0]);
                starts[i].out = dup_nonblock(stdio[1]);
                starts[i].err = dup_nonblock(stdio[2]);
                return 0;
        }
        return -EMFILE;
}

static struct start *start_find(uint32_t number)
{
        for (size_t i = 0; i < STARTS_MAX; i++)
                if (starts[i].is_used && starts[i].number == number)
                        return &starts[i];
        return NULL;
}

void spawn_signal(struct spawner *s, uint32_t number, int signo, UNUSED enum spawn_scope scope)
{
        must(s && signo > 0);
        struct start *st = start_find(number);
        if (st)
                st->unanswered++;
}

void spawn_kill(struct spawner *s, UNUSED uint32_t number)
{
        must(s);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static uint64_t time_passed_ms; /* the time that events of the input have let pass; it never goes back */

/* Replaces the clock for loop and server; libFuzzer uses another one. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
        int r = (int)syscall(SYS_clock_gettime, clock, ret);
        if (r == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)) {
                ret->tv_nsec += (long)(time_passed_ms % 1000 * 1000000);
                ret->tv_sec += (time_t)(time_passed_ms / 1000) + ret->tv_nsec / 1000000000;
                ret->tv_nsec %= 1000000000;
        }
        return r;
}

/* --- the server --------------------------------------------------------------------------------------------------- */

/* Sets small limits, so that inputs reach them, and times of zero or longer than a run. */
static void configure(unsigned choice)
{
        config.shutdown_grace_period_ms = choice & 1 ? 600000 : 0;
        config.detached_session_ttl_ms = choice & 2 ? 600000 : 0;
        config.exited_process_retention_ms = choice & 4 ? 600000 : 0;
        config.output_chunk_bytes = choice & 8 ? 64 * KIB : 256;
        config.retained_output_bytes_per_process = choice & 16 ? MIB : 1000;
        config.retained_output_bytes_total = choice & 32 ? 16 * MIB : 1500;
        config.max_processes_per_session = 6;
        config.max_sessions = 2;
        config.conn.max_message_bytes = 128 * KIB;
        config.conn.ping_interval_ms = 0;
}

static void server_open(void)
{
        struct err err = ERR_INIT;
        bare_server_open();
        must(procs_init(&server.procs, &server.loop, config.output_chunk_bytes,
                        config.retained_output_bytes_per_process, &err) == 0);
}

static void server_close(void)
{
        bare_server_drop();
        procs_release(&server.procs);
        bare_server_close();
        events_close();
        must(server.procs.retained_total == 0);
}

/* --- file work ---------------------------------------------------------------------------------------------------- */

/* Is there an earlier job on the same handle that this one must not overtake? */
static bool must_wait_for_key(struct client *c, const struct job *job)
{
        struct job *before;
        list_each (before, &c->jobs.all, link) {
                if (before == job)
                        return false;
                if (before->class && before->key.p && job->key.p && slice_eq(before->key, job->key) &&
                    (before->is_exclusive || job->is_exclusive))
                        return true;
        }
        return false;
}

/* A job that changes files runs alone, after all jobs before it; later jobs wait for it. None of this holds for unordered jobs. */
static void check_order(struct client *c)
{
        unsigned count = 0, ordered = 0, running = 0, held = 0;
        bool must_wait = false;
        struct job *job;
        list_each (job, &c->jobs.all, link) {
                bool is_barrier = job->is_change && !job->is_unordered;
                must_wait = must_wait || (is_barrier && ordered > 0);
                if (job->has_begun || job->is_in_pool)
                        must(job->class && (job->is_unordered || !must_wait) && !must_wait_for_key(c, job));
                must_wait = must_wait || is_barrier;
                ordered += !job->is_unordered;
                count++;
                running += job->has_begun;
                held += !job->class || job->class->go_on; /* held back, or a start that is being prepared */
        }
        must(count - ordered == c->jobs.unordered);
        must(count == c->jobs.count && running == c->jobs.running && held == c->jobs.held);
        must(running <= LIMIT_POOL_PER_CONNECTION);
        must(map_count(&c->open_files) + c->files_opening <= OPEN_FILES_MAX);
}

static void on_pool(char op, size_t n)
{
        struct pool *p = server.pool;
        if (op == 'j' || op == 'J')
                (void)!pool_run(p, n);
        if (op == 'a')
                (void)!pool_tell(p, n);
        if (op == 'j' && !list_is_empty(&p->finished)) {
                struct work *w = list_entry(p->finished.prev, struct work, link);
                list_remove(&w->link);
                w->done(w);
        }
        for (; op == 'A' && n < 64; n++)
                if (!pool_tell(p, 0) && !pool_run(p, 0))
                        break;
}

/* --- HTTP --------------------------------------------------------------------------------------------------------- */

static void on_http(char op, struct net_call *call, struct slice text)
{
        static const char bytes[64 * KIB];
        uint64_t kib = 0;
        (void)!slice_to_u64(text, 64, &kib);
        if (op == 'h')
                net_call_head(call, 200, text);
        else if (op == 'b')
                net_call_data(call, text);
        else if (op == 'B')
                net_call_data(call, slice_from(bytes, kib * KIB));
        else
                net_call_end(call, text);
}

/* --- what clients must see ---------------------------------------------------------------------------------------- */

/* An id of a client's requests. */
struct asked {
        unsigned sent, answered;
        char key[];
};

/* What the clients of a session have been told of one process. */
struct heard {
        uint64_t seq;
        unsigned attachment;
        bool is_closed, is_exited;
        char key[];
};

struct user {
        int fd;         /* -1: not connected */
        bool is_lazy;   /* the client does not read */
        bool is_closed; /* the server has sent a close frame */
        /* the client has sent bytes that are no whole frame: the server may close without an answer */
        bool has_misspoken;
        struct ws_decoder decoder;
        struct buf in, message, out;
        struct map asked;
        char session[UUID_TEXT_BYTES];
        unsigned attachment; /* incremented each time that a session is attached */
};

static struct user clients[CLIENTS_MAX];
static struct map heard;
static unsigned attachments;
static char last_session[UUID_TEXT_BYTES];
static size_t received; /* bytes received by all clients */

static void map_clear(struct map *m)
{
        void *value;
        size_t pos = 0;
        while ((value = map_next(m, &pos)))
                free(value);
        map_release(m);
}

static struct asked *asked_get(struct user *cl, const struct rpc_id *id, bool add)
{
        char number[32];
        snprintf(number, sizeof(number), "#%lld", (long long)id->number);
        struct slice key = id->is_string ? id->string : slice_from_str(number);
        struct asked *a = map_find(&cl->asked, key);
        if (!a && add) {
                a = mem_zalloc(sizeof(*a) + key.n + 1);
                memcpy(a->key, key.p, key.n);
                map_put(&cl->asked, slice_from(a->key, key.n), a);
        }
        return a;
}

static struct slice member(struct arena *a, const struct rpc_message *m, const struct json *of,
                           struct slice key)
{
        const struct json *v = json_get(&m->doc, of, key);
        must(v && v->type == JSON_STRING);
        return json_string(a, &m->doc, v);
}

static struct heard *heard_get(const struct user *cl, struct slice process_id)
{
        _buf_ struct buf key = BUF_INIT(64 * KIB);
        must(buf_append(&key, slice_from_str(cl->session)) == 0 && buf_append(&key, process_id) == 0);
        struct heard *h = map_find(&heard, buf_slice(&key));
        if (!h) {
                h = mem_zalloc(sizeof(*h) + key.n);
                memcpy(h->key, key.p, key.n);
                map_put(&heard, slice_from(h->key, key.n), h);
        }
        return h;
}

/* Checks that the deltas of an HTTP request are numbered from one; a number that begins again belongs to a new request of the
 * same id. */
static void check_delta(struct user *cl, struct arena *a, const struct rpc_message *m)
{
        struct slice id = member(a, m, m->params, S("requestId"));
        struct heard *h = heard_get(cl, slice_from_str(arena_printf(a, "http %.*s", SLICE(id))));
        const struct json *v = json_get(&m->doc, m->params, S("seq"));
        uint64_t seq;
        must(v && json_u64(&m->doc, v, &seq) == 0);
        must(seq == 1 || (seq == h->seq + 1 && h->attachment == cl->attachment));
        h->seq = seq;
        h->attachment = cl->attachment;
}

/* Checks a question or a report about a program: it comes only after a handshake, and has no `seq`. */
static void check_exec(struct user *cl, struct arena *a, const struct rpc_message *m)
{
        const struct json *argv = json_get(&m->doc, m->params, S("argv"));
        must(cl->session[0] && !json_get(&m->doc, m->params, S("seq")));
        must(argv && argv->type == JSON_ARRAY);
        must(member(a, m, m->params, S("file")).n > 0 && member(a, m, m->params, S("decision")).n > 0);
}

static void check_notification(struct user *cl, struct arena *a, const struct rpc_message *m)
{
        if (slice_eq(m->method, S("session/takenOver"))) {
                must(slice_eq(member(a, m, m->params, S("sessionId")), slice_from_str(cl->session)));
                return;
        }
        if (slice_eq(m->method, S("process/started")) || slice_eq(m->method, S("process/failed"))) {
                /* notifications without a place in the order must have no seq */
                must(!json_get(&m->doc, m->params, S("seq")));
                return;
        }
        if (slice_eq(m->method, S("process/execRequested"))) {
                check_exec(cl, a, m);
                return;
        }
        if (slice_eq(m->method, S("fs/changed")) || slice_eq(m->method, S("fs/missingChanged"))) {
                must(json_get(&m->doc, m->params, S("watchId")));
                return;
        }
        if (slice_eq(m->method, S("http/request/bodyDelta"))) {
                check_delta(cl, a, m);
                return;
        }
        bool is_output = slice_eq(m->method, S("process/output"));
        bool is_closed = slice_eq(m->method, S("process/closed"));
        bool is_exited = slice_eq(m->method, S("process/exited"));
        must(is_output || is_closed || is_exited);
        must(cl->session[0]);
        uint64_t seq;
        const struct json *v = json_get(&m->doc, m->params, S("seq"));
        must(v && json_u64(&m->doc, v, &seq) == 0 && seq > 0);
        if (is_output)
                must(member(a, m, m->params, S("chunk")).n > 0);

        struct heard *h = heard_get(cl, member(a, m, m->params, S("processId")));
        if (h->attachment == cl->attachment)
                must(!h->is_closed && seq == h->seq + 1 && !(is_exited && h->is_exited));
        h->attachment = cl->attachment;
        h->seq = seq;
        h->is_exited = h->is_exited || is_exited;
        h->is_closed = is_closed;
}

/* Notes the session or the process that a result names; from then on the numbers of its notifications are checked. */
static void note_result(struct user *cl, struct arena *a, const struct rpc_message *m)
{
        if (json_get(&m->doc, m->result, S("sessionId"))) {
                struct slice id = member(a, m, m->result, S("sessionId"));
                must(id.n == sizeof(cl->session) - 1 && !cl->session[0]);
                memcpy(cl->session, id.p, id.n);
                memcpy(last_session, id.p, id.n);
                cl->attachment = ++attachments;
        } else if (json_get(&m->doc, m->result, S("sandboxType"))) {
                struct heard *h = heard_get(cl, member(a, m, m->result, S("processId")));
                h->attachment = cl->attachment;
                h->seq = 0;
                h->is_closed = h->is_exited = false;
        }
}

/* fs/readFile answers with a result that it ends as an error when reading fails in the middle (docs/PROTOCOL.md). rpc_parse
 * refuses two members of one name, so this returns the message without both. */
static struct slice without_broken_result(struct arena *a, struct slice text)
{
        static const struct slice begin = S("\"result\":{\"dataBase64\":\""),
                                  end = S("!\"},\"result\":null,");
        const char *from = memmem(text.p, text.n, begin.p, begin.n);
        const char *to = from ? memmem(from, text.n - (size_t)(from - text.p), end.p, end.n) : NULL;
        if (!to)
                return text;
        size_t before = (size_t)(from - text.p), after = text.n - (size_t)(to + end.n - text.p);
        char *copy = arena_alloc(a, before + after + BUF_PADDING);
        memcpy(copy, text.p, before);
        memcpy(copy + before, to + end.n, after);
        return slice_from(copy, before + after);
}

static void check_message(struct user *cl, struct slice text)
{
        _arena_ struct arena a = ARENA_INIT;
        struct rpc_message m;
        struct json_error why;
        must(rpc_parse(&a, without_broken_result(&a, text), &m, &why) == 0);
        must(m.kind != RPC_REQUEST);
        if (m.kind == RPC_NOTIFICATION) {
                check_notification(cl, &a, &m);
                return;
        }
        if (!m.id.is_string && m.id.number == -1)
                return; /* the answer to a message without an id, or to a request with this number as its id */
        struct asked *asked = asked_get(cl, &m.id, false);
        must(asked && asked->answered < asked->sent);
        asked->answered++;
        if (m.kind == RPC_RESPONSE)
                note_result(cl, &a, &m);
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static void client_open(struct user *cl)
{
        int fds[2];
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        *cl = (struct user){ .fd = fds[1],
                             .in = BUF_INIT(64 * MIB),
                             .message = BUF_INIT(64 * MIB),
                             .out = BUF_INIT(2 * SENT_MAX) };
        ws_decoder_init(&cl->decoder, false, 64 * MIB);
        map_init(&cl->asked);
        must(conn_new_ws(&server.conns, fds[0], "fuzz", &(struct identity){ 0 }, S("")));
}

static void client_close(struct user *cl)
{
        if (cl->fd < 0)
                return;
        cl->fd = fd_close(cl->fd);
        buf_release(&cl->in);
        buf_release(&cl->message);
        buf_release(&cl->out);
        map_clear(&cl->asked);
}

static void take_frames(struct user *cl)
{
        size_t at = 0;
        for (;;) {
                struct ws_piece piece;
                size_t used;
                enum ws_event ev = ws_next(&cl->decoder, cl->in.p + at, cl->in.n - at, &used, &piece);
                must(ev != WS_FAIL);
                at += used;
                if (ev == WS_MORE)
                        break;
                must(!cl->is_closed);
                if (ev == WS_CONTROL) {
                        cl->is_closed = piece.opcode == WS_CLOSE;
                        continue;
                }
                must(piece.opcode == WS_TEXT && buf_append(&cl->message, piece.payload) == 0);
                if (piece.message_end) {
                        check_message(cl, buf_slice(&cl->message));
                        buf_truncate(&cl->message, 0);
                }
        }
        buf_consume(&cl->in, at);
}

static void client_read(struct user *cl)
{
        char *room;
        must(buf_reserve(&cl->in, 256 * KIB, &room) == 0);
        ssize_t r = read(cl->fd, room, 256 * KIB);
        if (r == 0 || (r < 0 && errno != EAGAIN))
                cl->is_closed = true;
        if (r <= 0)
                return;
        received += (size_t)r;
        buf_commit(&cl->in, (size_t)r);
        take_frames(cl);
}

static void client_push(struct user *cl)
{
        if (cl->out.n == 0)
                return;
        ssize_t r = write(cl->fd, cl->out.p, cl->out.n);
        if (r > 0)
                buf_consume(&cl->out, (size_t)r);
        else if (errno != EAGAIN)
                buf_truncate(&cl->out, 0);
}

static void frame(struct user *cl, enum ws_opcode opcode, bool fin, struct slice payload)
{
        static const uint8_t key[4] = { 1, 2, 3, 4 };
        char head[WS_HEAD_MAX + 4];
        unsigned key_at = 0;
        size_t n = ws_head_write_masked(head, opcode, fin, payload.n, key);
        must(buf_append(&cl->out, slice_from(head, n)) == 0 && buf_append(&cl->out, payload) == 0);
        ws_mask(cl->out.p + cl->out.n - payload.n, payload.n, key, &key_at);
}

/* Parses a message as the server will, to know which answers may come, and sends it. */
static void client_send(struct user *cl, struct slice text, bool in_fragments)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf padded = BUF_INIT(SENT_MAX);
        struct rpc_message m;
        struct json_error why;
        if (cl->out.n + text.n + 64 > SENT_MAX || buf_append(&padded, text) < 0)
                return;
        if (rpc_parse(&a, buf_slice(&padded), &m, &why) == 0 && m.kind == RPC_REQUEST &&
            (m.id.is_string || m.id.number != -1))
                asked_get(cl, &m.id, true)->sent++;
        size_t half = in_fragments ? text.n / 2 : text.n;
        frame(cl, WS_TEXT, !in_fragments, slice_from(text.p, half));
        if (in_fragments) {
                frame(cl, WS_PING, true, S("?"));
                frame(cl, WS_CONTINUATION, true, slice_from(text.p + half, text.n - half));
        }
}

static void client_resume(struct user *cl, bool takeover)
{
        char text[160];
        snprintf(text, sizeof(text),
                 "{\"id\":\"r\",\"method\":\"initialize\",\"params\":{\"clientName\":\"r\","
                 "\"resumeSessionId\":"
                 "\"%s\"%s}}",
                 last_session, takeover ? ",\"takeover\":true" : "");
        client_send(cl, slice_from_str(text), false);
        client_send(cl, S("{\"method\":\"initialized\"}"), false);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static void turn(void)
{
        for (int i = 0; i < TURNS; i++) {
                for (size_t k = 0; k < CLIENTS_MAX; k++)
                        if (clients[k].fd >= 0)
                                client_push(&clients[k]);
                loop_turn(&server.loop, false);
                struct conn *c;
                list_each (c, &server.conns.all, link) {
                        check_order(c->owner);
                }
                for (size_t k = 0; k < CLIENTS_MAX; k++)
                        if (clients[k].fd >= 0 && !clients[k].is_lazy)
                                client_read(&clients[k]);
        }
}

static void say_gone(struct start *st)
{
        const struct spawner *s = server.procs.spawner;
        uint32_t number = st->number;
        for (; st->unanswered > 0; st->unanswered--)
                s->events->signalled(s->arg, number, 0);
        start_end(st);
        s->events->gone(s->arg, number);
}

static void fill(int fd, size_t n)
{
        static const char bytes[KIB] = "0123456789";
        while (n-- > 0 && fd >= 0 && write(fd, bytes, sizeof(bytes)) > 0)
                ;
}

/* Makes an event of a child, if it can happen now. */
static void on_child(char op, struct start *st, struct slice text)
{
        const struct spawner *s = server.procs.spawner;
        uint64_t value = 0;
        char room[KIB];
        (void)!slice_to_u64(text, 4096, &value);
        bool is_alive = st->has_started && !st->is_over;
        switch (op) {
        case 's':
                if (!st->has_started && !st->is_over) {
                        st->has_started = true;
                        s->events->started(s->arg, st->number, 1000);
                }
                break;
        case 'f':
                if (!st->has_started && !st->is_over) {
                        st->is_over = true;
                        s->events->failed(s->arg, st->number, "exec", (int)value % 40 + 1, UINT32_MAX);
                }
                break;
        case 'x':
                if (is_alive) {
                        st->is_over = true;
                        s->events->exited(s->arg, st->number, &(struct spawn_exit){ .status = (int)value });
                }
                break;
        case 'i':
                if (st->unanswered > 0) {
                        st->unanswered--;
                        s->events->signalled(s->arg, st->number, (int)value % 3);
                }
                break;
        case 'g':
                say_gone(st);
                break;
        case 'o':
        case 'e':
                if (is_alive && text.n > 0)
                        (void)!write(op == 'o' ? st->out : st->err, text.p, text.n);
                break;
        case 'O':
                if (is_alive)
                        fill(st->out, MIN(value, 64u));
                break;
        case 'c':
                st->out = fd_close(st->out);
                break;
        case 'C':
                st->err = fd_close(st->err);
                break;
        case 'k':
                st->in = fd_close(st->in);
                break;
        case 'r':
                for (value = MIN(value, 64u); value-- > 0 && st->in >= 0 && read(st->in, room, KIB) > 0;)
                        ;
                break;
        default:
                break;
        }
}

/* Sends a request that names the last session. */
static void client_names_session(struct user *cl, struct slice text)
{
        _buf_ struct buf out = BUF_INIT(SENT_MAX);
        for (size_t i = 0; i < text.n; i++) {
                struct slice piece = text.p[i] == '$'   ? slice_from_str(last_session)
                                     : text.p[i] == '%' ? slice_from(last_session, SESSION_SHORT_ID_CHARS)
                                                        : slice_from(text.p + i, 1);
                if (buf_append(&out, piece) < 0)
                        return;
        }
        client_send(cl, buf_slice(&out), false);
}

static void on_client(char op, struct user *cl, struct slice text)
{
        switch (op) {
        case 'd':
                client_close(cl);
                break;
        case 'w':
        case 'W':
                cl->is_lazy = op == 'w';
                break;
        case 'R':
        case 'T':
                client_resume(cl, op == 'T');
                break;
        case '@':
                client_names_session(cl, text);
                break;
        case '~':
                client_send(cl, text, true);
                break;
        case '*':
                for (int n = text.n > 1 ? text.p[0] & 15 : 0; n > 0; n--)
                        client_send(cl, slice_from(text.p + 1, text.n - 1), false);
                break;
        case '#':
                cl->has_misspoken = true;
                if (cl->out.n + text.n <= SENT_MAX)
                        must(buf_append(&cl->out, text) == 0);
                break;
        default:
                break;
        }
}

static void lose_spawner(void)
{
        struct spawner *s = server.procs.spawner;
        s->events->lost(s->arg); /* frees this spawner, and makes a new one */
}

static void on_line(struct slice line, size_t *current)
{
        char op = line.n > 0 ? line.p[0] : 0;
        size_t n = line.n > 1 ? (size_t)(line.p[1] & 15) : 0;
        struct slice text = line.n > 2 ? slice_from(line.p + 2, line.n - 2) : S("");
        if (op && strchr("sfxigoeOcCkr", op)) {
                if (n < STARTS_MAX && starts[n].is_used)
                        on_child(op, &starts[n], text);
        } else if (op && strchr("hbBq", op)) {
                if (net_call_at(&server, n))
                        on_http(op, net_call_at(&server, n), text);
        } else if (op == 'v') {
                event_happens(n, text);
        } else if (op == 't') {
                static const uint64_t ms[] = { 1, 50, 600, 2100, 6000, 61000, 700000 };
                time_passed_ms += ms[n % ARRAY_LEN(ms)];
        } else if (op && strchr("jJaA", op)) {
                on_pool(op, n);
        } else if (op == 'l') {
                lose_spawner();
        } else if (op == 'z') {
                server_drain(&server);
        } else if (op == 'n') {
                *current = n % CLIENTS_MAX;
                if (clients[*current].fd < 0)
                        client_open(&clients[*current]);
        } else if (clients[*current].fd < 0) {
                return;
        } else if (op && strchr("dwWRT@~*#", op)) {
                on_client(op, &clients[*current], slice_from(line.p + 1, line.n - 1));
        } else {
                client_send(&clients[*current], line, false);
        }
}

/* Ends the starts that wait for a client's decision. Returns whether there was one. */
static bool end_questions(void)
{
        struct task *t;
        bool has_one = false;
        list_each (t, &server.tasks, server_link)
                if (task_intercept_is_asking(t))
                        has_one |= task_terminate(t, 0);
        return has_one;
}

/* Ends all children, does all file work and lets all clients read: afterwards each request must be answered. */
static void settle(void)
{
        for (size_t i = 0; i < CLIENTS_MAX; i++)
                clients[i].is_lazy = false;
        bool is_quiet = false;
        for (int rounds = 0; !is_quiet; rounds++) {
                size_t before = received;
                turn();
                is_quiet = received == before;
                while (pool_run(server.pool, 0) || pool_tell(server.pool, 0))
                        is_quiet = false;
                for (size_t i = 0; i < CALLS_MAX; i++) {
                        if (!net_call_at(&server, i))
                                continue;
                        net_call_end(net_call_at(&server, i), S("over"));
                        is_quiet = false;
                }
                for (size_t i = 0; i < STARTS_MAX; i++) {
                        if (!starts[i].is_used)
                                continue;
                        say_gone(&starts[i]);
                        is_quiet = false;
                }
                if (is_quiet)
                        is_quiet = !end_questions();
                must(rounds < 10000);
        }
        for (size_t i = 0; i < CLIENTS_MAX; i++) {
                struct user *cl = &clients[i];
                if (cl->fd < 0 || cl->is_closed || cl->has_misspoken)
                        continue;
                must(cl->out.n == 0 && cl->message.n == 0);
                struct asked *a;
                for (size_t pos = 0; (a = map_next(&cl->asked, &pos));)
                        must(a->answered == a->sent);
        }
}

int LLVMFuzzerInitialize(UNUSED int *argc, UNUSED char ***argv)
{
        log_set_level(LOG_OFF);
        signal(SIGPIPE, SIG_IGN);
        config_init(&config);
        environment_init();
        configure(0);
        /* once before the first input, so that what the server keeps for ever does not count as a leak */
        server_open();
        server_close();
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        unsigned fds_before = count_fds();
        if (size == 0)
                return 0;
        configure(data[0]);
        received = 0;
        server_open();
        map_init(&heard);
        memset(last_session, '0', sizeof(last_session) - 1);
        for (size_t i = 0; i < CLIENTS_MAX; i++)
                clients[i].fd = -1;
        client_open(&clients[0]);

        size_t current = 0;
        struct slice rest = slice_from(data + 1, size - 1);
        for (int i = 0; i < LINES_MAX && rest.p && received < RECEIVED_MAX; i++) {
                on_line(slice_split(&rest, '\n'), &current);
                turn();
        }
        if (!(data[0] & 64)) /* else: the server ends with everything that runs and waits */
                settle();

        for (size_t i = 0; i < CLIENTS_MAX; i++)
                client_close(&clients[i]);
        turn();
        server_close();
        map_clear(&heard);
        must(count_fds() == fds_before);
        return 0;
}
