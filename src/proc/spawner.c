/* spawner: takes orders from the server, makes a keeper for each command, reaps keepers.
 *
 * Knows commands by number and keepers by pid; what a command does is its keeper's business. Keepers write to the
 * socket themselves. Whatever child the spawner finds that is not a keeper was left by a keeper that somebody killed,
 * and is ended. When the server has gone, so has everything here a moment later.
 *
 * Single-threaded. The memory is shared with the keepers: they never use the heap, so the spawner may.
 */
#include "proc/spawner.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sys.h"
#include "proc/spawn.h"
#include "proc/spawner_internal.h"
#include "proc/title.h"
#include "proc/tree.h"
#include "sandbox/stub.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define KEEPERS_END_MS 2000 /* after the server has gone: then keepers are killed … */
#define ALL_END_MS \
        10000 /* … and when nobody has ended for so long, we go: the rest had its SIGKILL long ago */

/* ---- ending ---- */

/* A start that hangs in execve (a file server that does not answer) keeps its keeper from hearing us; so its child is
 * killed from here. The pidfd makes sure that it is the child: until is_over nobody has reaped it. */
static void slot_cancel(struct state *s, struct slot *slot)
{
        if (atomic_load_explicit(&slot->keeper.is_over, memory_order_acquire))
                return;
        s->is_cancelling = true;
        pid_t root = atomic_load_explicit(&slot->keeper.root, memory_order_acquire);
        if (root <= 0)
                return;
        int pidfd = sys_pidfd_open(root);
        if (!atomic_load_explicit(&slot->keeper.is_over, memory_order_acquire))
                (void)(pidfd >= 0 ? sys_pidfd_signal(pidfd, SIGKILL) : sys_kill(root, SIGKILL));
        if (pidfd >= 0)
                sys_close(pidfd);
}

static void slot_kill(struct state *s, struct slot *slot)
{
        if (slot->is_orphaned)
                return;
        slot->is_killed = true;
        atomic_store_explicit(&slot->keeper.kill_wanted, true, memory_order_release);
        (void)sys_kill(slot->pid, KEEPER_KILL);
        (void)sys_kill(slot->pid, SIGCONT); /* in case somebody stopped it */
        s->retry_ms = RETRY_FIRST_MS;
        slot_cancel(s, slot);
}

static void cancel_again(struct state *s)
{
        s->is_cancelling = false;
        struct slot *slot;
        list_each (slot, &s->slots.live, link)
                if (slot->is_killed && !slot->is_orphaned)
                        slot_cancel(s, slot);
}

static void slot_end(struct state *s, struct slot *slot)
{
        uint32_t number = slot->keeper.number;
        leaf_drop(s, slot->keeper.leaf);
        if (slot->image && slot->is_orphaned)
                stubs_remove(slot->image, false);
        image_unmap(TAKE(slot->image));
        spare_recover(s, TAKE(slot->net));
        bool is_spare = slot->is_spare;
        slot_free(&s->slots, slot);
        if (!is_spare)
                report_gone(s, number);
}

struct sweep {
        struct state *s;
        size_t found;
};

static void sweep_child(void *arg, pid_t pid)
{
        struct sweep *w = arg;
        if (slots_find_pid(&w->s->slots, pid) || spare_is(&w->s->spare, pid) || nets_have(&w->s->nets, pid) ||
            filers_have(w->s, pid))
                return;
        w->found++;
        /* An unreaped child of ours: neither number can mean anybody else. */
        (void)sys_kill(-pid, SIGKILL);
        (void)sys_kill(pid, SIGKILL);
}

/* What killed keepers have left became ours. Its own children become ours when it dies, so this goes on until no
 * stranger is left; only then are the commands of those keepers gone. */
static void sweep(struct state *s)
{
        struct sweep w = { .s = s };
        if (tree_each_child(sweep_child, &w) == 0 && w.found > 0)
                return;
        s->is_sweeping = false;
        struct slot *slot;
        list_each (slot, &s->slots.live, link)
                if (slot->is_orphaned)
                        slot_end(s, slot);
}

/* False when there is no child at all. */
static bool reap(struct state *s)
{
        for (;;) {
                int status;
                pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
                if (pid <= 0)
                        return pid == 0 || errno != ECHILD;
                if (s->is_closing)
                        s->last_end_ms = clock_mono_ms();
                if (filers_forget(s, pid) || nets_forget(&s->nets, pid))
                        continue;
                bool is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
                bool was_spare = spare_is(&s->spare, pid);
                if (was_spare)
                        spare_reaped(s, is_well);
                struct slot *slot = was_spare ? NULL : slots_find_pid(&s->slots, pid);
                if (slot && is_well)
                        slot_end(s, slot);
                if ((slot || was_spare) && is_well)
                        continue;
                if (slot) {
                        slot_forget_pid(&s->slots, slot);
                        slot->is_orphaned = true;
                        if (slot->keeper.leaf)
                                cgroup_leaf_end(&s->cgroup, slot->keeper.leaf);
                }
                s->is_sweeping = true;
                s->retry_ms = RETRY_FIRST_MS;
        }
}

