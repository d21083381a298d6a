/* spawn: makes the spawner, sends it orders and turns its reports into events (spawn.h). Remembers which numbers are alive, so
 * that events come in the promised order, also when an order and a report cross each other. */
#include "proc/spawn.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "keeper/cgroup.h"
#include "proc/spawn_internal.h"
#include "sandbox/enter.h"
#include "spawner/pipe_watch.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEP_HANDOVER "descriptors"
#define STEP_KEEPER "keeper"
#define REPORTS_PER_TURN 64 /* after these the loop does its other work */

struct held_signal {
        struct list link; /* spawned::held */
        int signo;
        enum spawn_scope scope;
};

static const char *step_name(uint32_t step)
{
        static const char *const names[] = {
                [SPAWN_STEP_FORK] = "fork",           [SPAWN_STEP_SESSION] = "session",
                [SPAWN_STEP_STDIO] = "stdio",         [SPAWN_STEP_PTY] = "pty",
                [SPAWN_STEP_LIMITS] = "limits",       [SPAWN_STEP_CWD] = "cwd",
                [SPAWN_STEP_EXEC] = "exec",           [SPAWN_STEP_NAMESPACES] = "namespaces",
                [SPAWN_STEP_INTERCEPT] = "intercept",
        };
        if (step >= SPAWN_STEP_SANDBOX)
                return enter_step_name(step - SPAWN_STEP_SANDBOX);
        return step < ARRAY_LEN(names) && names[step] ? names[step] : "fork";
}

static struct slice key_of(const uint32_t *number)
{
        return slice_from(number, sizeof(*number));
}

/* ---- making and freeing the spawner ---- */

static int pair_open(int ret[2])
{
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret) < 0)
                return -errno;
        int r = fd_set_nonblock(ret[0], true);
        if (r < 0) {
                fd_close(ret[0]);
                fd_close(ret[1]);
        }
        return r;
}

/* Commands get the limit that the server had when it made its first spawner, also when the server has raised its own limit before
 * it replaces a lost spawner. */
static const struct rlimit *nofile_original(void)
{
        static struct rlimit limit;
        static bool is_known;
        if (!is_known)
                is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
        return &limit;
}

static const struct spawn_fs_helper *fs_helper;

void spawn_set_fs_helper(const struct spawn_fs_helper *f)
{
        fs_helper = f;
}

static void *(*broker)(void *);

void spawn_set_broker(void *(*function)(void *))
{
        broker = function;
}

struct spawner *spawner_new(const struct spawn_events *events, void *arg, struct err *err)
{
        int ends[2];
        int r = pipe_watch_open();
        if (r < 0) {
                (void)err_set(err, 0, r, "mmap: %s", errno_text(r));
                return NULL;
        }
        r = pair_open(ends);
        if (r < 0) {
                (void)err_set(err, 0, r, "socketpair: %s", errno_text(r));
                return NULL;
        }
        struct spawner_setup setup = { .socket = ends[1],
                                       .server = getpid(),
                                       .nofile = *nofile_original(),
                                       .fs_helper = fs_helper,
                                       .broker = broker };

        /* Blocks all signals: no signal handler of the server may run in the new process before that process has reset them. */
        sigset_t all, before;
        sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, &before);
        pid_t pid = fork();
        if (pid == 0)
                spawner_run(&setup);
        r = pid < 0 ? -errno : 0;
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        fd_close(ends[1]);
        if (r < 0) {
                fd_close(ends[0]);
                (void)err_set(err, 0, r, "fork: %s", errno_text(r));
                return NULL;
        }

        struct spawner *s = mem_new(struct spawner);
        s->events = events;
        s->arg = arg;
        s->socket = ends[0];
        s->pid = pid;
        s->room = mem_alloc(SPAWN_INLINE_MAX);
        s->inline_max = SPAWN_INLINE_MAX;
        int space = 0;
        socklen_t n = sizeof(space);
        if (getsockopt(s->socket, SOL_SOCKET, SO_SNDBUF, &space, &n) == 0 && space >= 0)
                s->inline_max = MIN(s->inline_max, (size_t)space / 4);
        map_init(&s->commands);
        list_init(&s->queue);
        list_init(&s->refused);
        list_init(&s->lent);
        list_init(&s->waiting);
        list_init(&s->starting);
        list_init(&s->unsent);
        return s;
}

static void spawned_free(struct spawner *s, struct spawned *c)
{
        struct held_signal *h;
        list_each (h, &c->held, link)
                free(h);
        list_remove(&c->unsent);
        pace_ended(s, c);
        free(map_remove(&s->commands, key_of(&c->number)));
}

static void spawned_clear(struct spawner *s)
{
        struct spawned *c;
        for (size_t pos = 0; (c = map_next(&s->commands, &pos));)
                spawned_free(s, c);
}

