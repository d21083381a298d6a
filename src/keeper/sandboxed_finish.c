/* sandboxed_finish: the keeper has a process join and finish the view that bwrap has built, before a command is in it
 * (sandbox/finish.h). Raw system calls only. */
#include "keeper/sandboxed_internal.h"

#include "base/sys.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
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

/* The namespaces are found by the pid of farhand-init. As long as farhand-init lives, no other process has that pid, and its end of
 * the socket is open: so the socket is checked after the namespaces have been opened. */
int sandboxed_finish_open(int socket, pid_t init, const struct verify_spaces *outside, struct finish *ret)
{
        struct pollfd end = { .fd = socket, .events = POLLIN };
        const struct timespec now = { 0 };
        int r = finish_open(init, outside, ret);
        if (r < 0)
                return r;
        long ready;
        do
                ready = sys6(SYS_ppoll, SYS_ARG(&end), 1, SYS_ARG(&now), 0, 0, 0);
        while (ready == -EINTR);
        if (ready == 0)
                return 0;
        finish_close(ret);
        return ready < 0 ? (int)ready : -ESRCH;
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
