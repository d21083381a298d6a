/* sandboxed_ahead: the init of a prebuilt sandbox and its keeper wait for an order, and complete the sandbox
 * (spawner/spawner_prebuilt.c).
 *
 * The init has memory of its own, an older copy of the spawner's; only `k` is shared, and the spawner writes to it when there is an
 * order. So the init gets the order over the socket, as the server sent it, and reports failures over the socket.
 */
#include "keeper/sandboxed_internal.h"

#include "base/sys.h"

#include <errno.h>
#include <sys/wait.h>

enum { AHEAD_FD_STDIN, AHEAD_FD_STDOUT, AHEAD_FD_STDERR, AHEAD_FD_IMAGE, AHEAD_FDS };

/* ---- functions that run in the init ---- */

static NO_ASAN int order_receive(int socket, struct keeper_order *ret)
{
        struct order_strings *room =
                sys_map(sizeof(*room), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!room)
                return -ENOMEM;
        struct spawn_order order;
        struct iovec parts[] = { { &order, sizeof(order) }, { room->bytes, sizeof(room->bytes) } };
        int fds[AHEAD_FDS];
        long n = sandboxed_receive(socket, parts, ARRAY_LEN(parts), fds, AHEAD_FDS);
        if (n < 0)
                return (int)n;
        if ((size_t)n < sizeof(order) || (size_t)n != sizeof(order) + order.command.bytes)
                return -EBADMSG;
        memcpy(ret->stdio, fds, sizeof(ret->stdio)); /* all above 2, because 0 to 2 are open */
        ret->image = image_map(fds[AHEAD_FD_IMAGE]);
        sys_close(fds[AHEAD_FD_IMAGE]);
        ret->inlets.count = order.inlets.count;
        return ret->image ? keeper_order_unpack(ret, &order.command, room->bytes, room->pointers) : -ENOMEM;
}

/* What the three processes of a prebuilt sandbox share; on the init's stack.
 *
 *     init ──┬── builder    has the capabilities of the namespace; takes the order, completes the view, and ends
 *            └── waiter     becomes the command; confined from the beginning, because the init that makes it is. It prepares for
 *                           execve while the builder waits for the machine's mounts to go
 */
struct ahead {
        struct keeper own;
        const struct keeper *shared; /* the struct that the spawner writes to */
        struct enter_view *view;
        struct child_start *child;
        struct sandboxed_waiter waiter;
};

static NO_ASAN void builder_entry(void *arg)
{
        struct ahead *a = arg;
        struct sandboxed_waiter *w = &a->waiter;
        int r = order_receive(a->child->socket, &a->own.order);
        if (r < 0) {
                sandboxed_fail_at(&a->own, SPAWN_STEP_FORK, r);
                sys_exit(127);
        }
        a->child->io = child_stdio(&a->own.order);
        w->is_refused = enter_view_fill(a->view, a->own.order.image, &a->child->io, &w->why) < 0;
        if (w->is_refused)
                sys_exit(127);
        a->child->ruleset = a->view->landlock.ruleset;
        a->child->children = a->view->children;
        sandboxed_gate_open(&w->may_go);
        w->is_refused = enter_view_close(a->view, &w->why) < 0 || enter_drop(&w->why) < 0;
        if (w->is_refused)
                sys_exit(127);
        keeper_await_handover(a->shared, sys_getppid());
        if (a->own.order.inlets.count > 0)
                keeper_await_inlets(a->shared);
        sandboxed_gate_open(&w->may_exec);
        sys_exit(0);
}

NO_ASAN void sandboxed_ahead_run(const struct keeper *k, struct enter_view *view, struct child_start *child)
{
        struct ahead a = {
                .shared = k,
                .own = { .leaf_fd = -1,
                         .order = { .nofile = k->order.nofile, .has_nofile = k->order.has_nofile } },
                .view = view,
                .child = child,
                .waiter = { .child = child },
        };
        struct enter_failure why;
        pid_t building, builder = -1;
        child->k = &a.own;
        int r = enter_bounding(view->image);
        if (r == 0)
                r = builder = sandboxed_sibling_start(builder_entry, &a, &building);
        if (r >= 0 && enter_confine(view->image, &why) < 0) {
                child_note(&a.own, &why);
                sandboxed_init_end(&a.own, child->socket);
        }
        if (r >= 0)
                r = sandboxed_waiter_start(&a.waiter);
        if (r < 0) {
                sandboxed_fail_at(&a.own, SPAWN_STEP_FORK, r);
                sandboxed_init_end(&a.own, child->socket);
        }
        sandboxed_waiter_await(&a.own, &a.waiter, builder, &building);
}

/* ---- functions that run in the keeper ---- */

static bool init_is_dead(const struct keeper *k)
{
        siginfo_t info = { 0 };
        long r = sys6(SYS_waitid, P_PID, k->root, SYS_ARG(&info), WEXITED | WNOHANG | WNOWAIT | __WALL, 0, 0);
        return r == 0 && info.si_pid != 0;
}

static void init_end(struct keeper *k)
{
        (void)sys_kill(k->root, SIGKILL);
        while (sys_wait4(k->root, NULL, __WALL, NULL) == -EINTR)
                continue;
}

bool sandboxed_ahead_await(struct keeper *k, bool has_init)
{
        const uint64_t wake =
                SYS_SIGNAL_BIT(SIGCHLD) | SYS_SIGNAL_BIT(KEEPER_LOOK) | SYS_SIGNAL_BIT(KEEPER_KILL);
        for (;;) {
                int signo = has_init ? sys_sigtimedwait(wake, NULL) : KEEPER_KILL;
                bool is_over = signo == KEEPER_KILL || (signo == SIGCHLD && init_is_dead(k));
                uint32_t waits = KEEPER_WAITS;
                if (!is_over) {
                        if (atomic_load_explicit(&k->waits, memory_order_acquire) == KEEPER_ORDERED)
                                return true;
                } else if (atomic_compare_exchange_strong(&k->waits, &waits, KEEPER_GAVE_UP)) {
                        if (has_init)
                                init_end(k);
                        return false;
                } else {
                        if (signo == KEEPER_KILL)
                                atomic_store_explicit(&k->is_kill_wanted, true, memory_order_relaxed);
                        /* The spawner has given an order meanwhile. Messages will tell what has become of the init. */
                        return has_init;
                }
        }
}
