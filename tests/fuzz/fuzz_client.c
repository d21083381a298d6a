/* fuzz_client: what a hostile server can say to the client library. The first byte chooses how the rest is said: as lines on the
 * stdio of a program, as bytes behind a correct upgrade of a WebSocket, as the answer to the upgrade itself, or as the messages of
 * a server whose handshake is done, one in a line. The connection is one end of a socket pair whose other end the harness holds.
 *
 * The callbacks do what programs do at the worst moment: they free processes, requests and watches, make calls, start and write. Every call
 * must be answered exactly once, and no event may follow the end of a process, of an HTTP request or of a watch. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "client/client.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS_MAX 64
#define PROCESSES 5

enum manner { AS_LINES, AS_BYTES, AS_UPGRADE, AS_MESSAGES, MANNERS };

static struct {
        struct farhand *client;
        struct farhand_process *processes[PROCESSES];
        bool is_over[PROCESSES];
        unsigned asked, answered;
        struct farhand_http *http; /* the seeds know the ids of this request and of the watch */
        struct farhand_watch *watch;
        bool is_http_over, is_http_answered, is_watch_over;
        uint8_t salt;
        unsigned turns; /* how many callbacks there were: each does something else */
} world;

static void start(size_t i);

static void on_answer(struct farhand *f, void *arg, const char *result, const struct farhand_error *error)
{
        must(f == world.client && !result != !error);
        must(arg == &world);
        world.answered++;
}

static void ask(unsigned flags)
{
        if (farhand_call(world.client, "fs/readFile", "{\"path\":\n\"/x\"}", flags, on_answer, &world,
                         NULL) == 0)
                world.asked++;
}

static void on_snapshot(struct farhand *f, void *arg, struct farhand_snapshot *s,
                        const struct farhand_error *error)
{
        must(f == world.client && arg == &world && !s != !error);
        must(!s || (s->out && s->err && s->out[s->out_bytes] == '\0' && s->err[s->err_bytes] == '\0'));
        if (s && world.salt & 1)
                farhand_snapshot_release(s);
        world.answered++;
}

static void on_environment(struct farhand *f, void *arg, struct farhand_environment *e,
                           const struct farhand_error *error)
{
        must(f == world.client && arg == &world && !e != !error);
        farhand_environment_free(e);
        world.answered++;
}

static void on_status(struct farhand *f, void *arg, const char *status, const struct farhand_error *error)
{
        must(f == world.client && arg == &world && !status != !error);
        world.answered++;
}

/* Questions whose answers have types. */
static void ask_typed(void)
{
        world.asked += farhand_snapshot_begin(world.client, "a", 100, on_snapshot, &world, NULL) == 0;
        world.asked += farhand_environment_info_begin(world.client, on_environment, &world, NULL) == 0;
        world.asked += farhand_environment_status_begin(world.client, on_status, &world, NULL) == 0;
}

/* ---- HTTP and watches ---- */

static void on_response(struct farhand_http *h, UNUSED void *arg, int status,
                        const struct farhand_http_header *headers, size_t count)
{
        must(h == world.http && !world.is_http_over && !world.is_http_answered && status >= 100);
        world.is_http_answered = true;
        for (size_t i = 0; i < count; i++)
                must(headers[i].name && headers[i].value);
}

static void free_http(void)
{
        farhand_http_free(TAKE(world.http));
}

static void on_body(struct farhand_http *h, UNUSED void *arg, const void *bytes, size_t n)
{
        must(h == world.http && !world.is_http_over && world.is_http_answered && bytes && n > 0);
        if (world.salt % 5 == 0)
                free_http();
}

static void on_done(struct farhand_http *h, UNUSED void *arg)
{
        must(h == world.http && !world.is_http_over && world.is_http_answered);
        world.is_http_over = true;
        if (world.salt % 3 == 0)
                free_http();
}

static void on_http_failed(struct farhand_http *h, UNUSED void *arg, const struct farhand_error *error)
{
        must(h == world.http && !world.is_http_over && error->code < 0);
        world.is_http_over = true;
        if (world.salt % 3 == 0)
                free_http();
}

static void free_watch(void)
{
        farhand_watch_free(TAKE(world.watch));
}

