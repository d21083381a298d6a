/* talk: carries a conversation, with one poll over stdin, stdout, signals and the table. */
#include "talk/talk.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/outlet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 * 1024)

enum { AT_IN, AT_OUT, AT_SIGNALS, AT_TABLE, AT_COUNT };

struct talk {
        struct talk_user user;
        struct unified *table;
        struct approvals *approvals;
        struct outlet out;
        struct buf in;    /* what was read and is not a whole line yet */
        size_t searched;  /* how many bytes of `in` are known to have no line end */
        bool is_skipping; /* the rest of a line that is too long is dropped */
        bool has_ended;   /* stdin has ended */
        bool is_ending;   /* the processes are being ended */
        int signal;       /* the signal that ends this program; 0: none came */
        uint64_t end_ms;  /* is_ending: when this program ends, whether or not the processes have */
};

static bool is_full(const struct talk *t)
{
        return outlet_waiting(&t->out) > OUTLET_FULL_BYTES;
}

void talk_put(struct talk *t, struct buf *line)
{
        outlet_put(&t->out, line->p, line->n);
        buf_release(line);
        if (t->table && is_full(t))
                unified_pause(t->table, true);
}

bool talk_has_ended(const struct talk *t)
{
        return t->has_ended;
}

/* ---- stdin ---- */

static void on_line(struct talk *t, struct slice line)
{
        if (slice_trim(line).n > 0)
                t->user.on_line(t->user.arg, line);
}

/* Drops what was read and not done yet. */
static void drop_input(struct talk *t)
{
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
                drop_input(t);
        } else if (t->searched > LIMIT_UNIFIED_LINE_BYTES) {
                drop_input(t);
                t->is_skipping = true;
                t->user.on_long_line(t->user.arg);
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
        unified_cancel_all(t->table);
        t->has_ended = true;
        drop_input(t);
        approvals_lose_asker(t->approvals);
        if (!t->is_ending)
                end_processes(t);
}

/* Goes on with the end, once stdin has ended. Returns whether all is done. */
static bool is_done(struct talk *t)
{
        if (t->has_ended && t->user.ends_at_once && !t->is_ending)
                stop(t);
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

/* Returns the smaller one of two timeouts of poll, of which -1 is the longest. */
static int sooner(int a, int b)
{
        return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int milliseconds_until(uint64_t at_ms, uint64_t now_ms)
{
        return at_ms == UINT64_MAX ? -1 : at_ms <= now_ms ? 0 : (int)MIN(at_ms - now_ms, (uint64_t)INT32_MAX);
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
        uint64_t now = clock_mono_ms();
        if (t->is_ending && now < t->end_ms)
                timeout = sooner(timeout, milliseconds_until(t->end_ms, now));
        if (t->user.due_ms)
                timeout = sooner(timeout, milliseconds_until(t->user.due_ms(t->user.arg), now));
        if (has_lines && !is_full(t))
                timeout = 0;
        (void)poll(fds, AT_COUNT, timeout);
        outlet_flush(&t->out);
        if (fds[AT_SIGNALS].revents)
                on_signal(t, signals);
        if (fds[AT_IN].revents && !t->has_ended) /* a signal may just have ended it */
                read_input(t);
        else if (!is_full(t))
                read_lines(t);
        unified_step(t->table);
        if (t->user.on_turn)
                t->user.on_turn(t->user.arg, clock_mono_ms());
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
        t->table = NULL; /* the caller may free it before us */
        return t->signal ? 128 + t->signal : t->out.is_broken ? 1 : 0;
}

struct talk *talk_new(const struct talk_user *user)
{
        struct talk *t = mem_new(struct talk);
        t->user = *user;
        outlet_init(&t->out, STDOUT_FILENO);
        buf_init(&t->in, LIMIT_UNIFIED_LINE_BYTES + 2 * READ_BYTES);
        return t;
}

void talk_free(struct talk *t)
{
        if (!t)
                return;
        outlet_release(&t->out);
        buf_release(&t->in);
        free(t);
}
