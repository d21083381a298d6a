/* unified_talk: carries the conversation of `farhand unified`, with one poll over stdin, stdout, signals and the table. */
#include "agent/unified_talk.h"

#include "agent/unified_request.h"
#include "agent/unified_write.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/mem.h"
#include "cli/outlet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 * 1024)

enum { AT_IN, AT_OUT, AT_SIGNALS, AT_TABLE, AT_COUNT };

/* A call that is under way. */
struct running {
        struct list link; /* talk::running */
        struct talk *talk;
        char *id;
        struct unified_call *call;
};

struct talk {
        struct unified *table;
        struct approvals *approvals;
        struct outlet out;
        struct list running; /* running::link */
        struct buf in;       /* what was read and is not a whole line yet */
        size_t searched;     /* so many bytes of `in` have no line end */
        bool is_skipping;    /* the rest of a line that is too long is dropped */
        bool has_ended;      /* stdin has ended */
        bool is_ending;      /* the processes are being ended */
        int signal;          /* the signal that ends this program; 0: none came */
        uint64_t end_ms;     /* is_ending: when this program ends, whether or not the processes have */
};

static bool is_full(const struct talk *t)
{
        return outlet_waiting(&t->out) > OUTLET_FULL_BYTES;
}

/* Passes one line on, and empties the buffer. */
static void put(struct talk *t, struct buf *line)
{
        outlet_put(&t->out, line->p, line->n);
        buf_release(line);
        if (t->table && is_full(t))
                unified_pause(t->table, true);
}

static void put_error(struct talk *t, const char *id, const char *message)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_error(&line, id, message);
        put(t, &line);
}

/* ---- what the table tells ---- */

static void running_free(struct running *r)
{
        list_remove(&r->link);
        free(r->id);
        free(r);
}

static void on_result(UNUSED void *arg, void *call_arg, const struct unified_result *result)
{
        struct running *r = call_arg;
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_result(&line, r->id, result);
        put(r->talk, &line);
        running_free(r);
}

static void on_event(void *arg, const struct unified_event *event)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_event(&line, event);
        put(arg, &line);
}

static void on_question(void *arg, const struct approval_question *question)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_question(&line, question);
        put(arg, &line);
}

static void on_withdrawal(void *arg, uint64_t question_id)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_withdrawal(&line, question_id);
        put(arg, &line);
}

/* ---- what is asked for ---- */

static struct running *find(struct talk *t, const char *id)
{
        struct running *r;
        list_each (r, &t->running, link)
                if (strcmp(r->id, id) == 0)
                        return r;
        return NULL;
}

static void begin_call(struct talk *t, const struct request *request)
{
        if (find(t, request->id)) {
                put_error(t, request->id, "a call with this id is under way");
                return;
        }
        struct running *r = mem_new(struct running);
        r->talk = t;
        r->id = mem_strdup(request->id);
        list_append(&t->running, &r->link);
        r->call = unified_begin(t->table, request->tool, request->arguments, r->id, r);
        if (!r->call) {
                put_error(t, request->id, "too many calls are under way");
                running_free(r);
        }
}

static void cancel(struct talk *t, const struct request *request)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        struct running *r = find(t, request->cancelled);
        if (r)
                unified_cancel(r->call);
        write_flag(&line, request->id, "cancelled", r != NULL);
        put(t, &line);
}

static void answer(struct talk *t, const struct request *request)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        bool is_known = approvals_answer(t->approvals, request->question_id, request->answer);
        if (request->id)
                write_flag(&line, request->id, "answered", is_known);
        else if (!is_known)
                write_error(&line, NULL, "there is no open question with this `question_id`");
        put(t, &line);
}

static void on_line(struct talk *t, struct slice line)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(WRITE_LINE_MAX);
        struct request request;
        struct err err = ERR_INIT;
        if (slice_trim(line).n == 0)
                return;
        if (request_read(&a, line, &request, &err) < 0) {
                put_error(t, request.id, err.text);
                return;
        }
        switch (request.kind) {
        case REQUEST_CALL:
                begin_call(t, &request);
                break;
        case REQUEST_LIST_SESSIONS:
                write_sessions(&out, request.id, t->table);
                break;
        case REQUEST_LIST_GRANTS:
                write_grants(&out, request.id, t->approvals);
                break;
        case REQUEST_CANCEL:
                cancel(t, &request);
                break;
        case REQUEST_ANSWER:
                answer(t, &request);
                break;
        }
        put(t, &out);
}

/* ---- stdin ---- */

static void refuse_long_line(struct talk *t)
{
        put_error(t, NULL, "the line is too long");
        buf_release(&t->in);
        t->searched = 0;
}

