/* process: a table says what a process does on each event in each state; events come from the spawner and from the streams
 * (process.h). */
#include "proc/process.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "proc/process_internal.h"

#include <errno.h>
#include <sys/wait.h>

enum event { EV_STARTED, EV_EXIT, EV_EOF, EV_KILL, EVENTS };

struct step {
        enum process_state next;
        void (*act)(struct process *p);
        bool is_possible;
};

/* --- the state table and its actions ------------------------------------------------------------------------------ */

static void begin_io(struct process *p)
{
        process_watch_streams(p);
        p->events->started(p);
}

static void note_exit(struct process *p)
{
        stdin_close(p);
        p->events->exited(p, p->next_seq++);
}

static void note_closed(struct process *p)
{
        stdin_close(p);
        p->events->closed(p, p->next_seq++);
}

static void handle_event(struct process *p, enum event ev);

/* Handles the exit of a process whose streams ended before: between `exited` and `closed` the owner sees a process that has
 * exited. */
static void note_exit_then_close(struct process *p)
{
        note_exit(p);
        handle_event(p, EV_EOF);
}

static void send_kill(struct process *p)
{
        p->is_killed = true;
        stdin_refuse(p); /* stdin is not closed yet: a child that reads its end first would exit by itself */
        procs_kill(p);
}

#define GO(next, act)           \
        {                       \
                next, act, true \
        }
/* What a process does on an event. Rows: its state; columns: the event. */
static const struct step steps[PROC_STATES][EVENTS] = {
        [PROC_STARTING] = {
                [EV_STARTED] = GO(PROC_RUNNING, begin_io),
                [EV_KILL] = GO(PROC_STARTING, send_kill),
        },
        [PROC_RUNNING] = {
                [EV_EXIT] = GO(PROC_EXITED, note_exit),
                [EV_EOF] = GO(PROC_DRAINED, NULL),
                [EV_KILL] = GO(PROC_RUNNING, send_kill),
        },
        [PROC_DRAINED] = {
                [EV_EXIT] = GO(PROC_EXITED, note_exit_then_close),
                [EV_KILL] = GO(PROC_DRAINED, send_kill),
        },
        [PROC_EXITED] = {
                [EV_EOF] = GO(PROC_CLOSED, note_closed),
                [EV_KILL] = GO(PROC_EXITED, NULL),
        },
        [PROC_CLOSED] = {
                [EV_KILL] = GO(PROC_CLOSED, NULL),
        },
};
#undef GO

static void handle_event(struct process *p, enum event ev)
{
        const struct step *step = &steps[p->state][ev];
        must(step->is_possible);
        p->state = step->next;
        if (step->act)
                step->act(p);
}

/* --- a stream is ready -------------------------------------------------------------------------------------------- */

static void tell_exit(void *process);

/* Writes what is queued for a terminal. A terminal that is ready for writing but takes nothing has hung up. */
static void write_terminal(struct process_stream *s)
{
        struct process *p = s->process;
        size_t queued = p->stdin_queued;
        stdin_flush(p);
        if (queued > 0 && p->stdin_queued == queued && s->fd >= 0)
                stream_watch_later(s);
}

void process_on_stream(void *arg, unsigned events)
{
        struct process_stream *s = arg;
        struct process *p = s->process;
        if ((events & WATCH_WRITE) && p->is_tty)
                write_terminal(s);
        if (!(events & WATCH_READ) || s->fd < 0 || p->is_paused)
                return;
        uint64_t seq = p->next_seq;
        (void)stream_read_chunk(s);
        bool has_ended = streams_ended(p);
        if (has_ended)
                handle_event(p, EV_EOF);
        if (p->settle && (has_ended || p->next_seq != seq))
                tell_exit(p);
}

/* --- exits and the end of the streams ----------------------------------------------------------------------------- */

static void set_exit(struct process *p, int status)
{
        p->exited_mono_ms = clock_mono_ms();
        p->exit_code = -1;
        if (WIFEXITED(status)) {
                p->exit_code = WEXITSTATUS(status);
        } else if (WIFSIGNALED(status)) {
                p->exit_signal = WTERMSIG(status);
                p->exit_code = 128 + p->exit_signal;
        }
}

/* Returns whether the streams end with the root: a terminal and the streams of a killed tree do. */
static bool ends_streams(const struct process *p)
{
        return p->is_tty || p->is_killed;
}

/* Reports the exit to the owner. Called when the root has ended, or when the timer `settle` fires. */
static void tell_exit(void *process)
{
        struct process *p = process;
        p->settle = timer_free(p->settle);
        if (ends_streams(p)) {
                streams_drain(p);
                for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                        stream_close(&p->out[i]);
        }
        if (p->state == PROC_RUNNING && streams_ended(p))
                handle_event(p, EV_EOF);
        handle_event(p, EV_EXIT);
}

/* Called when the root has ended. Its output is read first, so that output normally precedes the exit; unless the owner has
 * paused the process: a slow reader must not delay the exit. */
static void root_ended(struct process *p)
{
        bool is_judged = p->settle_ms > 0 && p->exit_code != 0;
        p->is_ending = true;
        if ((!p->is_paused || is_judged) && !ends_streams(p))
                streams_drain(p);
        if (!is_judged || p->is_paused || streams_ended(p) || ends_streams(p)) {
                tell_exit(p);
                return;
        }
        p->settle = timer_new(p->procs->loop, tell_exit, p);
        timer_start(p->settle, p->settle_ms);
}

void process_on_started(struct process *p, pid_t pid)
{
        p->pid = pid;
        p->started_at_ms = clock_unix_ms();
        handle_event(p, EV_STARTED);
}

void process_on_failed(struct process *p, const char *step, int os_errno)
{
        p->state = PROC_CLOSED;
        process_silence(p); /* `failed` is the only event that the owner gets */
        p->events->failed(p, step, os_errno);
}

void process_on_exited(struct process *p, const struct spawn_exit *exit)
{
        p->exit = *exit;
        set_exit(p, exit->status);
        root_ended(p);
}

void process_on_gone(struct process *p)
{
        p->is_gone = true;
        if (p->settle) {
                streams_drain(p);
                tell_exit(p);
        }
        if (p->state == PROC_STARTING) {
                process_on_failed(p, "keeper", ESRCH);
        } else if (!process_has_exited(p)) {
                log_warn("keeper lost", "proc=%u pid=%d", p->number, (int)p->pid);
                p->is_killed = true;
                p->has_failed = true;
                p->exit_code = -1;
                root_ended(p);
        } else if (p->state == PROC_EXITED && !p->is_paused) {
                streams_drain(p); /* no process of the tree is left that could hold the streams */
                if (streams_ended(p))
                        handle_event(p, EV_EOF);
        }
        p->events->gone(p);
}

bool process_has_exited(const struct process *p)
{
        return p->state == PROC_EXITED || p->state == PROC_CLOSED;
}

void process_kill(struct process *p)
{
        if (!p->is_killed)
                handle_event(p, EV_KILL);
}

void process_kill_rest(struct process *p)
{
        if (!process_has_exited(p))
                process_kill(p);
        else if (!p->is_gone)
                procs_kill(p);
}

void process_silence(struct process *p)
{
        p->is_stdin_open = false; /* the owner asked for it, so stdin_moved is not called */
        stdin_close(p);
        p->settle = timer_free(p->settle);
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                stream_close(&p->out[i]);
}