static void on_watching(struct farhand_watch *w, UNUSED void *arg)
{
        must(w == world.watch && !world.is_watch_over);
}

static void on_change(struct farhand_watch *w, UNUSED void *arg, enum farhand_change kind, const char *path,
                      const char *from)
{
        must(w == world.watch && !world.is_watch_over && kind <= FARHAND_RENAMED && path[0] == '/');
        must(!from == (kind != FARHAND_RENAMED));
        if (world.salt % 7 == 0)
                free_watch();
}

static void on_overflow(struct farhand_watch *w, UNUSED void *arg)
{
        must(w == world.watch && !world.is_watch_over);
        if (world.salt % 11 == 0)
                free_watch();
}

static void on_watch_failed(struct farhand_watch *w, UNUSED void *arg, const struct farhand_error *error)
{
        must(w == world.watch && !world.is_watch_over && error->code < 0);
        world.is_watch_over = true;
        if (world.salt % 3 == 0)
                free_watch();
}

/* Starts again what was freed or is over. */
static void look_around(void)
{
        static const struct farhand_http_events http_events = { on_response, on_body, on_done,
                                                                on_http_failed };
        static const struct farhand_watch_events watch_events = { on_watching, on_change, on_overflow,
                                                                  on_watch_failed };
        struct farhand_http_request request = FARHAND_HTTP_REQUEST_INIT;
        request.url = "http://h";
        if (!world.http || world.is_http_over) {
                free_http();
                world.is_http_over = world.is_http_answered = false;
                world.http = farhand_http_start(world.client, &request, &http_events, NULL, NULL);
        }
        if (!world.watch || world.is_watch_over) {
                free_watch();
                world.is_watch_over = false;
                world.watch = farhand_watch_start(world.client, "/d", true, &watch_events, NULL, NULL);
        }
}

/* ---- processes ---- */

static size_t index_of(const struct farhand_process *p)
{
        for (size_t i = 0; i < PROCESSES; i++)
                if (world.processes[i] == p)
                        return i;
        must(false); /* an event of a process that was freed */
        return 0;
}

static void drop(size_t i)
{
        struct farhand_process *p = world.processes[i];
        world.processes[i] = NULL;
        farhand_process_free(p);
}

/* Does what a program might do in a callback of process i. */
static void act(size_t i)
{
        struct farhand_process *p = world.processes[i];
        switch ((world.salt + world.turns++) % 9) {
        case 0:
                drop(i);
                break;
        case 1:
                drop(i);
                start(i);
                break;
        case 2:
                ask(FARHAND_REPEAT);
                break;
        case 3:
                (void)farhand_process_write(p, "0123456789", 10, NULL);
                (void)farhand_process_close_stdin(p, NULL);
                break;
        case 4:
                (void)farhand_process_signal(p, 2);
                (void)farhand_process_resize(p, 3, 4);
                (void)farhand_process_terminate(p);
                break;
        case 5:
                drop((i + 1) % PROCESSES);
                break;
        case 6: {
                struct farhand_taken taken;
                if (farhand_process_take(p, &taken, NULL) == 0)
                        free(taken.bytes);
                break;
        }
        default:
                break;
        }
}

static void on_started(struct farhand_process *p, UNUSED void *arg, UNUSED int64_t pid)
{
        act(index_of(p));
}

static void on_output(struct farhand_process *p, UNUSED void *arg, enum farhand_stream stream,
                      const void *bytes, size_t n)
{
        size_t i = index_of(p);
        must(!world.is_over[i] && stream <= FARHAND_PTY && (bytes || n == 0));
        act(i);
}

static void on_writable(struct farhand_process *p, UNUSED void *arg)
{
        act(index_of(p));
}

static void on_exited(struct farhand_process *p, UNUSED void *arg, const struct farhand_exit *exit)
{
        size_t i = index_of(p);
        must(!world.is_over[i] && strnlen(exit->signal, sizeof(exit->signal)) < sizeof(exit->signal));
        act(i);
}

static void on_closed(struct farhand_process *p, UNUSED void *arg)
{
        size_t i = index_of(p);
        must(!world.is_over[i]);
        world.is_over[i] = true;
        act(i);
}

