/* spawner_prebuilt: makes the next sandbox before it is needed.
 *
 * A prebuilt sandbox is a keeper with its init, in namespaces of its own. The view is built except for what depends on the plan
 * of the command: everything else is the same for one command as for the next (image_is_alike), and takes the kernel long to
 * make. The sandbox is made once a command of its kind has exited or has run for a while; earlier, it would take the processor,
 * and locks of the kernel, from a command that is about to end. It waits for an order, which is sent to the init directly; from
 * then on its keeper is like any other (keeper/sandboxed_ahead.c). It is used once; before that only our own code has run in it.
 *
 * At most one sandbox is prebuilt. A command of another kind gets a sandbox of its own. The prebuilt sandbox is ended when
 * no command has used it for a while, and at once when something is mounted or unmounted on the machine: its view would be out
 * of date, and would keep a file system busy that is to be unmounted.
 */
#include "spawner/spawner_internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/sys.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PREBUILT_AFTER_MS 10   /* how long a command runs before the next sandbox is made */
#define PREBUILT_IDLE_MS 30000 /* how long a sandbox is kept unused: later it only takes memory */

/* ---- kinds of sandboxes ---- */

/* Fills in the kind of sandbox that a command needs. Returns false when no sandbox can be made ahead for the command: its sandbox
 * has no init of ours, or the command has limits: they are set on a cgroup before the first process is in it; or the command is intercepted: its keeper has
 * to be a fork. */
static bool kind_of(const struct spawn_order *order, const struct image *image, struct prebuilt_kind *ret)
{
        if (image->filter_count > PREBUILT_FILTER_MAX)
                return false;
        ret->head.image = image_head(image);
        ret->head.image.bytes = sizeof(ret->head);
        ret->head.image.filter = offsetof(struct prebuilt_head, filter);
        ret->head.image.filter_count = image->filter_count;
        memcpy(ret->head.filter, image_at(image, image->filter),
               image->filter_count * sizeof(*ret->head.filter));
        ret->session = order->session;
        return order->session != 0 && image->backend == BACKEND_NAMESPACES && image_has_init(image) &&
               image->needs_user && order->tree.memory_bytes == 0 && order->tree.processes == 0 &&
               !order->is_in_memfd && !order->is_intercepted;
}

static bool is_same_kind(const struct prebuilt_kind *a, const struct prebuilt_kind *b)
{
        const struct image *x = &a->head.image, *y = &b->head.image;
        return image_is_alike(x, y) && x->filter_count == y->filter_count &&
               memcmp(a->head.filter, b->head.filter, x->filter_count * sizeof(*a->head.filter)) == 0;
}

bool prebuilt_note(struct spawner_state *s, const struct spawn_order *order, const struct image *image)
{
        struct prebuilt_kind kind;
        if (s->is_forking || !kind_of(order, image, &kind))
                return false;
        s->prebuilt.next = kind;
        s->prebuilt.used_ms = clock_mono_ms();
        s->prebuilt.is_due = true;
        return true;
}

/* ---- making a sandbox ---- */

/* Opens the descriptor that reports changes of mounts, if it is not open, and discards the changes until now. */
static bool mounts_watch(struct prebuilt *p)
{
        if (p->mounts < 0)
                p->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        struct pollfd fd = { .fd = p->mounts, .events = POLLPRI };
        return p->mounts >= 0 && poll(&fd, 1, 0) >= 0;
}

static int make(struct spawner_state *s, struct slot *slot)
{
        struct prebuilt *p = &s->prebuilt;
        struct keeper *k = &slot->keeper;
        int ends[2], order_ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, order_ends) < 0) {
                int r = -errno;
                fd_close(ends[0]);
                fd_close(ends[1]);
                return r;
        }
        memcpy(k->init_ends, ends, sizeof(ends));
        memcpy(k->order_ends, order_ends, sizeof(order_ends));
        k->order.image = &p->kind.head.image;
        k->fence_fd = fence_get(&s->fence);
        k->net_fd = slot->net ? net_open(slot->net) : -1;
        atomic_store_explicit(&k->waits, KEEPER_WAITS, memory_order_relaxed);
        int r = slot->pid = keeper_start(s, slot);
        fd_close(ends[1]);
        fd_close(order_ends[1]);
        fd_close(k->net_fd);
        if (r < 0) {
                fd_close(ends[0]);
                fd_close(order_ends[0]);
        } else {
                p->socket = ends[0];
                p->keeper_socket = order_ends[0];
        }
        return r;
}

void prebuilt_make(struct spawner_state *s)
{
        struct prebuilt *p = &s->prebuilt;
        p->is_due = false;
        if (p->slot && !p->is_dropped)
                return;
        p->is_wanted = true;
        if (p->slot || s->is_closing || s->is_forking || p->next.head.image.bytes == 0 || !mounts_watch(p))
                return;
        bool needs_net = !p->next.head.image.has_network;
        s->nets.fence_fd = fence_get(&s->fence);
        struct net *net = needs_net ? nets_take(&s->nets, p->next.session) : NULL;
        struct slot *slot = needs_net && !net ? NULL : slot_for_start(s, true);
        if (!slot) {
                prebuilt_recover(s, net);
                return;
        }
        slot->net = net;
        p->is_wanted = p->is_dropped = false;
        p->kind = p->next;
        int r = make(s, slot);
        if (r >= 0) {
                p->slot = slot;
                return;
        }
        prebuilt_recover(s, TAKE(slot->net));
        slot_free(&s->slots, slot);
}

/* ---- starting a command in the sandbox ---- */

