/* spawn: see spawn.h. Remembers which numbers are alive, so that events keep the promised order whatever crosses on the
 * way. */
#include "proc/spawn.h"

#include "base/fd.h"
#include "base/mem.h"
#include "proc/cgroup.h"
#include "proc/spawn_internal.h"
#include "proc/spawner.h"
#include "sandbox/enter.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPORTS_PER_TURN 64 /* then the loop's other work has its turn */

/* A number between spawn_start and `gone`. */
struct command {
        uint32_t number;
        size_t unanswered;  /* signals; the first of them … */
        uint32_t under_way; /* … so many, have been sent */
        struct list held;   /* … the others wait */
};

struct held_signal {
        struct list link; /* command::held */
        int signo;
        enum spawn_scope scope;
};

static const char *step_name(uint32_t step)
{
        static const char *const names[] = {
                [SPAWN_STEP_FORK] = "fork",     [SPAWN_STEP_SESSION] = "session",
                [SPAWN_STEP_STDIO] = "stdio",   [SPAWN_STEP_PTY] = "pty",
                [SPAWN_STEP_LIMITS] = "limits", [SPAWN_STEP_CWD] = "cwd",
                [SPAWN_STEP_EXEC] = "exec",     [SPAWN_STEP_NAMESPACES] = "namespaces",
        };
        if (step >= SPAWN_STEP_SANDBOX)
                return enter_step_name(step - SPAWN_STEP_SANDBOX);
        return step < ARRAY_LEN(names) && names[step] ? names[step] : "fork";
}

static struct slice key_of(const uint32_t *number)
{
        return slice_from(number, sizeof(*number));
}

/* ---- life ---- */

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

/* What commands get as their limit: that of the first time, also when a later spawner replaces a lost one after the
 * server has raised its own. */
static const struct rlimit *nofile_original(void)
{
        static struct rlimit limit;
        static bool is_known;
        if (!is_known)
                is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
        return &limit;
}

static const struct spawn_filer *filer;

void spawn_set_filer(const struct spawn_filer *f)
{
        filer = f;
}

struct spawner *spawner_new(const struct spawn_events *events, void *arg, struct err *err)
{
        int ends[2];
        int r = pair_open(ends);
        if (r < 0) {
                (void)err_set(err, 0, r, "socketpair: %s", errno_text(r));
                return NULL;
        }
        struct spawner_setup setup = {
                .socket = ends[1], .server = getpid(), .nofile = *nofile_original(), .filer = filer
        };

        /* No handler of ours may run in the new process before it has reset them. */
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
        return s;
}

static void command_free(struct spawner *s, struct command *c)
{
        struct held_signal *h;
        list_each (h, &c->held, link)
                free(h);
        free(map_remove(&s->commands, key_of(&c->number)));
}

static void commands_clear(struct spawner *s)
{
        struct command *c;
        for (size_t pos = 0; (c = map_next(&s->commands, &pos));)
                command_free(s, c);
}

