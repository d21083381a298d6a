/* spawner: the process that takes orders from the server, makes a keeper for each command, and reaps keepers.
 *
 * The spawner knows commands by number and keepers by pid; only the keeper knows its command. Keepers write to the server's
 * socket themselves. A child of the spawner that is not a keeper was left by a keeper that was killed, and the spawner ends
 * it. When the server has gone, the spawner ends all processes below it, and then itself.
 *
 * The spawner has one thread. It shares its memory with the keepers; they never use the heap, so the spawner may.
 */
#include "spawner/spawner.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sys.h"
#include "keeper/title.h"
#include "keeper/tree.h"
#include "sandbox/placeholder.h"
#include "spawner/pipe_watch.h"
#include "spawner/spawner_internal.h"

#include <errno.h>
#include <poll.h>
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

#define WALK_MAX 4096 /* processes that one walk below a keeper can reach */

#define KEEPERS_END_MS 2000 /* how long after the end of the server keepers are killed */
#define ALL_END_MS 10000    /* the spawner ends when no child has ended for so long */

/* ---- ending commands and the spawner ---- */

/* While its child hangs in execve (on a file server that does not answer) a keeper takes no signals, so the spawner kills that
 * child. The pidfd cannot name another process: until is_over is set, the child has not been reaped. */
static void slot_cancel(struct spawner_state *s, struct slot *slot)
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

void slot_kill(struct spawner_state *s, struct slot *slot)
{
        if (slot->is_orphaned)
                return;
        slot->is_killed = true;
        atomic_store_explicit(&slot->keeper.is_kill_wanted, true, memory_order_release);
        (void)sys_kill(slot->pid, KEEPER_KILL);
        (void)sys_kill(slot->pid, SIGCONT); /* the keeper may have been stopped */
        s->retry_ms = RETRY_FIRST_MS;
        slot_cancel(s, slot);
}

/* Tries again to end the commands of keepers that have not ended. A keeper, or the init of a sandbox, may sleep while it closes the
 * command's pipe, because a process below keeps that pipe locked (pipe_watch.h). That process has to be killed: a signal to the
 * init has an effect only when the init wakes. */
static void cancel_again(struct spawner_state *s)
{
        s->is_cancelling = false;
        struct slot *slot;
        list_each (slot, &s->slots.live, link) {
                if (!slot->is_killed || slot->is_orphaned)
                        continue;
                slot_cancel(s, slot);
                if (!atomic_load_explicit(&slot->keeper.is_over, memory_order_acquire))
                        tree_kill_below(slot->pid, s->walk_room, WALK_MAX);
        }
}

static void slot_end(struct spawner_state *s, struct slot *slot)
{
        uint32_t number = slot->keeper.number;
        leaf_drop(s, slot->keeper.leaf);
        if (slot->image && slot->is_orphaned)
                placeholders_remove(slot->image, false);
        image_unmap(TAKE(slot->image));
        prebuilt_recover(s, TAKE(slot->net));
        bool is_prebuilt = slot->is_prebuilt, is_holder = slot->is_holder;
        slot_free(&s->slots, slot);
        if (is_holder)
                report_kind(s, SPAWN_HELD, number);
        if (!is_prebuilt)
                report_kind(s, SPAWN_GONE, number);
}

struct sweep {
        struct spawner_state *s;
        size_t found;
};

static void sweep_child(void *arg, pid_t pid)
{
        struct sweep *w = arg;
        if (slots_find_pid(&w->s->slots, pid) || prebuilt_has_keeper(&w->s->prebuilt, pid) ||
            nets_have(&w->s->nets, pid) || fs_helpers_have(w->s, pid))
                return;
        w->found++;
        /* A child that has not been reaped: neither its pid nor its process group can belong to another process. */
        (void)sys_kill(-pid, SIGKILL);
        (void)sys_kill(pid, SIGKILL);
}

/* Kills the children of killed keepers, which became children of the spawner. When one of them dies its own children become
 * children of the spawner too, so this is repeated until none is left; only then the commands of those keepers are gone. */
static void sweep(struct spawner_state *s)
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