/* Returns whether the keeper still runs. It may have been killed, and not been reaped yet. */
static bool is_alive(const struct slot *slot)
{
        siginfo_t info = { 0 };
        return waitid(P_PID, (id_t)slot->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

static bool is_for(const struct prebuilt *p, const struct prebuilt_kind *kind)
{
        return is_same_kind(&p->kind, kind) && (!p->slot->net || net_is_for(p->slot->net, kind->session)) &&
               is_alive(p->slot);
}

/* Gives the sandbox its order. The keeper gets the socket for the inlets, and the init everything else. Returns 0; -ENOENT: the
 * sandbox is not for this order; -ETOOMANYREFS: the sandbox stays for the next command; or another -errno. */
static int order_give(const struct prebuilt *p, const struct spawn_order *order, struct slice strings,
                      const int fds[], int inlet_socket)
{
        bool has_inlets = order->inlets.count > 0;
        if (has_inlets && !atomic_load_explicit(&p->slot->keeper.is_in_net, memory_order_acquire))
                return -ENOENT;
        int r = has_inlets ? spawn_packet_send(p->keeper_socket, order, (struct slice){ NULL, 0 },
                                               &inlet_socket, 1)
                           : 0;
        if (r < 0)
                return r;
        r = spawn_packet_send(p->socket, order, strings, fds, 4);
        return has_inlets && r == -ETOOMANYREFS
                       ? -ECANCELED
                       : r; /* the keeper has a socket that is not for the next command */
}

int prebuilt_start(struct spawner_state *s, const struct spawn_order *order, struct image *image, int fds[],
                   int inlet_socket)
{
        struct prebuilt *p = &s->prebuilt;
        struct prebuilt_kind kind;
        if (!p->slot || p->is_dropped || !kind_of(order, image, &kind))
                return -ENOENT;
        image->placeholders_due = image->placeholder_count > 0;
        struct slice strings = slice_from(s->next->strings.bytes, order->command.bytes);
        int given = is_for(p, &kind) ? order_give(p, order, strings, fds, inlet_socket) : -ESRCH;
        if (given < 0 && given != -ETOOMANYREFS && given != -ENOENT)
                prebuilt_drop(s);
        if (given < 0)
                return -ENOENT;
        struct slot *slot = p->slot;
        struct keeper *k = &slot->keeper;
        if (slot->net)
                net_use(slot->net, order->session);
        k->number = order->number;
        k->order.image = slot->image = image;
        k->order.inlets = order->inlets;
        k->order.stdio[0] = k->order.stdio[1] = k->order.stdio[2] = -1; /* the init has its own */
        k->tells = prebuilt_note(s, order, image);
        uint32_t waits = KEEPER_WAITS;
        if (!atomic_compare_exchange_strong(&k->waits, &waits, KEEPER_ORDERED)) {
                k->order.image = slot->image = NULL;
                return -ECANCELED; /* the keeper has given up: the init was killed before or after it received the order */
        }
        (void)sys_kill(slot->pid, KEEPER_LOOK);
        p->slot = NULL;
        p->socket = fd_close(p->socket);
        p->keeper_socket = fd_close(p->keeper_socket);
        start_hand_over(s, slot, fds);
        (void)sched_yield(); /* the command's processes run first; other work here can wait */
        return 0;
}

/* ---- ending the sandbox ---- */

void prebuilt_drop(struct spawner_state *s)
{
        struct prebuilt *p = &s->prebuilt;
        if (!p->slot)
                return;
        p->is_dropped = true;
        (void)sys_kill(p->slot->pid, KEEPER_KILL);
        (void)sys_kill(p->slot->pid, SIGCONT); /* the keeper may have been stopped */
}

/* Returns how much of the first `ms` after the start of the last command is left. */
static int left_of(const struct prebuilt *p, uint64_t ms)
{
        uint64_t age_ms = clock_mono_ms() - p->used_ms;
        return age_ms >= ms ? 0 : (int)(ms - age_ms);
}

int prebuilt_wait_ms(const struct spawner_state *s)
{
        const struct prebuilt *p = &s->prebuilt;
        if (p->is_due)
                return left_of(p, PREBUILT_AFTER_MS);
        bool waits = p->slot && !p->is_dropped;
        return waits || nets_free_count(&s->nets) > 0 ? left_of(p, PREBUILT_IDLE_MS) : -1;
}

void prebuilt_tick(struct spawner_state *s)
{
        if (prebuilt_wait_ms(s) != 0)
                return;
        if (s->prebuilt.is_due) {
                prebuilt_make(s);
                return;
        }
        prebuilt_drop(s);
        nets_drop(&s->nets);
}

void prebuilt_recover(struct spawner_state *s, struct net *net)
{
        nets_give_back(&s->nets, net, !s->is_closing && left_of(&s->prebuilt, PREBUILT_IDLE_MS) > 0);
}

bool prebuilt_has_keeper(const struct prebuilt *p, pid_t pid)
{
        return p->slot && p->slot->pid == pid;
}

void prebuilt_reaped(struct spawner_state *s, bool is_well)
{
        struct prebuilt *p = &s->prebuilt;
        struct slot *slot = TAKE(p->slot);
        p->socket = fd_close(p->socket);
        p->keeper_socket = fd_close(p->keeper_socket);
        if (!is_well) { /* a process may still run on its stacks: as for any keeper that was killed, `sweep` finds out */
                slot_enter_orphan(&s->slots, slot);
                return;
        }
        prebuilt_recover(s, TAKE(slot->net));
        slot_free(&s->slots, slot);
        if (p->is_wanted)
                prebuilt_make(s);
}
