/* sessions: starts and ends the processes of sessions, and carries lines between them and the streams. */
#include "mcphttp/sessions.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "mcphttp/relay.h"
#include "mcphttp/request.h"

#include <errno.h>
#include <nettle/memops.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 * KIB)
#define LAST_OUTPUT_MS 1000

/* ---- the end ---- */

static void session_free(struct mcp_session *s)
{
        must(s->readers == 0);
        mcp_streams_release(&s->streams);
        s->watch = watch_free(s->watch);
        s->idle = timer_free(s->idle);
        s->patience = timer_free(s->patience);
        fd_close(s->fd);
        buf_release(&s->in);
        buf_release(&s->out);
        list_remove(&s->link);
        s->sessions->count--;
        free(s);
}

/* Frees the sessions that are over. This happens at the end of a turn. */
static void on_reap(struct deferred *d)
{
        struct mcp_sessions *all = container_of(d, struct mcp_sessions, reap);
        struct mcp_session *s;
        list_each (s, &all->all, link)
                if (s->has_ended && s->pid == 0 && s->readers == 0)
                        session_free(s);
        if (all->count == 0 && all->on_empty)
                all->on_empty(all->arg);
}

static void look_if_over(struct mcp_session *s)
{
        if (s->has_ended && s->pid == 0 && s->readers == 0)
                loop_defer(s->sessions->loop, &s->sessions->reap);
}

static void kill_process(struct mcp_session *s)
{
        if (s->pid > 0)
                (void)kill(
                        s->pid,
                        SIGKILL); /* the process is our child and not reaped, so its number is still its own */
}

static void on_impatience(void *arg)
{
        struct mcp_session *s = arg;
        if (s->pid == 0) {
                mcp_session_end(s);
                return;
        }
        log_warn("a session does not end", "session=%.8s pid=%d", s->id, s->pid);
        kill_process(s);
}

static void end_streams(struct mcp_session *s)
{
        while (true) {
                struct mcp_stream *open = NULL, *one;
                list_each (one, &s->streams.all, link)
                        if (!one->is_done && !open)
                                open = one;
                if (!open)
                        return;
                open->is_broken = true;
                mcp_stream_end(open);
        }
}

void mcp_session_end(struct mcp_session *s)
{
        if (s->has_ended)
                return;
        s->has_ended = true;
        (void)map_remove(&s->sessions->by_id, slice_from_str(s->id));
        timer_stop(s->idle);
        s->limbo = NULL; /* from now on it is a stream like the others */
        end_streams(s);
        buf_release(&s->out);
        s->sent = 0;
        if (s->fd >= 0) {
                (void)shutdown(s->fd, SHUT_WR); /* ends the stdin of the process */
                watch_set(s->watch, WATCH_READ);
        }
        if (s->pid > 0)
                timer_start(s->patience, LIMIT_MCP_HTTP_END_MS);
        look_if_over(s);
}

static void on_idle(void *arg)
{
        struct mcp_session *s = arg;
        log_info("a session was idle", "session=%.8s", s->id);
        mcp_session_end(s);
}

void mcp_sessions_reap(struct mcp_sessions *all)
{
        struct mcp_session *s;
        int status;
        list_each (s, &all->all, link) {
                if (s->pid == 0 || waitpid(s->pid, &status, WNOHANG) != s->pid)
                        continue;
                log_debug("process of a session ended", "session=%.8s status=%d", s->id, status);
                s->pid = 0;
                timer_stop(s->patience);
                /* The last output of the process may still be unread. The session ends with the end of that output, or soon. */
                if (!s->has_ended)
                        timer_start(s->patience, LAST_OUTPUT_MS);
                look_if_over(s);
        }
}

/* ---- from the process ---- */

/* Returns the stream for messages that belong to no request. */
static struct mcp_stream *general_stream(struct mcp_session *s)
{
        struct mcp_stream *one, *of_get = NULL, *of_post = NULL;
        list_each (one, &s->streams.all, link) {
                if (!one->reader || one->is_done || !one->is_sse)
                        continue;
                if (one->is_standalone)
                        of_get = one;
                else
                        of_post = one;
        }
        return of_get ? of_get : of_post ? of_post : s->limbo;
}

static void take_message(struct mcp_session *s, uint64_t route, enum relay_kind kind, struct slice text)
{
        struct mcp_stream *stream = route > 0 ? mcp_stream_find(&s->streams, route) : NULL;
        _buf_ struct buf message = BUF_INIT(LIMIT_MCP_HTTP_MESSAGE_BYTES);
        must(buf_append(&message, text) == 0);
        /* The connection of this request broke before there was a stream. Its messages can go to another stream, but its answer cannot. */
        if (kind == RELAY_MORE &&
            (!stream || stream->is_done || stream->is_lost || !(stream->reader || stream->is_sse)))
                stream = general_stream(s);
        if (!stream || stream->is_done)
                return;
        stream->is_refused = kind == RELAY_REFUSED;
        if (message.n > 0)
                mcp_stream_put(stream, &message);
        if (kind != RELAY_MORE)
                mcp_stream_end(stream);
}