static void close_down(struct state *s)
{
        if (s->is_closing)
                return;
        s->is_closing = true;
        s->closing_since_ms = s->last_end_ms = clock_mono_ms();
        s->retry_ms = RETRY_FIRST_MS;
        spare_drop(s);
        struct slot *slot;
        list_each (slot, &s->slots.live, link)
                slot_kill(s, slot);
        filers_kill(s);
        nets_drop(&s->nets);
}

/* Called again and again once the server has gone. */
static void close_on_tick(struct state *s, bool has_children)
{
        uint64_t now_ms = clock_mono_ms();
        /* A machine that is slow to kill is not one that cannot: what counts is that nobody dies any more. */
        if (!has_children || now_ms - s->last_end_ms > ALL_END_MS) {
                cgroup_close(&s->cgroup);
                _exit(0);
        }
        if (now_ms - s->closing_since_ms < KEEPERS_END_MS)
                return;
        struct slot *slot;
        list_each (slot, &s->slots.live, link)
                if (slot->pid > 0)
                        (void)sys_kill(slot->pid, SIGKILL);
}

/* ---- orders ---- */

/* The keeper answers. When it is dying the server answers itself, at `gone`. */
static int order_signal(struct slot *slot, const struct spawn_order *order)
{
        if (!slot || slot->is_orphaned)
                return 0;
        struct keeper *k = &slot->keeper;
        uint32_t in = atomic_load_explicit(&k->signals_in, memory_order_relaxed);
        if (in - atomic_load_explicit(&k->signals_out, memory_order_acquire) == SPAWN_SIGNALS_MAX)
                return -EBADMSG;
        k->signals[in % SPAWN_SIGNALS_MAX].signo = order->signo;
        k->signals[in % SPAWN_SIGNALS_MAX].scope = order->scope;
        atomic_store_explicit(&k->signals_in, in + 1, memory_order_release);
        (void)sys_kill(slot->pid, KEEPER_LOOK);
        return 0;
}

static size_t fds_take(struct msghdr *m, int ret_fds[SPAWN_FDS_MAX])
{
        size_t n = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                n = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)SPAWN_FDS_MAX);
                memcpy(ret_fds, CMSG_DATA(c), n * sizeof(int));
        }
        return n;
}

/* -EBADMSG for what the server does not send. */
static int order_act(struct state *s, const struct spawn_order *order, int fds[], size_t fd_count)
{
        struct slot *slot = slots_find(&s->slots, order->number);
        switch (order->kind) {
        case SPAWN_START:
                if (slot)
                        return -EBADMSG;
                start_take(s, order, fds, fd_count);
                return 0;
        case SPAWN_SIGNAL:
                return order_signal(slot, order);
        case SPAWN_FILER:
                filers_start(s, fds, fd_count);
                return 0;
        case SPAWN_KILL:
                if (slot)
                        slot_kill(s, slot);
                return 0;
        default:
                return -EBADMSG;
        }
}

static void order_take(struct state *s)
{
        if (!s->next)
                s->next = slots_request(&s->slots);
        if (!s->next) { /* out of memory: the server's message waits */
                (void)poll(NULL, 0, RETRY_LAST_MS);
                return;
        }

        struct spawn_order order;
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(SPAWN_FDS_MAX * sizeof(int))];
        struct iovec parts[] = { { &order, sizeof(order) }, { s->next->bytes, sizeof(s->next->bytes) } };
        struct msghdr m = {
                .msg_iov = parts,
                .msg_iovlen = ARRAY_LEN(parts),
                .msg_control = control,
                .msg_controllen = sizeof(control),
        };
        ssize_t n = recvmsg(s->setup.socket, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n < (ssize_t)sizeof(order)) {
                close_down(s);
                return;
        }

        int fds[SPAWN_FDS_MAX] = { -1, -1, -1, -1, -1 };
        size_t fd_count = fds_take(&m, fds);
        size_t strings = order.kind == SPAWN_START && !order.in_memfd ? order.bytes : 0;
        if ((size_t)n != sizeof(order) + strings || order_act(s, &order, fds, fd_count) < 0)
                close_down(s);
        for (size_t i = 0; i < fd_count; i++)
                fd_close(fds[i]);
}

/* ---- the process ---- */