/* Does what the lines that have come ask for, until stdout is full. */
static void read_lines(struct talk *t)
{
        size_t at = 0;
        while (!is_full(t)) {
                size_t from = MAX(at, t->searched);
                const char *end = memchr(t->in.p + from, '\n', t->in.n - from);
                if (!end && !(t->has_ended && at < t->in.n))
                        break;
                size_t n = end ? (size_t)(end - t->in.p) - at : t->in.n - at;
                if (!t->is_skipping)
                        on_line(t, slice_from(t->in.p + at, n));
                t->is_skipping = false;
                at += n + (end != NULL);
                t->searched = at;
        }
        buf_consume(&t->in, at);
        t->searched = is_full(t) ? 0 : t->in.n;
        if (t->is_skipping) {
                buf_release(&t->in);
                t->searched = 0;
        } else if (t->searched > LIMIT_UNIFIED_LINE_BYTES) {
                refuse_long_line(t);
                t->is_skipping = true;
        }
}

static void read_input(struct talk *t)
{
        char *room;
        must(buf_reserve(&t->in, READ_BYTES, &room) == 0);
        ssize_t n = read(STDIN_FILENO, room, READ_BYTES);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n > 0)
                buf_commit(&t->in, (size_t)n);
        t->has_ended = n <= 0;
        read_lines(t);
}

/* ---- the end ---- */

static void end_processes(struct talk *t)
{
        t->is_ending = true;
        t->end_ms = clock_mono_ms() + LIMIT_UNIFIED_END_MS;
        unified_end_sessions(t->table);
}

/* Ends everything now: a signal came, or nobody reads what we write. */
static void stop(struct talk *t)
{
        struct running *r;
        list_each (r, &t->running, link)
                unified_cancel(r->call);
        t->has_ended = true;
        buf_release(&t->in);
        approvals_lose_asker(t->approvals);
        if (!t->is_ending)
                end_processes(t);
}

/* Goes on with the end, once stdin has ended. Returns whether all is done. */
static bool is_done(struct talk *t)
{
        if (!t->has_ended || t->in.n > 0)
                return false;
        approvals_lose_asker(t->approvals);
        if (!t->is_ending && unified_calls_count(t->table) == 0)
                end_processes(t);
        if (!t->is_ending)
                return false;
        bool is_quiet = unified_processes_count(t->table) == 0 && unified_calls_count(t->table) == 0;
        if (clock_mono_ms() >= t->end_ms)
                return is_quiet || t->signal || t->out.is_broken || outlet_waiting(&t->out) == 0;
        return is_quiet && outlet_waiting(&t->out) == 0;
}

static int open_signals(void)
{
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGHUP);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void on_signal(struct talk *t, int signals)
{
        struct signalfd_siginfo info;
        if (read(signals, &info, sizeof(info)) != sizeof(info))
                return;
        t->signal = (int)info.ssi_signo;
        stop(t);
}

/* Waits once, and does the work that is due. */
static void turn(struct talk *t, int signals)
{
        unified_pause(t->table, is_full(t) && !t->out.is_broken);
        bool has_lines = t->in.n > t->searched; /* lines that came while stdout was full */
        bool wants_in = !t->has_ended && !has_lines && !is_full(t);
        struct pollfd fds[AT_COUNT] = {
                [AT_IN] = { .fd = wants_in ? STDIN_FILENO : -1, .events = POLLIN },
                [AT_OUT] = { .fd = outlet_waiting(&t->out) ? t->out.fd : -1, .events = POLLOUT },
                [AT_SIGNALS] = { .fd = signals, .events = POLLIN },
                [AT_TABLE] = { .fd = unified_fd(t->table), .events = POLLIN },
        };
        int timeout = unified_timeout_ms(t->table);
        if (t->is_ending) {
                uint64_t now = clock_mono_ms();
                int left = now < t->end_ms ? (int)(t->end_ms - now) : -1;
                timeout = timeout < 0 || (left >= 0 && left < timeout) ? left : timeout;
        }
        if (has_lines && !is_full(t))
                timeout = 0;
        (void)poll(fds, AT_COUNT, timeout);
        outlet_flush(&t->out);
        if (fds[AT_SIGNALS].revents)
                on_signal(t, signals);
        if (fds[AT_IN].revents)
                read_input(t);
        else if (!is_full(t))
                read_lines(t);
        unified_step(t->table);
        if (t->out.is_broken && !t->is_ending)
                stop(t);
}

int talk_run(struct talk *t, struct unified *table, struct approvals *approvals)
{
        _close_ int signals = open_signals();
        t->table = table;
        t->approvals = approvals;
        while (!is_done(t))
                turn(t, signals);
        return t->signal ? 128 + t->signal : t->out.is_broken ? 1 : 0;
}

struct talk *talk_new(void)
{
        struct talk *t = mem_new(struct talk);
        outlet_init(&t->out, STDOUT_FILENO);
        list_init(&t->running);
        buf_init(&t->in, LIMIT_UNIFIED_LINE_BYTES + 2 * READ_BYTES);
        return t;
}

void talk_free(struct talk *t)
{
        if (!t)
                return;
        while (!list_is_empty(&t->running))
                running_free(list_first(&t->running, struct running, link));
        outlet_release(&t->out);
        buf_release(&t->in);
        free(t);
}

void talk_prepare(struct talk *t, struct unified_options *options, struct approvals_asker *asker)
{
        options->on_result = on_result;
        options->on_event = on_event;
        options->arg = t;
        *asker = (struct approvals_asker){ .ask = on_question, .withdraw = on_withdrawal, .arg = t };
}