struct spawner *spawner_free(struct spawner *s)
{
        if (!s)
                return NULL;
        s->socket = fd_close(s->socket);
        /* A spawner that was stopped has to run to notice that the socket is closed. A running spawner is not affected by this
         * signal. */
        if (!s->is_lost)
                (void)kill(s->pid, SIGCONT);
        packets_clear(s);
        spawned_clear(s);
        map_release(&s->commands);
        free(s->room);
        free(s);
        return NULL;
}

int spawn_fd(const struct spawner *s)
{
        return s->socket;
}

pid_t spawn_pid(const struct spawner *s)
{
        return s->pid;
}

bool spawn_wants_write(const struct spawner *s)
{
        return !list_is_empty(&s->queue);
}

int spawn_wait_ms(const struct spawner *s)
{
        if (!list_is_empty(&s->unsent))
                return 0;
        int pace_ms = pace_wait_ms(s);
        if (list_is_empty(&s->refused))
                return pace_ms;
        uint64_t now_ms = clock_mono_ms();
        int retry_ms = now_ms >= s->retry_at_ms ? 0 : (int)(s->retry_at_ms - now_ms);
        return pace_ms < 0 ? retry_ms : MIN(pace_ms, retry_ms);
}

/* ---- orders to the spawner ---- */

int spawn_start(struct spawner *s, uint32_t number, const struct command_spec *command,
                const int stdio[static 3])
{
        must(!map_find(&s->commands, key_of(&number)));
        must(command->argv[0]);
        if (s->is_lost)
                return -EPIPE;

        struct spawn_order order;
        int r = command_describe(command, number, &order);
        if (r < 0)
                return r;
        if (order.wants_cgroup || order.tree.memory_bytes > 0 || order.tree.processes > 0)
                s->has_leaves = true;
        struct slice strings = { NULL, 0 };
        _close_ int memfd = -1;
        order.is_in_memfd = order.command.bytes > s->inline_max;
        if (order.is_in_memfd) {
                memfd = command_memfd(command, order.command.bytes);
                if (memfd < 0)
                        return memfd;
        } else {
                command_pack(command, s->room);
                strings = slice_from(s->room, order.command.bytes);
        }

        int fds[SPAWN_FDS_MAX];
        size_t fd_count = command_fds(command, stdio, memfd, fds);
        struct spawned *c = mem_new(struct spawned);
        c->number = number;
        list_init(&c->held);
        list_init(&c->unsent);
        list_init(&c->pace_link);
        r = packet_put(s, &order, strings, fds, fd_count, c);
        if (r < 0) {
                pace_ended(s, c);
                free(c);
                return r;
        }
        map_put(&s->commands, key_of(&c->number), c);
        return 0;
}

static void held_send(struct spawner *s, struct spawned *c)
{
        struct held_signal *h;
        while (c->under_way < SPAWN_SIGNALS_MAX && (h = list_first(&c->held, struct held_signal, link))) {
                struct spawn_order order = {
                        .kind = SPAWN_SIGNAL, .number = c->number, .signo = h->signo, .scope = h->scope
                };
                list_remove(&h->link);
                free(h);
                c->under_way++;
                (void)packet_put(s, &order, S(""), NULL, 0, NULL); /* no descriptor: cannot fail */
        }
}

void spawned_sent(struct spawner *s, struct spawned *c)
{
        packet_drop(TAKE(c->start));
        held_send(s, c);
}

static void spawned_returned(struct spawner *s, struct spawned *c)
{
        if (!c->start || !c->is_lent)
                return;
        c->is_lent = false;
        if (c->is_killed)
                spawned_give_up(s, c, ECANCELED);
        else
                packet_returned(s, c->start);
}

void spawned_give_up(struct spawner *s, struct spawned *c, int os_errno)
{
        packet_drop(TAKE(c->start));
        c->unsent_errno = os_errno;
        list_append(&s->unsent, &c->unsent);
}

/* A signal waits for the start of its command to be sent; otherwise it is sent at once, also before the starts of others. */
void spawn_signal(struct spawner *s, uint32_t number, int signo, enum spawn_scope scope)
{
        struct spawned *c = map_find(&s->commands, key_of(&number));
        if (!c)
                return;
        c->unanswered++;
        struct held_signal *h = mem_new(struct held_signal);
        h->signo = signo;
        h->scope = scope;
        list_append(&c->held, &h->link);
        if (!c->start && c->unsent_errno == 0)
                held_send(s, c);
}

void spawn_kill(struct spawner *s, uint32_t number)
{
        struct spawned *c = map_find(&s->commands, key_of(&number));
        if (!c || c->unsent_errno != 0)
                return;
        if (c->start && !c->is_lent) {
                spawned_give_up(s, c, ECANCELED);
                return;
        }
        c->is_killed = true;
        struct spawn_order order = { .kind = SPAWN_KILL, .number = number };
        (void)packet_put(s, &order, S(""), NULL, 0, NULL); /* no descriptor: cannot fail */
}

/* ---- reports of the spawner and the keepers ---- */

/* Answers the signals that the keeper could not answer any more: no process was left to get them. The number is free before the
 * last event, so that the receiver of the event may use it again at once. */
