/* fs_view: the process that has bwrap build the view of one fs helper, and keeps that view.
 *
 *     spawner ── fh-view ─┬─ bwrap ── farhand-init        process 1 of the view; it does nothing else
 *                         └─ fs helper                    has joined the view
 *
 * bwrap executes programs, but an fs helper is a copy of the spawner. So farhand-init only keeps the view alive, and the helper is
 * a copy of fh-view that has joined it (sandbox/finish.h). Building the view takes some milliseconds, for which the spawner does
 * not wait.
 *
 * fh-view stays outside. Once the helper runs, fh-view waits for the first of its children to end, and ends the others. When
 * fh-view is killed, the kernel kills bwrap and the helper (PDEATHSIG); when bwrap or farhand-init is killed, the kernel kills
 * every process in the pid namespace of the view.
 */
#include "keeper/fs_view.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/sys.h"
#include "keeper/sandboxed_internal.h"
#include "keeper/title.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#define STACK_BYTES (16 * 1024)
#define ROUND_MS 10 /* wait between two attempts to end the processes that are left */

/* Memory that is shared with the children: a forked child notes there why it has failed. */
struct shared {
        struct keeper k; /* the input of sandboxed_bwrap.c */
        struct tree_entry walk_room[KEEPER_WALK_MAX];
        _Alignas(16) char stack[STACK_BYTES];
};

struct fs_view {
        struct shared *shared;
        struct keeper *k; /* &shared->k */
        const struct spawn_fs_helper *fs_helper;
        struct image *image;
        struct verify_spaces outside;
        int socket;    /* the helper's socket to the server */
        int holder;    /* our end of a socket pair with farhand-init, the process that holds the view */
        int errors_fd; /* where bwrap writes its errors */
};

/* ---- ending the view ---- */

/* Kills the children until none is left. */
static NORETURN void end(struct fs_view *v)
{
        const struct timespec ts = { .tv_nsec = ROUND_MS * 1000000L };
        (void)fd_close(v->holder);
        for (;;) {
                (void)tree_signal(SIGKILL, v->k->walk_room, KEEPER_WALK_MAX);
                pid_t pid;
                do
                        pid = sys_wait4(-1, NULL, WNOHANG | __WALL, NULL);
                while (pid > 0);
                if (pid == -ECHILD)
                        sys_exit(0);
                (void)sys_sigtimedwait(SYS_SIGNAL_BIT(SIGCHLD), &ts);
        }
}

static NORETURN void give_up(struct fs_view *v)
{
        const struct keeper *k = v->k;
        int step = k->failed_step >= SPAWN_STEP_SANDBOX ? (int)(k->failed_step - SPAWN_STEP_SANDBOX) : -1;
        v->fs_helper->failed(v->socket, step, k->failed_errno, k->failed_op);
        end(v);
}

static NORETURN void give_up_at(struct fs_view *v, enum enter_step step, int r)
{
        sandboxed_fail_at(v->k, SPAWN_STEP_SANDBOX + step, r);
        give_up(v);
}

/* ---- building the view with bwrap ---- */

