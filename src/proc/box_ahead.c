/* box_ahead: a sandbox that is there before the command is known. See spare.h.
 *
 * Its init has memory of its own, a copy of the spawner's from before; only `k` is shared, and the spawner writes to it when
 * there is an order. So the order comes over the socket, as the server sent it, and what goes wrong is told over it.
 */
#include "proc/box_internal.h"

#include "base/sys.h"
#include "proc/slot.h"
#include "sandbox/enter.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { AHEAD_FD_STDIN, AHEAD_FD_STDOUT, AHEAD_FD_STDERR, AHEAD_FD_IMAGE, AHEAD_FDS };

/* ---- the init ---- */

static NO_ASAN int order_receive(int socket, struct keeper_order *ret)
{
        struct request *room =
                sys_map(sizeof(*room), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!room)
                return -ENOMEM;
        struct spawn_order order;
        struct iovec parts[] = { { &order, sizeof(order) }, { room->bytes, sizeof(room->bytes) } };
        int fds[AHEAD_FDS];
        long n = box_receive(socket, parts, ARRAY_LEN(parts), fds, AHEAD_FDS);
        if (n < 0)
                return (int)n;
        if ((size_t)n < sizeof(order) || (size_t)n != sizeof(order) + order.bytes)
                return -EBADMSG;
        memcpy(ret->stdio, fds, sizeof(ret->stdio)); /* above 2, which are open */
        ret->is_tty = order.is_tty;
        ret->limits = order.limits;
        ret->image = image_map(fds[AHEAD_FD_IMAGE]);
        sys_close(fds[AHEAD_FD_IMAGE]);
        return ret->image ? slot_unpack(ret, &order, room->bytes, room->pointers) : -ENOMEM;
}

NO_ASAN void box_ahead_run(const struct keeper *k, struct enter_view *view, struct child_start *child)
{
        struct keeper own = {
                .leaf_fd = -1,
                .order = { .nofile = k->order.nofile, .set_nofile = k->order.set_nofile },
        };
        struct enter_failure why;
        (void)enter_bounding(view->image); /* enter_confine tells what went wrong */
        int r = order_receive(child->socket, &own.order);
        if (r < 0) {
                box_fail_at(&own, SPAWN_STEP_FORK, r);
                box_init_end(&own, child->socket);
        }
        if (enter_view_end(view, own.order.image, own.order.is_tty ? own.order.stdio[0] : -1, &why) < 0) {
                child_note(&own, &why);
                box_init_end(&own, child->socket);
        }
        child->k = &own;
        child->ruleset = view->ruleset;
        child->children = view->children;
        box_init_run(&own, own.order.image, child);
}

/* ---- the keeper ---- */

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

bool box_ahead_await(struct keeper *k, bool has_init)
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
                                atomic_store_explicit(&k->kill_wanted, true, memory_order_relaxed);
                        return has_init; /* it was given at that moment: what became of the init will be heard */
                }
        }
}
