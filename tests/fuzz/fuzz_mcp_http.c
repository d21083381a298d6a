/* fuzz_mcp_http: bytes to `farhand mcp --listen`, with real connections, sessions and streams, and processes that the harness plays. Whatever
 * comes, the processes get whole lines, the client gets whole answers as long as it asks for them, and nothing is left at the end.
 *
 * In the input the byte 1 stands for the id of a session, 2 for a pause in which all sides do what they can, 3 for a message of the process
 * that belongs to nothing, 4 for another connection, 5 for the end of the processes. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "mcphttp/caller.h"
#include "mcphttp/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PROCESSES_MAX 4
#define TURNS 6

struct world {
        struct loop loop;
        struct {
                int fds[PROCESSES_MAX];
                size_t count;
        } processes;
        struct mcp_sessions sessions;
        struct callers callers;
        struct auth auth;
        struct buf lines[PROCESSES_MAX]; /* of the processes, not whole yet */
        struct buf answers;              /* of the connection that is open */
        int client;
};

static int start(void *arg, int *ret_fd, pid_t *ret_pid, struct err *err)
{
        struct world *w = arg;
        int pair[2];
        if (w->processes.count == PROCESSES_MAX)
                return err_set(err, 0, -EAGAIN, "enough");
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
        w->processes.fds[w->processes.count++] = pair[1];
        *ret_fd = pair[0];
        *ret_pid = 0;
        return 0;
}

static bool knows_version(struct slice name)
{
        return name.n == 10 && slice_starts(name, S("2025-"));
}

static bool has_greeting(struct slice name)
{
        return slice_eq(name, S("2025-11-25"));
}

static void say(struct world *w, size_t i, uint64_t route, enum relay_kind kind, struct slice text)
{
        _buf_ struct buf line = BUF_INIT(4096);
        must(relay_write(&line, route, kind, text) == 0);
        (void)!send(w->processes.fds[i], line.p, line.n, MSG_NOSIGNAL);
}

/* Answers as a process would, by what the message has in it. */
static void on_line(struct world *w, size_t i, struct slice line)
{
        uint64_t route;
        enum relay_kind kind;
        struct slice text;
        must(relay_read(line, &route, &kind, &text) && kind == RELAY_TO && route > 0);
        if (memmem(text.p, text.n, "initialize", 10))
                say(w, i, route, RELAY_LAST, S("{\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\"}}"));
        else if (memmem(text.p, text.n, "refuse", 6))
                say(w, i, route, RELAY_REFUSED, S("{\"id\":null}"));
        else if (memmem(text.p, text.n, "none", 4))
                say(w, i, route, RELAY_LAST, S(""));
        else if (memmem(text.p, text.n, "open", 4))
                say(w, i, route, RELAY_MORE, S("{\"method\":\"m\"}"));
        else if (memmem(text.p, text.n, "bad", 3))
                (void)!send(w->processes.fds[i], "bad\n", 4, MSG_NOSIGNAL);
        else
                say(w, i, route, RELAY_LAST, S("{\"id\":1,\"result\":{}}"));
}

static void play_process(struct world *w, size_t i)
{
        char *room, *end;
        struct buf *lines = &w->lines[i];
        if (w->processes.fds[i] < 0)
                return;
        must(buf_reserve(lines, 65536, &room) == 0);
        ssize_t n = recv(w->processes.fds[i], room, 65536, 0);
        if (n == 0)
                w->processes.fds[i] = fd_close(w->processes.fds[i]);
        buf_commit(lines, (size_t)MAX(n, 0));
        while ((end = memchr(lines->p, '\n', lines->n))) {
                on_line(w, i, slice_from(lines->p, (size_t)(end - lines->p)));
                buf_consume(lines, (size_t)(end - lines->p) + 1);
        }
}

static void play(struct world *w)
{
        for (int turn = 0; turn < TURNS; turn++) {
                char answer[65536];
                loop_turn(&w->loop, false);
                for (size_t i = 0; i < w->processes.count; i++)
                        play_process(w, i);
                ssize_t n = recv(w->client, answer, sizeof(answer), 0);
                if (n > 0 && w->answers.n < MIB)
                        must(buf_append(&w->answers, slice_from(answer, (size_t)n)) == 0);
        }
        must(w->answers.n < 9 || slice_starts(buf_slice(&w->answers), S("HTTP/1.1 ")));
}

static void connect_client(struct world *w)
{
        int pair[2];
        w->client = fd_close(w->client);
        buf_release(&w->answers);
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
        w->client = pair[0];
        caller_new(&w->callers, pair[1], "fuzz");
}

static void flush(struct world *w, struct buf *out)
{
        (void)!send(w->client, out->p, out->n, MSG_NOSIGNAL);
        buf_release(out);
        play(w);
}

static void end_processes(struct world *w)
{
        for (size_t i = 0; i < w->processes.count; i++)
                w->processes.fds[i] = fd_close(w->processes.fds[i]);
}

static void feed(struct world *w, const uint8_t *data, size_t size, const char *session)
{
        _buf_ struct buf out = BUF_INIT(4 * MIB);
        for (size_t i = 0; i < size; i++) {
                if (data[i] == 1)
                        must(buf_append(&out, slice_from_str(session)) == 0);
                else if (data[i] > 5 || data[i] == 0)
                        must(buf_append_char(&out, (char)data[i]) == 0);
                else
                        flush(w, &out);
                if (data[i] == 3 && w->processes.fds[0] >= 0)
                        say(w, 0, 0, RELAY_MORE, S("{\"method\":\"general\"}"));
                if (data[i] == 4)
                        connect_client(w);
                if (data[i] == 5)
                        end_processes(w);
        }
        flush(w, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct world w = { .client = -1 };
        struct err err = ERR_INIT;
        struct session_options options = {
                .start = start, .arg = &w, .most = PROCESSES_MAX, .idle_ms = 1000000
        };
        struct identity nobody = { 0 };
        if (size > 65536)
                return 0;
        log_set_level(LOG_OFF);
        must(loop_init(&w.loop, &err) == 0);
        buf_init(&w.answers, 2 * MIB);
        for (size_t i = 0; i < PROCESSES_MAX; i++)
                buf_init(&w.lines[i], 64 * MIB);
        mcp_sessions_init(&w.sessions, &w.loop, &options);
        callers_init(&w.callers, &w.loop, &w.sessions);
        w.callers.auth = &w.auth;
        w.callers.rules = (struct request_rules){ .path = "/mcp", .knows_version = knows_version };
        w.callers.has_greeting = has_greeting;
        struct mcp_session *session = mcp_session_new(&w.sessions, &nobody, &err);
        must(session != NULL);
        session->has_greeting = true;
        char id[UUID_TEXT_BYTES];
        memcpy(id, session->id, sizeof(id));

        connect_client(&w);
        feed(&w, data, size, id);

        w.client = fd_close(w.client);
        play(&w);
        callers_release(&w.callers);
        must(w.callers.count == 0 && w.callers.body_bytes == 0);
        mcp_sessions_release(&w.sessions);
        must(w.sessions.count == 0);
        end_processes(&w);
        loop_release(&w.loop);
        for (size_t i = 0; i < PROCESSES_MAX; i++)
                buf_release(&w.lines[i]);
        buf_release(&w.answers);
        return 0;
}