static void build(struct fs_view *v, int null)
{
        static char *const nothing[] = { NULL };
        const int yes = 1;
        int ends[2];
        struct keeper_order *o = &v->k->order;
        *o = (struct keeper_order){ .argv = nothing,
                                    .env = nothing,
                                    .candidates = nothing,
                                    .cwd = "/",
                                    .stdio = { null, null, null },
                                    .bwrap = { o->bwrap[0], o->bwrap[1] },
                                    .holds = true,
                                    .image = v->image };
        if (null < 0)
                give_up_at(v, ENTER_BUBBLEWRAP, null);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                give_up_at(v, ENTER_BUBBLEWRAP, -errno);
        v->holder = ends[0];
        (void)setsockopt(v->holder, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
        int r = sandboxed_outside(v->k, &v->outside);
        if (r < 0)
                give_up_at(v, ENTER_BUBBLEWRAP, r);
        r = sandboxed_bwrap_start(v->k, v->image, ends, &v->errors_fd);
        fd_close(ends[1]);
        if (r < 0)
                give_up(v);
}

/* Reports that bwrap has failed. If a file that the view is made of is gone or was replaced, that is reported as the reason. */
static NORETURN void give_up_building(struct fs_view *v)
{
        struct enter_failure why;
        if (v->k->failed_step == SPAWN_STEP_NONE) {
                sandboxed_fail_at(v->k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP, -ECANCELED);
                sandboxed_bwrap_read_errors(v->image, v->errors_fd);
        }
        if (verify_sources(v->image, &why) < 0)
                child_note(v->k, &why);
        give_up(v);
}

/* Reads the message of farhand-init. Returns the pid of farhand-init when it keeps the view alive; otherwise gives up. */
static pid_t hear_holder(struct fs_view *v)
{
        struct sandboxed_message m;
        pid_t sender = 0;
        int none = -1;
        if (sandboxed_message_receive(v->holder, &m, &sender, &none) == sizeof(m)) {
                if (m.kind == SANDBOXED_HERE && sender > 0)
                        return sender;
                v->k->failed_op = m.failed_op;
                v->k->failed_errno = m.failed_errno;
                v->k->failed_step = m.failed_step;
        }
        give_up_building(v);
}

/* Waits until farhand-init reports that the view is built, and returns its pid. Ends this process when that fails. */
static pid_t await_holder(struct fs_view *v)
{
        uint64_t now_ms = clock_mono_ms(), end_ms = now_ms + LIMIT_FS_HELPER_VIEW_MS;
        _close_ int bwrap = sys_pidfd_open(v->k->root);
        for (; now_ms < end_ms; now_ms = clock_mono_ms()) {
                struct pollfd fds[] = { { .fd = v->holder, .events = POLLIN },
                                        { .fd = v->socket, .events = POLLRDHUP },
                                        { .fd = bwrap, .events = POLLIN } };
                if (poll(fds, ARRAY_LEN(fds), (int)(end_ms - now_ms)) <= 0)
                        continue;
                if (fds[1].revents)
                        end(v); /* the server does not wait for the helper any more */
                if (fds[0].revents)
                        return hear_holder(v);
                /* A bwrap that was killed has left a child, which waits for bwrap for ever. */
                if (fds[2].revents)
                        give_up_building(v);
        }
        give_up_at(v, ENTER_BUBBLEWRAP, -ETIMEDOUT);
}

/* ---- making the fs helper ---- */

/* Runs in a child of fh-view: joins the view, and makes the helper there, also as a child of fh-view. fh-view itself cannot join,
 * because it is needed outside. */
static NORETURN void joiner_run(struct fs_view *v, pid_t holder)
{
        struct finish f;
        /* A name of its own: this process may still be there when the helper answers. */
        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-join");
        title_set("fh-join");
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        int r = sandboxed_finish_open(v->holder, holder, &v->outside, &f);
        if (r == 0)
                r = finish_view(&f, v->image->limits, v->image->has_view, true);
        /* The helper must not be able to write memory that its parent reads. */
        if (r == 0)
                r = (int)sys_call2(SYS_munmap, v->shared, sizeof(*v->shared));
        long pid = r < 0 ? r : sys6(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0, 0);
        if (pid == 0)
                v->fs_helper->run(v->socket, v->image, &v->outside);
        if (pid < 0)
                v->fs_helper->failed(v->socket, ENTER_FINISH, (int)-pid, ENTER_NO_OP);
        sys_exit(pid < 0);
}

static void descriptors_drop(struct fs_view *v)
{
        const int fds[] = { v->k->order.bwrap[0], v->k->order.bwrap[1], v->k->order.stdio[0], v->k->fence_fd,
                            v->errors_fd };
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                fd_close(fds[i]);
}

static NORETURN void run(struct fs_view *v)
{
        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-view");
        title_set("fh-view");
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != v->k->spawner || sys_prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
                sys_exit(1);
        const int kept[] = { v->socket, v->k->order.bwrap[0], v->k->order.bwrap[1], v->k->fence_fd };
        fd_close_all_but(kept, ARRAY_LEN(kept));
        /* As for commands: the sandbox must not have the supplementary groups of the server. */
        if (v->image->uid == 0)
                (void)sys_call2(SYS_setgroups, 0, NULL);
        build(v, sys_open("/dev/null", O_RDWR));
        pid_t holder = await_holder(v);
        descriptors_drop(v);
        pid_t joiner = sys_fork();
        if (joiner == 0)
                joiner_run(v, holder);
        if (joiner < 0)
                give_up_at(v, ENTER_FINISH, joiner);
        /* Only the helper keeps the socket open, so that the server notices the helper's end. */
        v->socket = fd_close(v->socket);
        for (;;) {
                int status;
                pid_t pid = sys_wait4(-1, &status, __WALL, NULL);
                if (pid != -EINTR && (pid != joiner || status != 0))
                        end(v);
        }
}

void fs_view_run(const struct fs_view_order *order)
{
        struct shared *shared =
                sys_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
        if (!shared) {
                order->fs_helper->failed(order->socket, -1, ENOMEM, ENTER_NO_OP);
                sys_exit(1);
        }
        shared->k = (struct keeper){ .spawner = order->spawner,
                                     .is_fork = order->is_forking,
                                     .child_stack = shared->stack + sizeof(shared->stack),
                                     .walk_room = shared->walk_room,
                                     .leaf_fd = -1,
                                     .init_ends = { -1, -1 },
                                     .net_fd = -1,
                                     .fence_fd = order->fence,
                                     .order = { .bwrap = { order->programs[0], order->programs[1] } } };
        struct fs_view v = { .shared = shared,
                             .k = &shared->k,
                             .fs_helper = order->fs_helper,
                             .image = order->image,
                             .socket = order->socket,
                             .holder = -1,
                             .errors_fd = -1 };
        run(&v);
}