static void fail(struct mcp_session *s, const char *why)
{
        log_warn("a session is broken", "session=%.8s pid=%d why=%s", s->id, s->pid,
                 log_quote(slice_from_str(why)));
        mcp_session_end(s);
}

static void take_line(struct mcp_session *s, struct slice line)
{
        uint64_t route;
        enum relay_kind kind;
        struct slice text;
        if (line.n > LIMIT_MCP_HTTP_MESSAGE_BYTES)
                fail(s, "its process said too much at once");
        else if (relay_read(line, &route, &kind, &text) && kind != RELAY_TO)
                take_message(s, route, kind, text);
        else
                fail(s, "its process said something that is no line of it");
}

static void take_lines(struct mcp_session *s)
{
        size_t at = 0;
        while (!s->has_ended) {
                size_t from = MAX(at, s->searched);
                const char *end = memchr(s->in.p + from, '\n', s->in.n - from);
                if (!end)
                        break;
                take_line(s, slice_from(s->in.p + at, (size_t)(end - s->in.p) - at));
                at = s->searched = (size_t)(end - s->in.p) + 1;
        }
        if (s->has_ended || at == s->in.n)
                buf_release(&s->in); /* an idle session holds no memory */
        else
                buf_consume(&s->in, at);
        s->searched = s->in.n;
        if (s->in.n > LIMIT_MCP_HTTP_MESSAGE_BYTES)
                fail(s, "its process said too much at once");
}

static void on_end_of_output(struct mcp_session *s)
{
        s->watch = watch_free(s->watch);
        s->fd = fd_close(s->fd);
        mcp_session_end(s);
}

static void receive(struct mcp_session *s)
{
        char *room;
        must(buf_reserve(&s->in, READ_BYTES, &room) == 0);
        ssize_t r = recv(s->fd, room, READ_BYTES, 0);
        if (r > 0) {
                buf_commit(&s->in, (size_t)r);
                take_lines(s);
        } else if (r == 0 || !fd_is_passing(errno)) {
                on_end_of_output(s);
        }
}

/* ---- to the process ---- */

static void send_lines(struct mcp_session *s)
{
        while (s->sent < s->out.n) {
                ssize_t r = send(s->fd, s->out.p + s->sent, s->out.n - s->sent, MSG_NOSIGNAL);
                if (r < 0 && !fd_is_passing(errno)) {
                        fail(s, "its process takes nothing more");
                        return;
                }
                if (r < 0)
                        break;
                s->sent += (size_t)r;
        }
        if (s->sent == s->out.n) {
                buf_release(&s->out);
                s->sent = 0;
        } else if (s->sent > s->out.n / 2) {
                buf_consume(&s->out, s->sent);
                s->sent = 0;
        }
        watch_set(s->watch, WATCH_READ | (s->out.n > 0 ? WATCH_WRITE : 0u));
}

static void on_ready(void *arg, unsigned events)
{
        struct mcp_session *s = arg;
        if ((events & WATCH_WRITE) && !s->has_ended)
                send_lines(s);
        if ((events & WATCH_READ) && s->fd >= 0)
                receive(s);
}

/* ---- what connections ask for ---- */

static void count_reader(struct mcp_session *s)
{
        s->readers++;
        timer_stop(s->idle);
}

struct mcp_stream *mcp_session_post(struct mcp_session *s, struct slice text, struct stream_reader *reader)
{
        if (s->out.n - s->sent + text.n > LIMIT_MCP_HTTP_QUEUE_BYTES ||
            s->streams.open >= LIMIT_MCP_HTTP_STREAMS)
                return NULL;
        struct mcp_stream *stream = mcp_stream_new(&s->streams, ++s->last_stream, false, reader);
        must(relay_write(&s->out, stream->id, RELAY_TO, text) == 0);
        watch_set(s->watch, WATCH_READ | WATCH_WRITE);
        count_reader(s);
        return stream;
}

/* Closes the oldest connection that a GET has opened when there are too many. */
static void make_room(struct mcp_session *s)
{
        struct mcp_stream *one, *oldest = NULL;
        size_t count = 0;
        list_each (one, &s->streams.all, link) {
                if (!one->is_standalone || !one->reader)
                        continue;
                oldest = oldest ? oldest : one;
                count++;
        }
        if (count >= LIMIT_MCP_HTTP_GETS)
                mcp_stream_lose_reader(oldest);
}

/* Finds the stream of the last event that a client has got. Returns NULL when later messages of that stream are gone. */
static struct mcp_stream *resume(struct mcp_session *s, struct slice last_event, struct stream_reader *reader)
{
        uint64_t id, number;
        if (!event_id_read(last_event, &id, &number) || id == 0)
                return NULL;
        struct mcp_stream *stream = mcp_stream_find(&s->streams, id);
        return stream && mcp_stream_attach(stream, number, reader) ? stream : NULL;
}

struct mcp_stream *mcp_session_get(struct mcp_session *s, struct slice last_event,
                                   struct stream_reader *reader)
{
        struct mcp_stream *stream;
        if (last_event.n > 0) {
                stream = resume(s, last_event, reader);
                if (!stream)
                        return NULL;
        } else {
                make_room(s);
                stream = mcp_stream_new(&s->streams, ++s->last_stream, true, reader);
        }
        count_reader(s);
        mcp_session_begin_events(s, stream);
        return stream;
}

