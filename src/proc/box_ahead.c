/* box_ahead: a sandbox that is there before the command is known. See spare.h.
 *
 * Its init is a process of its own memory, a copy of the spawner's from before. So the order comes over the socket, as the
 * server sent it, and what goes wrong is told over it; `k` is where the keeper reads.
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

static NO_ASAN int packet_receive(int socket, struct spawn_order *ret, char *bytes, size_t room,
                                  int fds[static AHEAD_FDS])
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(AHEAD_FDS * sizeof(int))];
        struct iovec parts[] = { { ret, sizeof(*ret) }, { bytes, room } };
        struct msghdr msg = { .msg_iov = parts,
                              .msg_iovlen = ARRAY_LEN(parts),
                              .msg_control = control,
                              .msg_controllen = sizeof(control) };
        long n;
        do
                n = sys_call3(SYS_recvmsg, socket, &msg, MSG_CMSG_CLOEXEC);
        while (n == -EINTR);
        if (n < 0)
                return (int)n;
        if ((size_t)n < sizeof(*ret) || (size_t)n != sizeof(*ret) + ret->bytes)
                return -EBADMSG;
        const struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(AHEAD_FDS * sizeof(int)))
                return -EMFILE; /* what did not fit into our table is left out by the kernel */
        memcpy(fds, CMSG_DATA(c), AHEAD_FDS * sizeof(int));
        return 0;
}

static NO_ASAN int order_receive(int socket, struct request *room, struct keeper_order *ret)
{
        struct spawn_order order;
        int fds[AHEAD_FDS];
        int r = packet_receive(socket, &order, room->bytes, sizeof(room->bytes), fds);
        if (r < 0)
                return r;
        memcpy(ret->stdio, fds, sizeof(ret->stdio)); /* above 2, which are open */
        ret->is_tty = order.is_tty;
        ret->limits = order.limits;
        ret->image = image_map(fds[AHEAD_FD_IMAGE]);
        sys_close(fds[AHEAD_FD_IMAGE]);
        return ret->image ? slot_unpack(ret, &order, room->bytes, room->pointers) : -ENOMEM;
}

NO_ASAN void box_ahead_run(const struct keeper *k, struct enter_view *view, struct child_start *child)
{
        struct keeper own = { .leaf_fd = -1, .order = k->order };
        struct enter_failure why;
        long room = sys6(SYS_mmap, 0, sizeof(struct request), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        (void)enter_bounding(own.order.image); /* enter_confine tells what went wrong */
        int r = room < 0 && room > -4096 ? (int)room
                                         : order_receive(child->socket, (struct request *)room, &own.order);
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
                        return has_init; /* it was given at that moment: what became of the init will be heard */
                }
        }
}
