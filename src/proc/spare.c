/* spare: see spare.h. */
#include "proc/spare.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/sys.h"
#include "proc/spawner_internal.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void spare_init(struct spare *p)
{
        *p = (struct spare){ .socket = -1, .mounts = -1 };
}

/* ---- kinds ---- */

/* Who is in a sandbox that takes an init of ours, and needs no cgroup: limits are set before anybody is in. */
static bool kind_of(const struct spawn_order *order, const struct image *image, struct spare_kind *ret)
{
        *ret = (struct spare_kind){ .head = image_head(image), .whose = order->whose };
        return order->whose != 0 && image->backend == BACKEND_NAMESPACES && image_has_init(image) &&
               image->needs_user && order->tree.memory_bytes == 0 && order->tree.processes == 0 &&
               !order->in_memfd;
}

static bool is_same_kind(const struct spare_kind *a, const struct spare_kind *b)
{
        return image_is_alike(&a->head, &b->head);
}

bool spare_note(struct state *s, const struct spawn_order *order, const struct image *image)
{
        struct spare_kind kind;
        if (s->is_forking || !kind_of(order, image, &kind))
                return false;
        s->spare.next = kind;
        s->spare.used_ms = clock_mono_ms();
        return true;
}

/* ---- making ---- */

/* Forgets what has changed until now. */
static bool mounts_watch(struct spare *p)
{
        if (p->mounts < 0)
                p->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        struct pollfd fd = { .fd = p->mounts, .events = POLLPRI };
        return p->mounts >= 0 && poll(&fd, 1, 0) >= 0;
}

static int make(struct state *s, struct slot *slot)
{
        struct spare *p = &s->spare;
        struct keeper *k = &slot->keeper;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, k->init_ends) < 0)
                return -errno;
        k->order.image = &p->kind.head;
        k->net_fd = slot->net ? net_open(slot->net) : -1;
        atomic_store_explicit(&k->waits, KEEPER_WAITS, memory_order_relaxed);
        int ends[2] = { k->init_ends[0], k->init_ends[1] };
        int r = slot->pid = keeper_start(s, slot);
        fd_close(ends[1]);
        fd_close(k->net_fd);
        if (r < 0)
                fd_close(ends[0]);
        else
                p->socket = ends[0];
        return r;
}

void spare_want(struct state *s)
{
        struct spare *p = &s->spare;
        if (p->slot && !p->is_dropped)
                return;
        p->is_wanted = true;
        if (p->slot || s->is_closing || s->is_forking || p->next.head.bytes == 0 || !mounts_watch(p))
                return;
        bool needs_net = !p->next.head.has_network;
        struct net *net = needs_net ? nets_take(&s->nets, p->next.whose) : NULL;
        struct slot *slot = needs_net && !net ? NULL : start_slot(s);
        if (!slot) {
                spare_recover(s, net);
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
        spare_recover(s, TAKE(slot->net));
        slot_free(&s->slots, slot);
}

/* ---- using ---- */

/* Somebody may have killed it, and it is not reaped yet. */
static bool is_alive(const struct slot *slot)
{
        siginfo_t info = { 0 };
        return waitid(P_PID, (id_t)slot->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

static bool give(struct spare *p, const struct spawn_order *order, const char *strings, const int fds[])
{
        return spawn_packet_send(p->socket, order, slice_from(strings, order->bytes), fds, 4) == 0;
}

static bool is_for(const struct spare *p, const struct spare_kind *kind)
{
        return is_same_kind(&p->kind, kind) && (!p->slot->net || net_is_for(p->slot->net, kind->whose)) &&
               is_alive(p->slot);
}

int spare_start(struct state *s, const struct spawn_order *order, struct image *image, int fds[])
{
        struct spare *p = &s->spare;
        struct spare_kind kind;
        if (!p->slot || p->is_dropped || !kind_of(order, image, &kind))
                return -ENOENT;
        image->stubs_due = image->stub_count > 0;
        if (!is_for(p, &kind) || !give(p, order, s->next->bytes, fds)) {
                spare_drop(s);
                return -ENOENT;
        }
        struct slot *slot = p->slot;
        struct keeper *k = &slot->keeper;
        if (slot->net)
                net_use(slot->net, order->whose);
        k->number = order->number;
        k->order.image = slot->image = image;
        k->order.stdio[0] = k->order.stdio[1] = k->order.stdio[2] = -1; /* the init has them */
        k->tells = spare_note(s, order, image);
        uint32_t waits = KEEPER_WAITS;
        if (!atomic_compare_exchange_strong(&k->waits, &waits, KEEPER_ORDERED)) {
                k->order.image = slot->image = NULL;
                return -ECANCELED; /* it has given up: its init was killed, after or before it had the order */
        }
        (void)sys_kill(slot->pid, KEEPER_LOOK);
        p->slot = NULL;
        p->socket = fd_close(p->socket);
        start_handed_over(s, slot, fds);
        (void)sched_yield(); /* whatever else there is to do here can wait for who is waiting for us */
        return 0;
}

/* ---- ending ---- */

void spare_drop(struct state *s)
{
        struct spare *p = &s->spare;
        if (!p->slot)
                return;
        p->is_dropped = true;
        (void)sys_kill(p->slot->pid, KEEPER_KILL);
        (void)sys_kill(p->slot->pid, SIGCONT); /* in case somebody stopped it */
}

static int left_ms(const struct spare *p)
{
        uint64_t age_ms = clock_mono_ms() - p->used_ms;
        return age_ms >= SPARE_IDLE_MS ? 0 : (int)(SPARE_IDLE_MS - age_ms);
}

int spare_wait_ms(const struct state *s)
{
        bool waits = s->spare.slot && !s->spare.is_dropped;
        return waits || nets_are_free(&s->nets) ? left_ms(&s->spare) : -1;
}

void spare_tick(struct state *s)
{
        if (spare_wait_ms(s) != 0)
                return;
        spare_drop(s);
        nets_drop(&s->nets);
}

void spare_recover(struct state *s, struct net *net)
{
        nets_give_back(&s->nets, net, !s->is_closing && left_ms(&s->spare) > 0);
}

bool spare_is(const struct spare *p, pid_t pid)
{
        return p->slot && p->slot->pid == pid;
}

void spare_reaped(struct state *s, bool is_well)
{
        struct spare *p = &s->spare;
        struct slot *slot = TAKE(p->slot);
        p->socket = fd_close(p->socket);
        if (!is_well) { /* somebody may still run on its stacks: as with any keeper that was killed, `sweep` tells */
                slot_enter_orphan(&s->slots, slot);
                return;
        }
        spare_recover(s, TAKE(slot->net));
        slot_free(&s->slots, slot);
        if (p->is_wanted)
                spare_want(s);
}
