/* spawner_start: see spawner_internal.h. */
#include "proc/spawner_internal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sandbox/image.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

/* ---- reports ---- */

/* May sleep while the server is stopped; when the server dies it gets EPIPE. */
static void report(const struct state *s, const struct spawn_report *what)
{
        while (send(s->setup.socket, what, sizeof(*what), MSG_NOSIGNAL) < 0) {
                if (errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
                        return;
                (void)poll(NULL, 0, RETRY_FIRST_MS);
        }
}

void report_gone(const struct state *s, uint32_t number)
{
        report(s, &(struct spawn_report){ .kind = SPAWN_GONE, .number = number });
}

static void report_failed(const struct state *s, uint32_t number, enum spawn_step step, int os_errno)
{
        report(s, &(struct spawn_report){
                          .kind = SPAWN_FAILED, .number = number, .step = step, .os_errno = os_errno });
        report_gone(s, number);
}

/* ---- cgroups ---- */

/* The end of our own init takes everybody in the sandbox along, as surely as a cgroup would. */
static bool has_certain_end(const struct image *i)
{
        return i && i->backend == BACKEND_NAMESPACES && image_has_init(i);
}

/* Who only asks does without when there is none to be had; then we look once, not each time. */
static int leaf_make(struct state *s, struct keeper *k, const struct spawn_order *order)
{
        k->order.needs_leaf = order->tree.memory_bytes > 0 || order->tree.processes > 0;
        if (!k->order.needs_leaf && (!order->wants_cgroup || has_certain_end(k->order.image)))
                return 0;

        int r = s->cgroup.home < 0 ? -ENOTSUP : 0;
        if (r < 0 && (!s->has_looked || k->order.needs_leaf))
                r = cgroup_open(&s->cgroup);
        s->has_looked = true;
        if (r == 0)
                r = cgroup_leaf_add(&s->cgroup, &order->tree, &k->leaf, &k->leaf_fd);
        k->cgroup = &s->cgroup;
        return k->order.needs_leaf ? r : 0;
}

void leaf_drop(struct state *s, uint64_t leaf)
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

pid_t keeper_start(struct state *s, struct slot *slot)
{
        struct keeper *k = &slot->keeper;
        if (!s->is_forking) {
                long pid = sys_clone_onto(CLONE_VM | SIGCHLD, slot, NULL, NULL, keeper_run, k);
                if (pid != -EPERM && pid != -EINVAL && pid != -ENOSYS)
                        return (pid_t)pid;
                s->is_forking = true;
        }
        k->is_fork = true;
        /* Not fork(): what libraries have it do in the child (libuv makes itself new pipes) would take the numbers of the
         * command's descriptors. */
        long pid = sys_fork();
        if (pid == 0)
                keeper_run(k);
        return (pid_t)pid;
}

struct slot *start_slot(struct state *s)
{
        struct slot *slot = slot_new(&s->slots);
        if (!slot)
                return NULL;
        struct keeper *k = &slot->keeper;
        k->spawner = sys_getpid();
        k->socket = s->setup.socket;
        k->order.nofile = s->setup.nofile;
        k->order.set_nofile = s->nofile_now.rlim_cur != s->setup.nofile.rlim_cur ||
                              s->nofile_now.rlim_max != s->setup.nofile.rlim_max;
        return slot;
}

void start_handed_over(struct state *s, struct slot *slot, int fds[static 3])
{
        slot_enter(&s->slots, slot);
        for (int i = 0; i < 3; i++)
                fds[i] = fd_close(fds[i]);
        atomic_store_explicit(&slot->keeper.is_handed_over, true, memory_order_release);
}

/* ---- starting ---- */

static int slot_fill(struct state *s, struct slot *slot, const struct spawn_order *order, const int fds[])
{
        struct keeper *k = &slot->keeper;
        k->number = order->number;
        k->order.is_tty = order->is_tty;
        k->order.limits = order->limits;
        for (int i = 0; i < 3; i++)
                k->order.stdio[i] = fds[i];
        if (order->in_memfd)
                return slot_take_memfd(slot, order, fds[3]);
        return slot_take_request(slot, order, TAKE(s->next));
}

/* 0 or -errno; then the slot has been given back, the image is still the caller's, and *ret_step says where it failed. */
static int slot_start(struct state *s, const struct spawn_order *order, struct image *image, int fds[],
                      enum spawn_step *ret_step)
{
        *ret_step = SPAWN_STEP_FORK;
        struct slot *slot = start_slot(s);
        if (!slot)
                return -ENOMEM;
        struct keeper *k = &slot->keeper;
        k->order.image = image;
        k->tells = image && spare_note(s, order, image);
        int r = slot_fill(s, slot, order, fds);
        for (int i = 3; i < SPAWN_FDS_MAX; i++)
                fds[i] = fd_close(fds[i]); /* or the keeper would hold it */
        if (r == 0) {
                r = leaf_make(s, k, order);
                if (r < 0)
                        *ret_step = SPAWN_STEP_LIMITS;
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
        if (s->is_forking)
                slot_drop_strings(slot);
        start_handed_over(s, slot, fds);
        if (k->leaf)
                cgroup_leaf_prepare(&s->cgroup);
        return 0;
}

void start_take(struct state *s, const struct spawn_order *order, int fds[], size_t fd_count)
{
        /* Descriptors that did not fit into our table are left out by the kernel. */
        if (fd_count != 3u + order->in_memfd + order->has_image) {
                report_failed(s, order->number, SPAWN_STEP_STDIO, EMFILE);
                return;
        }
        int image_fd = order->has_image ? fds[order->in_memfd ? 4 : 3] : -1;
        struct image *image = order->has_image ? image_map(image_fd) : NULL;
        if (order->has_image && !image) {
                report_failed(s, order->number, SPAWN_STEP_FORK, ENOMEM);
                return;
        }
        enum spawn_step step = SPAWN_STEP_NAMESPACES;
        int r = image ? spare_start(s, order, image, fds) : -ENOENT;
        if (r == -ENOENT)
                r = slot_start(s, order, image, fds, &step);
        if (r < 0) {
                image_unmap(image);
                report_failed(s, order->number, step, -r);
        }
}