void mcp_session_begin_events(struct mcp_session *s, struct mcp_stream *stream)
{
        if (!stream->is_sse && s->has_greeting && stream->last_number == 0)
                mcp_stream_greet(stream);
        stream->is_sse = true;
        if (s->limbo && !stream->is_done)
                mcp_stream_move(s->limbo, stream);
}

void mcp_session_detach(struct mcp_session *s, struct mcp_stream *stream)
{
        if (stream)
                mcp_stream_detach(stream);
        if (--s->readers == 0 && !s->has_ended)
                timer_start(s->idle, s->sessions->options.idle_ms);
        look_if_over(s);
}

/* ---- the sessions ---- */

struct mcp_session *mcp_sessions_find(const struct mcp_sessions *all, struct slice id,
                                      const struct identity *who)
{
        struct mcp_session *s = map_find(&all->by_id, id);
        return s && identity_may_see(who, s->owner.owner) ? s : NULL;
}

/* Ends that session of the client which nobody has been connected to for the longest time: a client that never ends its sessions locks
 * itself out for the minutes of LIMIT_MCP_HTTP_YIELD_MS only. Returns false when there is none. The sessions of others stay. */
static bool make_room_for(struct mcp_sessions *all, const struct identity *owner)
{
        struct mcp_session *s, *oldest = NULL;
        uint64_t idle_ms = all->options.idle_ms,
                 most_left = idle_ms - MIN(idle_ms / 2, LIMIT_MCP_HTTP_YIELD_MS);
        list_each (s, &all->all, link) {
                uint64_t left = timer_left_ms(s->idle);
                if (s->has_ended || s->readers > 0 || left > most_left ||
                    !memeql_sec(s->owner.owner, owner->owner, IDENTITY_BYTES))
                        continue;
                most_left = left;
                oldest = s;
        }
        if (!oldest)
                return false;
        log_info("a session gives way to a new one", "session=%.8s", oldest->id);
        mcp_session_end(oldest);
        return true;
}

struct mcp_session *mcp_session_new(struct mcp_sessions *all, const struct identity *owner, struct err *err)
{
        _close_ int fd = -1;
        pid_t pid = 0;
        struct watch *watch;
        bool is_full = map_count(&all->by_id) >= all->options.most && !make_room_for(all, owner);
        /* Sessions that have ended count as long as their processes are there. */
        if (is_full || all->count >= 2 * all->options.most) {
                (void)err_set(err, 0, -EAGAIN, "there are too many sessions");
                return NULL;
        }
        if (all->options.start(all->options.arg, &fd, &pid, err) < 0)
                return NULL;
        struct mcp_session *s = mem_new(struct mcp_session);
        int r = watch_new(all->loop, fd, WATCH_READ, on_ready, s, &watch);
        if (r < 0) {
                (void)err_set(err, 0, r, "a new session: %s", errno_text(r));
                free(s);
                if (pid > 0) { /* the process has done nothing yet */
                        (void)kill(pid, SIGKILL);
                        (void)waitpid(pid, NULL, 0);
                }
                return NULL;
        }
        s->sessions = all;
        s->owner = *owner;
        s->pid = pid;
        s->fd = TAKE_FD(fd);
        s->watch = watch;
        random_uuid(s->id);
        buf_init(&s->in, LIMIT_MCP_HTTP_MESSAGE_BYTES + 2 * READ_BYTES);
        buf_init(&s->out, 2 * LIMIT_MCP_HTTP_QUEUE_BYTES +
                                  LIMIT_UNIFIED_LINE_BYTES); /* half of the buffer may be sent already */
        mcp_streams_init(&s->streams);
        s->limbo = mcp_stream_new(&s->streams, 0, false, NULL);
        s->idle = timer_new(all->loop, on_idle, s);
        s->patience = timer_new(all->loop, on_impatience, s);
        list_append(&all->all, &s->link);
        all->count++;
        map_put(&all->by_id, slice_from_str(s->id), s);
        return s;
}

void mcp_sessions_init(struct mcp_sessions *s, struct loop *loop, const struct session_options *options)
{
        *s = (struct mcp_sessions){ .loop = loop, .options = *options };
        map_init(&s->by_id);
        list_init(&s->all);
        deferred_init(&s->reap, on_reap);
}

void mcp_sessions_end(struct mcp_sessions *all)
{
        struct mcp_session *s;
        list_each (s, &all->all, link)
                mcp_session_end(s);
        loop_defer(all->loop, &all->reap);
}

void mcp_sessions_release(struct mcp_sessions *all)
{
        struct mcp_session *s;
        all->on_empty = NULL;
        deferred_cancel(&all->reap);
        list_each (s, &all->all, link) {
                mcp_session_end(s);
                kill_process(s);
                if (s->pid > 0)
                        (void)waitpid(s->pid, NULL, 0);
                s->pid = 0;
                session_free(s);
        }
        deferred_cancel(&all->reap);
        map_release(&all->by_id);
}
