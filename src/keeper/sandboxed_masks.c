/* sandboxed_masks: the keeper watches the masks of its command's sandbox, and kills the command when a mask is gone (sandboxed.h).
 * Raw system calls only.
 *
 * The watch lasts from just before the command's execve until no process is in the sandbox any more. During that time the keeper
 * has the highest priority that the system grants (base/urgent.h): it sleeps, and is woken by signals of the spawner and of its own
 * children, and by mounts, none of which the command can cause at will.
 */
#include "keeper/sandboxed_internal.h"

#include "base/sys.h"

#include <errno.h>
#include <poll.h>

/* Higher than the keeper's, because the keeper waits for the death of the init. */
#define INIT_PRIORITY (URGENT_PRIORITY + 1)

void sandboxed_masks_hurry(struct sandboxed *b, const struct image *image)
{
        if (b->urgent != URGENT_NOT || !masks_exist(image))
                return;
        b->urgent = urgent_begin(0, URGENT_REAL_TIME, &b->before);
        /* Where the scheduler divides processor time between sessions, the keeper gets a session of its own: that of the server may
         * be busy. */
        if (b->urgent != URGENT_REAL_TIME)
                (void)sys_call0(SYS_setsid);
}

void sandboxed_masks_end(struct sandboxed *b)
{
        masks_close(&b->masks);
        if (b->signals >= 0)
                sys_close(b->signals);
        b->signals = -1;
        urgent_end(b->urgent, &b->before);
        b->urgent = URGENT_NOT;
}

/* Kills the command's process group and the init with two calls. Processes outside of that group die when the init does, so the
 * init gets a higher priority; or when the caller kills them. */
void sandboxed_masks_strike(struct sandboxed *b, pid_t init, pid_t command)
{
        if (command > 0)
                (void)sys_kill(-command, SIGKILL);
        if (b->urgent == URGENT_REAL_TIME)
                (void)urgent_real_time(init, INIT_PRIORITY);
        (void)sys_kill(init, SIGKILL);
}

bool sandboxed_masks_are_there(struct sandboxed *b, struct image *image)
{
        if (masks_are_there(&b->masks, image))
                return true;
        __atomic_store_n(&image->is_broken, 1, __ATOMIC_SEQ_CST);
        return false;
}

bool sandboxed_masks_begin(struct sandboxed *b, struct image *image, pid_t command)
{
        sandboxed_masks_hurry(b, image);
        masks_watch(&b->masks, image, command);
        /* The guard may have set is_broken before the image had the keeper's pid (confine/guard.h); then the guard could not
         * kill. */
        return !__atomic_load_n(&image->is_broken, __ATOMIC_SEQ_CST) && sandboxed_masks_are_there(b, image);
}

int sandboxed_masks_wait(struct sandboxed *b, struct image *image, uint64_t set)
{
        static const struct timespec now = { 0 };
        struct timespec look = { .tv_nsec = SANDBOXED_LOOK_MS * 1000000L }; /* ppoll writes to it */
        struct timespec *limit = b->must_look ? &look : NULL;
        if (b->signals < 0)
                b->signals = (int)sys_call4(SYS_signalfd4, -1, &set, sizeof(set), O_CLOEXEC);
        while (b->signals >= 0) {
                struct pollfd fds[] = { { .fd = b->signals, .events = POLLIN },
                                        { .fd = b->masks.table, .events = POLLPRI } };
                long n = sys6(SYS_ppoll, SYS_ARG(fds), ARRAY_LEN(fds), SYS_ARG(limit), 0, 0, 0);
                if (n == 0)
                        return -EAGAIN;
                if (n < 0 && n != -EINTR)
                        break;
                if (n > 0 && fds[1].revents && !sandboxed_masks_are_there(b, image))
                        return 0;
                if (n > 0 && fds[0].revents)
                        return sys_sigtimedwait(set, &now);
        }
        return sys_sigtimedwait(set, limit);
}
