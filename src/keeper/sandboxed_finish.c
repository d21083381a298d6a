/* sandboxed_finish: the keeper has a process join and finish the view that bwrap has built, before a command is in it
 * (sandbox/finish.h), and the inlets made there. Raw system calls only. */
#include "keeper/sandboxed_internal.h"

#include "base/sys_proc.h"
#include "keeper/inlets_make.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

/* What the process needs that joins and finishes the view, and how its work ended. */
struct finisher {
        const struct image *image;
        struct verify_spaces outside;
        int socket;  /* the keeper's end of a socket pair with farhand-init */
        pid_t init;  /* the pid of farhand-init */
        long result; /* 0 or -errno; the process sets it in memory that it shares with the keeper */
};

/* bwrap is started inside of the fence, so the user namespace of the fence counts as outside of the sandbox. */
int sandboxed_outside(const struct keeper *k, struct verify_spaces *ret)
{
        struct stat st;
        int r = verify_spaces_get(ret);
        if (r < 0 || k->fence_fd < 0)
                return r;
        r = sys_fstat(k->fence_fd, &st);
        if (r == 0)
                ret->inodes[SPACE_USER] = st.st_ino;
        return r;
}

int sandboxed_check_open(int socket)
{
        struct pollfd end = { .fd = socket, .events = POLLIN };
        const struct timespec now = { 0 };
        long ready;
        do
                ready = sys6(SYS_ppoll, SYS_ARG(&end), 1, SYS_ARG(&now), 0, 0, 0);
        while (ready == -EINTR);
        return ready > 0 ? -ESRCH : (int)ready;
}

/* The namespaces are found by the pid of farhand-init. As long as farhand-init lives, no other process has that pid, and its end of
 * the socket is open: so the socket is checked after the namespaces have been opened. */
int sandboxed_finish_open(int socket, pid_t init, const struct verify_spaces *outside, struct finish *ret)
{
        int r = finish_open(init, outside, ret);
        if (r < 0)
                return r;
        r = sandboxed_check_open(socket);
        if (r < 0)
                finish_close(ret);
        return r;
}

/* Runs in a separate process, because a process cannot leave a user namespace again, and the keeper has work to do outside. */
static NO_ASAN void finisher_run(void *arg)
{
        struct finisher *one = arg;
        struct finish f;
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        one->result = sandboxed_finish_open(one->socket, one->init, &one->outside, &f);
        if (one->result == 0)
                one->result = finish_view(&f, one->image->limits, one->image->has_view, false);
        sys_exit(0);
}

int sandboxed_finish(struct keeper *k, const struct image *image, int socket, pid_t init)
{
        struct finisher one = { .image = image, .socket = socket, .init = init, .result = -ECANCELED };
        long r = sandboxed_outside(k, &one.outside);
        /* The stack is free: bwrap used it until its execve. */
        if (r == 0)
                r = sys_clone_onto(CLONE_VM | SIGCHLD, k->child_stack, NULL, NULL, finisher_run, &one);
        if (r > 0) {
                while (sys_wait4((pid_t)r, NULL, __WALL, NULL) == -EINTR)
                        continue;
                r = one.result;
        }
        if (r < 0)
                sandboxed_fail_at(k, SPAWN_STEP_SANDBOX + ENTER_FINISH, r);
        return (int)r;
}

/* ---- the inlets ---- */

/* Returns a descriptor of the user namespace to which the network belongs: with bwrap, farhand-init may be in another one below it,
 * where it has no capabilities in its own network. -EPROTO: one of the two namespaces is not the sandbox's. */
static int owner_open(int net, const struct verify_spaces *outside)
{
        struct stat st;
        int owner = (int)sys_call2(SYS_ioctl, net, NS_GET_USERNS);
        if (owner < 0)
                return owner;
        bool is_new = sys_fstat(net, &st) == 0 && st.st_ino != outside->inodes[SPACE_NET] &&
                      sys_fstat(owner, &st) == 0 && st.st_ino != outside->inodes[SPACE_USER];
        if (is_new)
                return owner;
        sys_close(owner);
        return -EPROTO;
}

int sandboxed_inlets_below(struct keeper *k, int socket, pid_t init)
{
        struct verify_spaces outside;
        int r = sandboxed_outside(k, &outside);
        int net = r < 0 ? r : sys_proc_open(init, "ns/net");
        if (net < 0)
                return net;
        r = sandboxed_check_open(socket);
        int owner = r < 0 ? r : owner_open(net, &outside);
        r = owner < 0 ? owner : inlets_make(k, owner, net, false);
        if (owner >= 0)
                sys_close(owner);
        sys_close(net);
        return r;
}
