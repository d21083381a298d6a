/* masks: tells the keeper of a command at once when a mask of the command is detached.
 *
 * A mask is a mount. When somebody outside removes or replaces the file that it lies on, the kernel detaches it, and the
 * command sees the file below: first the old one, and after rename(2) the new one. In between the kernel waits for other
 * processors, which takes from microseconds to tens of milliseconds; only then does inotify (confine/guard.h) report it. A process
 * that polls the mount table of the sandbox is woken before that wait.
 *
 * Not every change of the table concerns a mask: it also holds copies of mounts of the machine. So the list of remaining
 * mounts is read. Moving a directory above a mask changes no table; the guard handles that.
 *
 * Only raw system calls are made, because keepers call this code.
 */
#pragma once

#include "sandbox/image.h"

struct masks {
        int table; /* the table of mounts, to be polled for POLLPRI; -1: nothing is watched */
        /* the number of lines of the table with the mount point of a mask: the most that were seen */
        uint32_t lines;
};

#define MASKS_NONE ((struct masks){ .table = -1 })

/* Does the image have masks to watch? */
NODISCARD bool masks_exist(const struct image *i);
/* Starts watching; `pid` is in the sandbox, which has been built. Watches nothing when there are no masks or the table
 * cannot be opened (a /proc that hides processes). A mask that was detached before this call wakes no poll, so call
 * masks_are_there once. */
void masks_watch(struct masks *m, const struct image *i, pid_t pid);
void masks_close(struct masks *m);

/* Is every mask still mounted? True when nothing is watched. */
NODISCARD bool masks_are_there(struct masks *m, const struct image *i);
