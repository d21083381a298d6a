/* spawner_orders: takes the orders of the server: makes the keeper of a command, with its slot and its cgroup, reports to the
 * server when that fails, and passes signals on. */
#include "spawner/spawner_internal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/sys.h"
#include "keeper/keeper.h"
#include "sandbox/enter.h"
#include "sandbox/image.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

/* ---- reports ---- */

/* Sends a report. Waits while the server is stopped, or sleeps in a call on a pipe, which held_tick ends in time. When the server
 * has died, send returns EPIPE. */
static void report(struct spawner_state *s, const struct spawn_report *what)
{
        while (send(s->setup.socket, what, sizeof(*what), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
                if (errno != EINTR && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
                        return;
                struct pollfd room = { .fd = s->setup.socket, .events = errno == EAGAIN ? POLLOUT : 0 };
                (void)poll(&room, 1, errno == EAGAIN ? held_wait_ms(s) : RETRY_FIRST_MS);
                held_tick(s);
        }
}

void report_kind(struct spawner_state *s, enum spawn_report_kind kind, uint32_t number)
{
        report(s, &(struct spawn_report){ .kind = kind, .number = number });
}

static void report_failed(struct spawner_state *s, uint32_t number, enum spawn_step step, int os_errno)
{
        report(s, &(struct spawn_report){
                          .kind = SPAWN_FAILED, .number = number, .step = step, .os_errno = os_errno });
        report_kind(s, SPAWN_GONE, number);
}

/* ---- cgroups ---- */

/* Returns whether the sandbox has an init of ours. When that init ends, the kernel ends every process of the sandbox, as surely as
 * with a cgroup. */
static bool has_certain_end(const struct image *i)
{
        return i && i->backend == BACKEND_NAMESPACES && image_has_init(i);
}

/* Makes the cgroup of a command. A command with limits needs a cgroup. Any other command gets one where cgroups can be made, which
 * is found out once. */
static int leaf_make(struct spawner_state *s, struct keeper *k, const struct spawn_order *order)
{
        k->order.needs_leaf = order->tree.memory_bytes > 0 || order->tree.processes > 0;
        /* What an intercepted command runs outside of its sandbox does not end with the init. */
        bool has_end = has_certain_end(k->order.image) && !order->is_intercepted;
        if (!k->order.needs_leaf && (!order->wants_cgroup || has_end))
                return 0;

        int r = s->cgroup.home < 0 ? -ENOTSUP : 0;
        if (r < 0 && (!s->has_tried_cgroups || k->order.needs_leaf))
                r = cgroup_open(&s->cgroup);
        s->has_tried_cgroups = true;
        if (r == 0)
                r = cgroup_leaf_add(&s->cgroup, &order->tree, &k->leaf, &k->leaf_fd);
        k->cgroup = &s->cgroup;
        return k->order.needs_leaf ? r : 0;
}

void leaf_drop(struct spawner_state *s, uint64_t leaf)
{
        if (leaf == 0)
                return;
        cgroup_leaf_remove(&s->cgroup, leaf);
        if (list_is_empty(&s->cgroup.busy))
                return;
        s->is_tidying = true;
        s->retry_ms = RETRY_FIRST_MS;
}

/* ---- keepers ---- */

pid_t keeper_start(struct spawner_state *s, struct slot *slot)
{
        struct keeper *k = &slot->keeper;
        if (!s->is_forking && !k->order.is_intercepted) {
                long pid = sys_clone_onto(CLONE_VM | SIGCHLD, slot, NULL, NULL, keeper_run, k);
                if (pid >= 0 || pid == -EAGAIN || pid == -ENOMEM) /* a fork would be refused as well */
                        return (pid_t)pid;
                s->is_forking = true; /* an emulator or a seccomp filter may refuse with any other error */
        }
        k->is_fork = true;
        /* Not fork(): libraries may open descriptors in the child, with the numbers of the command's descriptors. */
        long pid = sys_fork();
        if (pid == 0)
                keeper_run(k);
        return (pid_t)pid;
}

struct slot *slot_for_start(struct spawner_state *s, bool is_sandboxed)
{
        struct slot *slot = slot_new(&s->slots);
        if (!slot)
                return NULL;
        struct keeper *k = &slot->keeper;
        k->spawner = sys_getpid();
        k->socket = s->setup.socket;
        k->order.bwrap[0] = k->order.bwrap[1] = -1;
        k->order.config = k->order.server = k->order.inlet_socket = -1;
        k->order.nofile = is_sandboxed ? s->nofile_sandboxed : s->setup.nofile;
        k->order.has_nofile = s->nofile_now.rlim_cur != k->order.nofile.rlim_cur ||
                              s->nofile_now.rlim_max != k->order.nofile.rlim_max;
        return slot;
}

void start_hand_over(struct spawner_state *s, struct slot *slot, int fds[static 3])
{
        slot_enter(&s->slots, slot);
        for (int i = 0; i < 3; i++)
                fds[i] = fd_close(fds[i]);
        atomic_store_explicit(&slot->keeper.is_handed_over, true, memory_order_release);
}

/* ---- starting commands ---- */

/* Returns the index, among the descriptors of an order, of the first of the two programs for bwrap. */
static int bwrap_at(const struct spawn_order *order)
{
        return 3 + order->is_in_memfd + order->has_image;
}

static int broker_at(const struct spawn_order *order)
{
        return bwrap_at(order) + (order->has_bwrap ? SPAWN_PROGRAMS : 0);
}

static int inlet_socket_at(const struct spawn_order *order)
{
        return broker_at(order) + (order->is_intercepted ? SPAWN_BROKER : 0);
}

static int slot_fill(struct spawner_state *s, struct slot *slot, const struct spawn_order *order,
                     const int fds[])
{
        struct keeper *k = &slot->keeper;
        k->number = order->number;
        for (int i = 0; i < 3; i++)
                k->order.stdio[i] = fds[i];
        for (int i = 0; order->has_bwrap && i < 2; i++)
                k->order.bwrap[i] = fds[bwrap_at(order) + i];
        k->order.is_intercepted = order->is_intercepted;
        k->order.asking = order->asking;
        if (order->is_intercepted) {
                k->broker = s->setup.broker;
                k->order.config = fds[broker_at(order)];
                k->order.server = fds[broker_at(order) + 1];
        }
        k->order.inlets = order->inlets;
        if (order->inlets.count > 0)
                k->order.inlet_socket = fds[inlet_socket_at(order)];
        if (order->is_in_memfd)
                return slot_take_memfd(slot, order, fds[3]);
        return slot_take_buffer(slot, order, TAKE(s->next));
}

/* Starts a command. Returns 0, or -errno; after a failure the caller still owns the image, and *ret_step is the step that
 * failed. */
static int slot_start(struct spawner_state *s, const struct spawn_order *order, struct image *image,
                      int fds[], enum spawn_step *ret_step)
{
        *ret_step = SPAWN_STEP_FORK;
        struct slot *slot = slot_for_start(s, image != NULL);
        if (!slot)
                return -ENOMEM;
        struct keeper *k = &slot->keeper;
        k->order.image = image;
        k->fence_fd = image && image->needs_user ? fence_get(&s->fence) : -1;
        k->tells = image && prebuilt_note(s, order, image);
        int r = slot_fill(s, slot, order, fds);
        for (int i = 3; i < bwrap_at(order); i++)
                fds[i] = fd_close(fds[i]); /* otherwise the keeper would keep this descriptor open */
        if (r == 0) {
                r = leaf_make(s, k, order);
                if (r < 0)
                        *ret_step = SPAWN_STEP_LIMITS;
        }
        if (r == 0 && order->is_intercepted && !k->broker) {
                *ret_step = SPAWN_STEP_INTERCEPT;
                r = -ENOSYS;
        }
        int leaf_fd = k->leaf_fd;
        if (r == 0)
                r = slot->pid = keeper_start(s, slot);
        fd_close(leaf_fd);
        if (r < 0) {
                leaf_drop(s, k->leaf);
                slot_free(&s->slots, slot);
                return r;
        }
        slot->image = image;
        if (k->is_fork)
                slot_drop_strings(slot);
        start_hand_over(s, slot, fds);
        if (k->leaf)
                cgroup_leaf_prepare(&s->cgroup);
        return 0;
}

static bool has_network_of_its_own(const struct image *i)
{
        return i && image_has_init(i) && !i->has_network;
}

static void start_take(struct spawner_state *s, const struct spawn_order *order, int fds[], size_t fd_count)
{
        /* The kernel leaves out descriptors for which the spawner has no free number. */
        if (fd_count != (size_t)inlet_socket_at(order) + (order->inlets.count > 0)) {
                report_failed(s, order->number, SPAWN_STEP_STDIO, EMFILE);
                return;
        }
        int image_fd = order->has_image ? fds[order->is_in_memfd ? 4 : 3] : -1;
        struct image *image = order->has_image ? image_map(image_fd) : NULL;
        if (order->has_image && !image) {
                report_failed(s, order->number, SPAWN_STEP_FORK, ENOMEM);
                return;
        }
        if (order->inlets.count > 0 && !has_network_of_its_own(image)) {
                image_unmap(image);
                report_failed(s, order->number, SPAWN_STEP_SANDBOX + ENTER_NETWORK, ENOTSUP);
                return;
        }
        enum spawn_step step = SPAWN_STEP_NAMESPACES;
        int r = image ? prebuilt_start(s, order, image, fds, fds[inlet_socket_at(order)]) : -ENOENT;
        if (r == -ENOENT)
                r = slot_start(s, order, image, fds, &step);
        if (r < 0) {
                image_unmap(image);
                report_failed(s, order->number, step, -r);
        }
}

/* ---- carrying out orders ---- */

/* Passes a signal on to the keeper, which answers. When the keeper is dying, the server takes SPAWN_GONE for the answer. */
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

/* Opens the lent descriptors. Returns how many were opened: all of them, or 0. */
static size_t lent_take(const struct spawner_state *s, const struct spawn_order *order,
                        int ret_fds[SPAWN_FDS_MAX])
{
        size_t n = 0, count = MIN(order->lent_count, (uint32_t)SPAWN_FDS_MAX);
        for (; n < count; n++) {
                ret_fds[n] = lend_take(s->setup.server, &order->lent[n]);
                if (ret_fds[n] < 0)
                        break;
        }
        if (n == count)
                return n;
        while (n > 0)
                fd_close(ret_fds[--n]);
        return 0;
}

/* Carries out an order. Returns -EBADMSG for an order that the server does not send. */
static int order_act(struct spawner_state *s, const struct spawn_order *order, int fds[], size_t fd_count)
{
        struct slot *slot = slots_find(&s->slots, order->number);
        switch (order->kind) {
        case SPAWN_START:
                if (slot || order->inlets.count > INLETS_MAX)
                        return -EBADMSG;
                if (order->lent_count > 0 && fd_count == 0)
                        report_kind(s, SPAWN_RETURNED, order->number);
                else
                        start_take(s, order, fds, fd_count);
                return 0;
        case SPAWN_SIGNAL:
                return order_signal(slot, order);
        case SPAWN_FS_HELPER:
                fs_helpers_start(s, order, fds, fd_count);
                return 0;
        case SPAWN_KILL:
                if (slot)
                        slot_kill(s, slot);
                return 0;
        default:
                return -EBADMSG;
        }
}

void order_take(struct spawner_state *s)
{
        if (!s->next)
                s->next = slots_buffer(&s->slots);
        if (!s->next) { /* out of memory: the order stays in the socket */
                (void)poll(NULL, 0, RETRY_LAST_MS);
                return;
        }

        struct spawn_order order;
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(SPAWN_FDS_MAX * sizeof(int))];
        struct iovec parts[] = { { &order, sizeof(order) },
                                 { s->next->strings.bytes, sizeof(s->next->strings.bytes) } };
        struct msghdr m = {
                .msg_iov = parts,
                .msg_iovlen = ARRAY_LEN(parts),
                .msg_control = control,
                .msg_controllen = sizeof(control),
        };
        ssize_t n = recvmsg(s->setup.socket, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n < 0 && (errno == ENOMEM || errno == ENOBUFS)) { /* the order is still in the socket */
                (void)poll(NULL, 0, RETRY_FIRST_MS);
                return;
        }
        if (n < (ssize_t)sizeof(order)) {
                close_down(s);
                return;
        }

        int fds[SPAWN_FDS_MAX];
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                fds[i] = -1;
        size_t fd_count = fds_take(&m, fds);
        if (order.lent_count > 0)
                fd_count = lent_take(s, &order, fds);
        size_t strings = order.kind == SPAWN_START && !order.is_in_memfd ? order.command.bytes : 0;
        if ((size_t)n != sizeof(order) + strings || order_act(s, &order, fds, fd_count) < 0)
                close_down(s);
        for (size_t i = 0; i < fd_count; i++)
                fd_close(fds[i]);
}