struct spawner *spawner_free(struct spawner *s)
{
        if (!s)
                return NULL;
        s->socket = fd_close(s->socket);
        /* Should somebody have stopped it, it must not sleep through the end; others are not harmed by this one. */
        if (!s->is_lost)
                (void)kill(s->pid, SIGCONT);
        packets_clear(s);
        commands_clear(s);
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

/* ---- requests ---- */

/* Counts the strings of a list and adds their bytes; saturates, the caller compares with the ceiling. */
static uint32_t list_measure(const char *const *list, size_t *bytes)
{
        uint32_t n = 0;
        for (; list[n] && *bytes <= SPAWN_REQUEST_MAX; n++)
                *bytes += strlen(list[n]) + 1;
        return n;
}

static char *string_pack(char *at, const char *s)
{
        size_t n = strlen(s) + 1;
        memcpy(at, s, n);
        return at + n;
}

static char *list_pack(char *at, const char *const *list)
{
        for (; *list; list++)
                at = string_pack(at, *list);
        return at;
}

static void request_pack(const struct spawn_request *req, char *at)
{
        at = string_pack(at, req->cwd);
        at = list_pack(at, req->argv);
        at = list_pack(at, req->env);
        (void)list_pack(at, req->candidates);
}

static int memfd_make(const struct spawn_request *req, size_t bytes)
{
        _free_ char *all = mem_alloc(bytes);
        request_pack(req, all);
        _close_ int fd = memfd_create("farhand-start", MFD_CLOEXEC);
        if (fd < 0)
                return -errno;
        int r = fd_write_all(fd, slice_from(all, bytes));
        if (r < 0)
                return r;
        return TAKE_FD(fd);
}

int spawn_start(struct spawner *s, uint32_t number, const struct spawn_request *req)
{
        must(!map_find(&s->commands, key_of(&number)));
        must(req->argv[0]);
        if (s->is_lost)
                return -EPIPE;

        size_t bytes = strlen(req->cwd) + 1;
        struct spawn_order order = {
                .kind = SPAWN_START,
                .number = number,
                .is_tty = req->is_tty,
                .limits = req->limits,
                .tree = spawn_limits_tree(&req->limits),
                .wants_cgroup = req->wants_cgroup,
                .has_image = req->has_image,
                .whose = req->whose,
        };
        if (order.tree.processes > 0)
                order.tree.processes += req->helpers;
        if (order.wants_cgroup || order.tree.memory_bytes > 0 || order.tree.processes > 0)
                s->has_leaves = true;
        order.argc = list_measure(req->argv, &bytes);
        order.envc = list_measure(req->env, &bytes);
        order.candidatec = list_measure(req->candidates, &bytes);
        order.bytes = bytes;
        if (bytes > SPAWN_REQUEST_MAX)
                return -E2BIG;

        int fds[SPAWN_FDS_MAX] = { req->stdin_fd, req->stdout_fd, req->stderr_fd, -1 };
        struct slice strings = { NULL, 0 };
        _close_ int memfd = -1;
        order.in_memfd = bytes > s->inline_max;
        if (order.in_memfd) {
                memfd = memfd_make(req, bytes);
                if (memfd < 0)
                        return memfd;
                fds[3] = memfd;
        } else {
                request_pack(req, s->room);
                strings = slice_from(s->room, bytes);
        }

        size_t fd_count = order.in_memfd ? 4 : 3;
        if (order.has_image)
                fds[fd_count++] = req->image_fd;
        int r = packet_put(s, &order, strings, fds, fd_count);
        if (r < 0)
                return r;
        struct command *c = mem_new(struct command);
        c->number = number;
        list_init(&c->held);
        map_put(&s->commands, key_of(&c->number), c);
        return 0;
}

static void signal_put(struct spawner *s, struct command *c, int signo, enum spawn_scope scope)
{
        c->under_way++;
        struct spawn_order order = {
                .kind = SPAWN_SIGNAL, .number = c->number, .signo = signo, .scope = scope
        };
        (void)packet_put(s, &order, S(""), NULL, 0); /* no descriptor: cannot fail */
}

void spawn_signal(struct spawner *s, uint32_t number, int signo, enum spawn_scope scope)
{
        struct command *c = map_find(&s->commands, key_of(&number));
        if (!c)
                return;
        c->unanswered++;
        if (c->under_way < SPAWN_SIGNALS_MAX) {
                signal_put(s, c, signo, scope);
                return;
        }
        struct held_signal *h = mem_new(struct held_signal);
        h->signo = signo;
        h->scope = scope;
        list_append(&c->held, &h->link);
}

/* One was answered: its place is for the next. Before anybody hears of the answer and asks for another. */
static void signal_answered(struct spawner *s, struct command *c)
{
        c->unanswered--;
        c->under_way--;
        struct held_signal *h = list_first(&c->held, struct held_signal, link);
        if (!h)
                return;
        list_remove(&h->link);
        signal_put(s, c, h->signo, h->scope);
        free(h);
}

void spawn_kill(struct spawner *s, uint32_t number)
{
        if (!map_find(&s->commands, key_of(&number)))
                return;
        struct spawn_order order = { .kind = SPAWN_KILL, .number = number };
        (void)packet_put(s, &order, S(""), NULL, 0); /* no descriptor: cannot fail */
}

/* ---- receiving ---- */

/* Signals that the keeper did not live to answer found nobody; the number is free before the last event, so that the
 * receiver may use it again at once. */
static void command_end(struct spawner *s, struct command *c)
{
        uint32_t number = c->number;
        for (; c->unanswered > 0; c->unanswered--)
                s->events->signalled(s->arg, number, 0);
        command_free(s, c);
        s->events->gone(s->arg, number);
}

static void report_take(struct spawner *s, const struct spawn_report *what)
{
        struct command *c = map_find(&s->commands, key_of(&what->number));
        if (!c)
                return;
        switch (what->kind) {
        case SPAWN_STARTED:
                s->events->started(s->arg, what->number, what->pid);
                break;
        case SPAWN_FAILED:
                s->events->failed(s->arg, what->number, step_name(what->step), what->os_errno, what->op);
                break;
        case SPAWN_EXITED:
                s->events->exited(s->arg, what->number,
                                  &(struct spawn_exit){
                                          .status = what->status,
                                          .user_us = what->user_us,
                                          .system_us = what->system_us,
                                          .max_rss_bytes = what->max_rss_bytes,
                                          .met = what->met,
                                  });
                break;
        case SPAWN_SIGNALLED:
                if (c->under_way == 0)
                        break;
                signal_answered(s, c);
                s->events->signalled(s->arg, what->number, what->os_errno);
                break;
        case SPAWN_GONE:
                command_end(s, c);
                break;
        }
}

void spawn_on_ready(struct spawner *s)
{
        if (s->is_lost)
                return;
        packets_send(s);
        for (int i = 0; i < REPORTS_PER_TURN; i++) {
                struct spawn_report what;
                ssize_t n = recv(s->socket, &what, sizeof(what), MSG_DONTWAIT);
                if (n == sizeof(what)) {
                        report_take(s, &what);
                        continue;
                }
                /* A reset, said once, means that nobody will read our last orders. Reports may still lie behind it. */
                if (n < 0 && (errno == EINTR || errno == ECONNRESET))
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;

                /* The end, or something that no keeper of ours sends. */
                s->is_lost = true;
                packets_clear(s);
                commands_clear(s);
                if (s->has_leaves)
                        cgroup_reclaim(s->pid);
                s->events->lost(s->arg); /* may free us */
                return;
        }
}