static void on_failed(struct farhand_process *p, UNUSED void *arg, const struct farhand_error *error)
{
        size_t i = index_of(p);
        must(!world.is_over[i] && error->code < 0);
        world.is_over[i] = true;
        act(i);
}

static void on_gap(struct farhand_process *p, UNUSED void *arg, uint64_t first, uint64_t last,
                   UNUSED uint64_t bytes)
{
        size_t i = index_of(p);
        must(!world.is_over[i] && first <= last);
        act(i);
}

/* Touches all that is told, and answers. */
static void on_exec(struct farhand_process *p, UNUSED void *arg, const struct farhand_exec *exec)
{
        size_t i = index_of(p), sum = strlen(exec->file) + strlen(exec->cwd);
        must(!world.is_over[i] && exec->decision <= FARHAND_EXEC_WITHDRAWN);
        for (size_t k = 0; exec->argv[k]; k++)
                sum += strlen(exec->argv[k]);
        if (exec->rule_name)
                sum += strlen(exec->rule_name) + (exec->justification ? strlen(exec->justification) : 0);
        if (exec->request_id)
                (void)farhand_process_decide(p, exec->request_id, FARHAND_EXEC_RUN, NULL, sum % 2, NULL);
        act(i);
}

static void on_network(struct farhand_process *p, UNUSED void *arg,
                       const struct farhand_network_question *question)
{
        struct farhand_network_answer answer = FARHAND_NETWORK_ANSWER_INIT;
        size_t i = index_of(p);
        must(!world.is_over[i] && question->protocol && question->host);
        answer.action = world.salt % 2 ? FARHAND_NETWORK_ALLOW : FARHAND_NETWORK_DENY;
        answer.remember = (enum farhand_remember)(world.salt % 3);
        if (world.turns % 3 > 0) /* otherwise the question stays open */
                (void)farhand_process_answer_network(p, question->id - world.turns % 3 + 1, &answer, NULL);
        act(i);
}

static void on_network_decision(struct farhand_process *p, UNUSED void *arg,
                                const struct farhand_network_decision *decision)
{
        size_t i = index_of(p);
        must(!world.is_over[i] && decision->action <= FARHAND_NETWORK_ASK && decision->source &&
             decision->reason && decision->protocol && decision->host && decision->time);
        act(i);
}

static const struct farhand_process_events events = { on_started, on_output,          on_writable, on_exited,
                                                      on_closed,  on_failed,          on_gap,      on_exec,
                                                      on_network, on_network_decision };
static const struct farhand_process_events events_without_gaps = {
        on_started, on_output, on_writable, on_exited, on_closed, on_failed, NULL, NULL, NULL, NULL
};

/* Process 3 is one that runs already, and process 4 another listener to process 0. The names are known to the seeds. */
static void start(size_t i)
{
        static const char *const names[PROCESSES] = { "a", "b", "c", "d", "a" };
        struct farhand_command command = FARHAND_COMMAND_INIT;
        const char *const argv[] = { "cat", NULL };
        command.process_id = names[i];
        command.argv = argv;
        command.stdin_open = i != 1;
        command.tty = i == 2;
        world.is_over[i] = false;
        world.processes[i] = i >= 3 ? farhand_adopt(world.client, names[i], i == 3 ? world.salt & 3 : 0,
                                                    &events, NULL, NULL)
                                    : farhand_start(world.client, &command,
                                                    i == 1 ? &events_without_gaps : &events, NULL, NULL);
        if (i == 2 && world.processes[i])
                (void)farhand_process_collect(world.processes[i], 16, NULL);
}

static void on_state(struct farhand *f, UNUSED void *arg, int state, const char *text)
{
        must(farhand_get_state(f) == (enum farhand_state)state && text);
        if (state != FARHAND_READY)
                return;
        for (size_t i = 0; i < PROCESSES; i++)
                if (!world.processes[i])
                        start(i);
        ask(0);
        ask(FARHAND_REPEAT);
        look_around();
        if (world.salt & 2)
                ask_typed();
}

static void on_notification(UNUSED struct farhand *f, UNUSED void *arg, const char *method,
                            const char *params)
{
        must(method && params);
        ask(0);
}