static void spawned_end(struct spawner *s, struct spawned *c)
{
        uint32_t number = c->number;
        for (; c->unanswered > 0; c->unanswered--)
                s->events->signalled(s->arg, number, 0);
        spawned_free(s, c);
        s->events->gone(s->arg, number);
}

/* Reports starts that were never sent to the spawner. */
static void unsent_report(struct spawner *s)
{
        while (!list_is_empty(&s->unsent)) {
                struct spawned *c = list_first(&s->unsent, struct spawned, unsent);
                list_remove(&c->unsent);
                s->events->failed(s->arg, c->number, c->unsent_errno == ECANCELED ? "fork" : STEP_HANDOVER,
                                  c->unsent_errno, ENTER_NO_OP);
                spawned_end(s, c);
        }
}

/* Sends the starts that waited for this report before the report is passed on: the client's next start must not overtake them. */
static void pace_report(struct spawner *s, struct spawned *c, uint32_t kind)
{
        if (kind == SPAWN_STARTED)
                pace_executed(s, c);
        else
                pace_ended(s, c);
        packets_send(s);
}

static const char *need_name(uint32_t need)
{
        static const char *const names[] = {
                [SPAWN_NEED_REAPER] = "prctl(PR_SET_CHILD_SUBREAPER)",
                [SPAWN_NEED_FDS] = "opening /dev/null, or dup3",
                [SPAWN_NEED_ROOT] = "chdir to /",
                [SPAWN_NEED_LIMITS] = "getrlimit",
                [SPAWN_NEED_SIGNALS] = "signalfd",
        };
        return need < ARRAY_LEN(names) ? names[need] : "a call";
}

static void report_take(struct spawner *s, const struct spawn_report *what)
{
        if (what->kind == SPAWN_UNABLE) {
                if (s->events->unable)
                        s->events->unable(s->arg, need_name(what->step), what->os_errno);
                return;
        }
        struct spawned *c = map_find(&s->commands, key_of(&what->number));
        if (!c)
                return;
        if (what->kind == SPAWN_RETURNED) {
                spawned_returned(s, c);
                return;
        }
        if (c->start && c->is_lent)
                spawned_sent(s, c); /* the spawner has descriptors of its own by now */
        switch (what->kind) {
        case SPAWN_STARTED:
                if (c->is_started || c->is_ended)
                        break;
                c->is_started = true;
                pace_report(s, c, what->kind);
                s->events->started(s->arg, what->number, what->pid);
                break;
        case SPAWN_FAILED:
                if (c->is_started || c->is_ended)
                        break;
                c->is_ended = true;
                pace_report(s, c, what->kind);
                s->events->failed(s->arg, what->number, step_name(what->step), what->os_errno, what->op);
                break;
        case SPAWN_EXITED:
                if (c->is_ended)
                        break;
                c->is_ended = true;
                pace_report(s, c, what->kind);
                if (!c->is_started) { /* the keeper could not send SPAWN_STARTED */
                        s->events->failed(s->arg, what->number, STEP_KEEPER, EPROTO, ENTER_NO_OP);
                        break;
                }
                s->events->exited(s->arg, what->number,
                                  &(struct spawn_exit){
                                          .status = what->status,
                                          .user_us = what->user_us,
                                          .system_us = what->system_us,
                                          .max_rss_bytes = what->max_rss_bytes,
                                          .met = what->met,
                                          .intercepted = { .run = what->run,
                                                           .escalated = what->escalated,
                                                           .denied = what->denied },
                                  });
                break;
        case SPAWN_SIGNALLED:
                if (c->under_way == 0)
                        break;
                c->unanswered--;
                c->under_way--;
                held_send(s, c); /* first, because the receiver of the answer may ask for another signal */
                s->events->signalled(s->arg, what->number, what->os_errno);
                break;
        case SPAWN_HELD:
                if (s->events->held)
                        s->events->held(s->arg, what->number);
                break;
        case SPAWN_GONE:
                spawned_end(s, c);
                break;
        }
}

void spawn_on_ready(struct spawner *s)
{
        if (s->is_lost)
                return;
        packets_send(s);
        unsent_report(s);
        for (int i = 0; i < REPORTS_PER_TURN; i++) {
                struct spawn_report what;
                ssize_t n = recv(s->socket, &what, sizeof(what), MSG_DONTWAIT);
                if (n == sizeof(what)) {
                        report_take(s, &what);
                        continue;
                }
                /* A reset, which is reported once, means that our last orders will not be read. Reports may still follow it. */
                if (n < 0 && (errno == EINTR || errno == ECONNRESET))
                        continue;
                if (n < 0 && fd_is_passing(errno))
                        return;

                /* The socket has ended, or has brought something that no keeper sends. */
                s->is_lost = true;
                packets_clear(s);
                spawned_clear(s);
                if (s->has_leaves)
                        cgroup_reclaim(s->pid);
                s->events->lost(s->arg); /* may free `s` */
                return;
        }
}