static bool keeper_must_fork(void)
{
        const char *asked = getenv("FARHAND_FORK_KEEPER");
        const char *preload = getenv("LD_PRELOAD");
        return SANITIZED || (asked && strcmp(asked, "1") == 0) || (preload && strstr(preload, "vgpreload"));
}

/* The server's handlers must not run here, and what it ignores must not be ignored by commands. */
static void signals_reset(void)
{
        /* The kernel's struct sigaction, whatever libc calls it; all zero is the default. */
        const uint64_t action[4] = { 0 };
        for (int n = 1; n <= 64; n++)
                if (n != SIGKILL && n != SIGSTOP)
                        (void)sys_call4(SYS_rt_sigaction, n, action, NULL, sizeof(uint64_t));
        (void)sys_sigmask(~UINT64_C(0));
}

/* Keeps the socket, moved to 3, and stderr for the last words of an abort. 0 to 2 are open from here on, so that the
 * descriptors of commands are always above. */
static int fds_reset(int socket)
{
        int high = fcntl(socket, F_DUPFD_CLOEXEC, 4);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (high < 0 || null < 0)
                return -errno;
        if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
                return -errno;
        if (fcntl(STDERR_FILENO, F_GETFD) < 0 && dup2(null, STDERR_FILENO) < 0)
                return -errno;
        if (dup3(high, 3, O_CLOEXEC) < 0)
                return -errno;
        if (sys_call3(SYS_close_range, 4, ~0U, 0) < 0)
                for (int fd = 4; fd < 65536; fd++)
                        close(fd);
        return 3;
}

static int wait_ms(const struct state *s)
{
        if (s->is_sweeping || s->is_cancelling || s->is_closing || s->is_tidying)
                return s->retry_ms;
        return spare_wait_ms(s);
}

static NORETURN void serve(struct state *s)
{
        for (;;) {
                struct pollfd fds[] = {
                        { .fd = s->is_closing ? -1 : s->setup.socket, .events = POLLIN },
                        { .fd = s->signals, .events = POLLIN },
                        /* Behind the orders: what was mounted before one was sent is seen when it is taken. */
                        { .fd = s->spare.slot ? s->spare.mounts : -1, .events = POLLPRI },
                };
                int n = poll(fds, ARRAY_LEN(fds), wait_ms(s));
                if (n == 0)
                        s->retry_ms = MIN(s->retry_ms * 2, RETRY_LAST_MS);

                bool has_children = true;
                if (fds[1].revents) {
                        struct signalfd_siginfo which;
                        ssize_t r = read(s->signals, &which, sizeof(which));
                        if (r == sizeof(which) && which.ssi_signo == SIGTERM && getppid() != s->setup.server)
                                close_down(s);
                        if (r == sizeof(which) && which.ssi_signo == SPAWNER_LOOK)
                                spare_want(s);
                }
                if (fds[2].revents)
                        spare_drop(s);
                if (fds[1].revents || s->is_closing)
                        has_children = reap(s);
                if (s->is_sweeping)
                        sweep(s);
                if (s->is_cancelling)
                        cancel_again(s);
                if (n == 0)
                        spare_tick(s);
                if (s->is_tidying && n == 0)
                        s->is_tidying = cgroup_tidy(&s->cgroup);
                if (s->is_closing)
                        close_on_tick(s, has_children);
                else if (fds[0].revents)
                        order_take(s);
        }
}

void spawner_run(const struct spawner_setup *setup)
{
        struct state s = { .setup = *setup, .retry_ms = RETRY_FIRST_MS, .cgroup = CGROUP_CLOSED };
        signals_reset();
        (void)prctl(PR_SET_NAME, "fh-spawner");
        title_begin();
        title_set("fh-spawner");
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || getppid() != setup->server)
                _exit(1);

        s.setup.socket = fds_reset(setup->socket);
        if (s.setup.socket < 0 || chdir("/") < 0 || getrlimit(RLIMIT_NOFILE, &s.nofile_now) < 0)
                _exit(1);
        sigset_t watched;
        sigemptyset(&watched);
        sigaddset(&watched, SIGCHLD);
        sigaddset(&watched, SPAWNER_LOOK);
        sigaddset(&watched, SIGTERM);
        s.signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
        if (s.signals < 0)
                _exit(1);

        /* A limit that has been lowered since cannot be had back. */
        s.setup.nofile.rlim_max = MIN(s.setup.nofile.rlim_max, s.nofile_now.rlim_max);
        s.setup.nofile.rlim_cur = MIN(s.setup.nofile.rlim_cur, s.setup.nofile.rlim_max);
        s.is_forking = keeper_must_fork();
        list_init(&s.filers);
        spare_init(&s.spare);
        nets_init(&s.nets);
        slots_init(&s.slots);
        serve(&s);
}
