/* broker_wrapped: requests that come over streams of wrappers (wrapped.h), and what their callers send later. Such requests are decided
 * about, asked about and counted like the requests of callers that wait in execve. */
#include "intercept/broker_internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/sys.h"
#include "intercept/wrapped.h"
#include "keeper/keeper_shared.h"

#include <errno.h>
#include <signal.h>

#define ACCEPTS_AT_ONCE \
        16 /* messages of the pair in one turn: what comes from the server waits for no more than these */

bool streams_may_begin(const struct broker *b)
{
        return b->streams < LIMIT_ESCALATE_STREAMS;
}

void streams_take(struct broker *b)
{
        for (int i = 0; i < ACCEPTS_AT_ONCE && streams_may_begin(b); i++) {
                int stream = wrapped_accept(b->start.listener);
                if (stream == -EAGAIN || stream == -ENOBUFS || stream == -ENOMEM)
                        return;
                if (stream == -EPROTO)
                        continue;
                if (stream < 0) {
                        b->is_over = true;
                        /* A wrapper that asks from now on learns at once that nobody answers. */
                        b->start.listener = fd_close(b->start.listener);
                        return;
                }
                struct request *r = request_new();
                r->caller.wrapped = wrapped_new(stream);
                r->begun_us = clock_mono_us();
                r->state = REQUEST_READ;
                b->streams++;
                list_append(&b->requests, &r->link);
                if (broker_may_take(b))
                        stream_step(b, r); /* a short question is there already */
        }
}

/* ---- what the caller wants to execute ---- */

static int texts_copy(struct buf *ret, const struct slice *texts, size_t count, size_t *room)
{
        for (size_t i = 0; i < count; i++) {
                size_t n = texts[i].n + 1 + sizeof(char *);
                if (n > *room || buf_append(ret, texts[i]) < 0 || buf_append_char(ret, 0) < 0)
                        return -E2BIG;
                *room -= n;
        }
        return 0;
}

/* Copies path, arguments and environment out of the request. Refuses what the kernel would refuse as too long. */
static int request_fill(struct caller *c, const struct escalate_request *in)
{
        size_t room = LIMIT_INTERCEPT_EXEC_BYTES;
        if (buf_append(&c->text, in->file) < 0 || buf_append_char(&c->text, 0) < 0 ||
            buf_append(&c->file, in->file) < 0)
                return -ENAMETOOLONG;
        int r = texts_copy(&c->argv_text, in->argv, in->argc, &room);
        if (r == 0)
                r = texts_copy(&c->wrapped->env, in->env, in->env_count, &room);
        c->wrapped->env_count = in->env_count;
        c->argc = in->argc;
        caller_argv_slice(c);
        return r;
}

int stream_find(struct request *r)
{
        struct caller *c = &r->caller;
        if (c->wrapped->pidfd >= 0)
                return 0;
        pid_t process = wrapped_process(c->wrapped);
        if (process < 0)
                return process;
        c->thread = process;
        r->pidfd = c->wrapped->pidfd = sys_pidfd_open(process);
        if (r->pidfd < 0)
                return r->pidfd;
        int e = caller_read_status(c);
        if (e == 0)
                e = caller_read_cwd(c);
        if (e == 0 && !caller_is_there(c))
                e = -ESRCH;
        return e;
}

static void request_read(struct broker *b, struct request *r)
{
        struct escalate_request in;
        int e = wrapped_request(r->caller.wrapped, &b->arena, &in);
        if (e == 0)
                return;
        if (e < 0)
                return request_lose(b, r);
        e = request_fill(&r->caller, &in);
        /* The process that asks need not be known for a program that simply runs, unless the client wants reports. So it is looked
         * for here only when it is needed in any case. */
        bool must_find = e < 0 || b->options.reports || r->caller.file.p[0] != '/';
        if (must_find && stream_find(r) < 0)
                return request_lose(b, r);
        if (e < 0)
                return request_fail(b, r, e);
        broker_decide(b, r);
}

/* ---- later ---- */

/* Returns whether wrappers pass this signal on. */
static bool is_passed_on(int signo)
{
        return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT ||
               signo == SIGUSR1 || signo == SIGUSR2 || signo == SIGCONT;
}

static void signals_read(struct broker *b, struct request *r)
{
        int signo, e;
        while ((e = wrapped_more(r->caller.wrapped, &b->arena, &signo)) > 0) {
                if (!is_passed_on(signo))
                        return request_lose(b, r);
                escalated_signal(&r->outside, signo);
        }
        if (e < 0)
                request_lose(b, r);
}

/* Reads the descriptors that a wrapper sends after the answer Escalate, and then carries that answer out. */
static void descriptors_read(struct broker *b, struct request *r)
{
        int signo = 0, e = wrapped_more(r->caller.wrapped, &b->arena, &signo);
        if (e == 0)
                return;
        if (e < 0 || signo)
                return request_lose(b, r);
        request_given(b, r);
        if (r->state == REQUEST_OUTSIDE)
                signals_read(b, r); /* signals may have come with the descriptors */
}

/* Brings the sums of the broker up to date with what the stream holds. */
static void stream_count(struct broker *b, struct wrapped *w, size_t bytes, size_t fds)
{
        b->stream_bytes += bytes - w->counted_bytes;
        b->stream_fds += fds - w->counted_fds;
        w->counted_bytes = bytes;
        w->counted_fds = fds;
}

static void stream_act(struct broker *b, struct request *r)
{
        const struct wrapped *w = r->caller.wrapped;
        if (r->state == REQUEST_READ)
                request_read(b, r);
        else if (r->state == REQUEST_GIVEN)
                descriptors_read(b, r);
        else if (r->state == REQUEST_OUTSIDE)
                signals_read(b, r);
        else if (w->in.n > 0 || w->fd_count > 0)
                request_lose(b, r); /* before the answer a wrapper has nothing to say */
}

void stream_step(struct broker *b, struct request *r)
{
        struct wrapped *w = r->caller.wrapped;
        int e = wrapped_read(w);
        stream_count(b, w, w->in.allocated, w->fd_count);
        if (e < 0 || b->stream_bytes > LIMIT_INTERCEPT_OPEN_BYTES || b->stream_fds > LIMIT_ESCALATE_HELD_FDS)
                request_lose(b, r);
        else
                stream_act(b, r);
        if (r->caller.wrapped)
                stream_count(b, w, w->in.allocated, w->fd_count);
}

void stream_look(struct broker *b, struct request *r)
{
        bool is_awaited = r->state == REQUEST_READ || r->state == REQUEST_GIVEN;
        if (is_awaited && clock_mono_us() - r->begun_us >= LIMIT_ESCALATE_WAIT_MS * 1000ULL)
                request_lose(b, r);
}

/* Called when the request is over. */
void stream_end(struct broker *b, struct request *r)
{
        b->streams--;
        stream_count(b, r->caller.wrapped, 0, 0);
        r->caller.wrapped = wrapped_free(r->caller.wrapped);
}