/* Reaps the children that have ended. Returns false when the spawner has no child at all. */
static bool reap(struct spawner_state *s)
{
        for (;;) {
                int status;
                pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
                if (pid < 0 && errno == EINTR)
                        continue;
                if (pid <= 0)
                        return pid == 0 || errno != ECHILD;
                if (s->is_closing)
                        s->last_end_ms = clock_mono_ms();
                bool is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
                bool was_fs_helper = fs_helpers_forget(s, pid);
                /* An fs helper that was killed may leave processes behind (keeper/fs_view.c). */
                if ((was_fs_helper && is_well) || nets_forget(&s->nets, pid))
                        continue;
                bool was_prebuilt = prebuilt_has_keeper(&s->prebuilt, pid);
                if (was_prebuilt)
                        prebuilt_reaped(s, is_well);
                struct slot *slot = was_prebuilt ? NULL : slots_find_pid(&s->slots, pid);
                if (slot && is_well)
                        slot_end(s, slot);
                if ((slot || was_prebuilt) && is_well)
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

void close_down(struct spawner_state *s)
{
        if (s->is_closing)
                return;
        s->is_closing = true;
        s->closing_since_ms = s->last_end_ms = clock_mono_ms();
        s->retry_ms = RETRY_FIRST_MS;
        prebuilt_drop(s);
        struct slot *slot;
        list_each (slot, &s->slots.live, link)
                slot_kill(s, slot);
        fs_helpers_kill(s);
        nets_drop(&s->nets);
}

/* Called again and again once the server has gone. */
static void close_on_tick(struct spawner_state *s, bool has_children)
{
        uint64_t now_ms = clock_mono_ms();
        /* The kernel may be slow to end killed processes, so the time counts from the last child that has ended. The children
         * that are left have got SIGKILL. */
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

/* ---- the process ---- */

static bool keeper_must_fork(void)
{
        const char *asked = getenv("FARHAND_FORK_KEEPER");
        const char *preload = getenv("LD_PRELOAD");
        return SANITIZED || (asked && strcmp(asked, "1") == 0) || (preload && strstr(preload, "vgpreload"));
}

/* Gives all signals their default action, and blocks them. The handlers of the server must not run here, and commands must not
 * inherit that a signal is ignored. */
static void signals_reset(void)
{
        /* The struct sigaction of the kernel, which differs from that of libc; all zero is the default. */
        const uint64_t action[4] = { 0 };
        for (int n = 1; n <= 64; n++)
                if (n != SIGKILL && n != SIGSTOP)
                        (void)sys_call4(SYS_rt_sigaction, n, action, NULL, sizeof(uint64_t));
        (void)sys_sigmask(~UINT64_C(0));
}

/* Closes all descriptors but the socket, which moves to 3, and stderr, which is for the message of an abort. 0 to 2 are open from
 * here on, so that the descriptors of commands are always above. Returns 3 or -errno. */
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

static int wait_ms(const struct spawner_state *s)
{
        if (s->is_sweeping || s->is_cancelling || s->is_closing || s->is_tidying)
                return s->retry_ms;
        int prebuilt_ms = prebuilt_wait_ms(s), held_ms = held_wait_ms(s);
        return prebuilt_ms < 0 || (held_ms >= 0 && held_ms < prebuilt_ms) ? held_ms : prebuilt_ms;
}

static NORETURN void serve(struct spawner_state *s)
{
        for (;;) {
                held_tick(s);
                struct pollfd fds[] = {
                        { .fd = s->is_closing ? -1 : s->setup.socket, .events = POLLIN },
                        { .fd = s->signals, .events = POLLIN },
                        /* This descriptor is polled after the socket of the orders: so poll reports a mount that was made before
                         * an order was sent no later than that order. */
                        { .fd = s->prebuilt.slot ? s->prebuilt.mounts : -1, .events = POLLPRI },
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
                                prebuilt_make(s);
                }
                if (fds[2].revents)
                        prebuilt_drop(s);
                if (fds[1].revents || s->is_closing)
                        has_children = reap(s);
                if (s->is_sweeping)
                        sweep(s);
                if (s->is_cancelling)
                        cancel_again(s);
                if (n == 0)
                        prebuilt_tick(s);
                if (s->is_tidying && n == 0)
                        s->is_tidying = cgroup_tidy(&s->cgroup);
                if (s->is_closing)
                        close_on_tick(s, has_children);
                else if (fds[0].revents)
                        order_take(s);
        }
}

/* Tells the server what the spawner lacks, and ends the spawner. The server reports the reason, and tries again later. */
static NORETURN void give_up(int socket, enum spawn_need need, int os_errno)
{
        struct spawn_report what = { .kind = SPAWN_UNABLE, .step = need, .os_errno = os_errno };
        (void)send(socket, &what, sizeof(what), MSG_NOSIGNAL | MSG_DONTWAIT);
        _exit(SPAWN_EXIT_UNABLE);
}

void spawner_run(const struct spawner_setup *setup)
{
        struct spawner_state s = { .setup = *setup,
                                   .retry_ms = RETRY_FIRST_MS,
                                   .cgroup = CGROUP_CLOSED,
                                   .fence = FENCE_NONE,
                                   .prebuilt = { .socket = -1, .keeper_socket = -1, .mounts = -1 },
                                   .nets = { .fence_fd = -1 } };
        signals_reset();
        (void)prctl(PR_SET_NAME, "fh-spawner");
        title_begin();
        title_set("fh-spawner");
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != setup->server)
                _exit(1);
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
                give_up(setup->socket, SPAWN_NEED_REAPER, errno);

        s.setup.socket = fds_reset(setup->socket);
        if (s.setup.socket < 0)
                give_up(setup->socket, SPAWN_NEED_FDS, -s.setup.socket);
        (void)fd_raise_limit(); /* the resulting limit is read below */
        if (chdir("/") < 0)
                give_up(s.setup.socket, SPAWN_NEED_ROOT, errno);
        if (getrlimit(RLIMIT_NOFILE, &s.nofile_now) < 0)
                give_up(s.setup.socket, SPAWN_NEED_LIMITS, errno);
        sigset_t watched;
        sigemptyset(&watched);
        sigaddset(&watched, SIGCHLD);
        sigaddset(&watched, SPAWNER_LOOK);
        sigaddset(&watched, SIGTERM);
        s.signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
        if (s.signals < 0)
                give_up(s.setup.socket, SPAWN_NEED_SIGNALS, errno);

        /* The server was started with this limit. If the hard limit has been lowered since then, it cannot be raised again. */
        s.setup.nofile.rlim_max = MIN(s.setup.nofile.rlim_max, s.nofile_now.rlim_max);
        s.setup.nofile.rlim_cur = MIN(s.setup.nofile.rlim_cur, s.setup.nofile.rlim_max);
        s.nofile_sandboxed = spawn_limits_nofile(s.setup.nofile);
        s.is_forking = keeper_must_fork();
        list_init(&s.fs_helpers);
        list_init(&s.nets.all);
        s.held.has_proc = pipe_watch_has_proc();
        s.walk_room = mem_alloc(WALK_MAX * sizeof(*s.walk_room));
        slots_init(&s.slots);
        serve(&s);
}