/* ---- the server ---- */

static void say(int fd, struct slice bytes)
{
        while (bytes.n > 0) {
                ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n <= 0)
                        return;
                bytes = slice_from(bytes.p + n, bytes.n - (size_t)n);
        }
}

static void say_frame(int fd, struct slice text)
{
        char head[WS_HEAD_MAX];
        say(fd, slice_from(head, ws_head_write(head, WS_TEXT, true, text.n)));
        say(fd, text);
}

static void agree(int fd, const char *key)
{
        char accept[29];
        _buf_ struct buf answer = BUF_INIT(1024);
        ws_accept(slice_from_str(key), accept);
        must(buf_printf(&answer,
                        "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: "
                        "Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                        accept) == 0);
        say(fd, buf_slice(&answer));
}

/* Throws away what the client has sent, so that it never has to wait. */
static void drain(int fd)
{
        static char sink[65536];
        while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
                ;
}

static void step(int server)
{
        (void)farhand_step(world.client, NULL);
        must(farhand_timeout_ms(world.client) >= -1);
        drain(server);
}

/* Connects the client to one end of a pair, as farhand_step would: with a URL that is never looked up. */
static void connect_client(enum manner manner, int client_end)
{
        struct farhand *f = world.client;
        f->retry_at_ms = 0;
        if (manner == AS_LINES)
                transport_open_child(&f->transport, client_end, 0);
        else
                transport_open_tls(&f->transport, &f->endpoint, NULL, client_end, 0);
        f->attempt_end_ms = clock_mono_ms() + CONNECT_TIMEOUT_MS;
}

/* Connects the client again, after its connection was lost. Returns the other end of the connection, which the harness holds. */
static int reconnect(enum manner manner)
{
        int pair[2];
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        connect_client(manner, pair[0]);
        if (manner != AS_LINES && manner != AS_UPGRADE)
                agree(pair[1], world.client->transport.key);
        return pair[1];
}

static void speak(enum manner manner, struct slice rest, size_t piece)
{
        int server = reconnect(manner);
        struct slice hello = S("{\"id\":0,\"result\":{\"sessionId\":\"s\",\"environmentInfo\":{"
                               "\"capabilities\":{\"processControlV1\":true}}}}");
        for (int steps = 0; steps < STEPS_MAX && world.client->state != FARHAND_FAILED; steps++) {
                if (world.client->transport.state == TRANSPORT_CLOSED) {
                        fd_close(server);
                        server = reconnect(manner);
                }
                step(server);
                if (manner == AS_MESSAGES && world.client->is_initializing) {
                        say_frame(server, hello);
                        step(server);
                }
                if (manner == AS_MESSAGES && world.client->state != FARHAND_READY)
                        continue; /* the messages are those behind the handshake */
                if (rest.n == 0) {
                        (void)shutdown(server, SHUT_WR);
                } else if (manner == AS_MESSAGES) {
                        struct slice line = slice_split(&rest, '\n');
                        if (slice_eq(line, S("CUT")))
                                (void)shutdown(server, SHUT_RDWR);
                        else
                                say_frame(server, line);
                } else {
                        size_t n = MIN(rest.n, piece);
                        say(server, slice_from(rest.p, n));
                        rest = slice_from(rest.p + n, rest.n - n);
                }
        }
        fd_close(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        if (size < 3 || size > 65536)
                return 0;
        enum manner manner = (enum manner)(data[0] % MANNERS);
        memset(&world, 0, sizeof(world));
        world.salt = data[1];
        const char *const argv[] = { "none", NULL };
        options.url = manner == AS_LINES ? NULL : "wss://h";
        options.argv = manner == AS_LINES ? argv : NULL;
        options.farhand_net = "/nonexistent"; /* the client cannot connect by itself */
        options.on_state = on_state;
        options.on_notification = on_notification;
        world.client = farhand_new(&options, NULL);
        must(world.client);
        speak(manner, slice_from(data + 3, size - 3), 1 + (size_t)data[2] * 16);
        must(world.answered <= world.asked);
        if (world.client->state == FARHAND_FAILED)
                must(world.answered == world.asked);
        farhand_free(world.client);
        return 0;
}
