/* finish: completes a view that bwrap has built with steps that bwrap cannot do, and lets a process of the server join it.
 *
 * bwrap cannot make a device read-only and still usable, and it sets no limits on what the kernel counts for each user. Both
 * need capabilities in the user namespace that owns the mounts of the view. A process of the user who made that namespace
 * gets them when it joins. bwrap may make a second user namespace below the first, in which ids are mapped one to one again;
 * commands run in the second.
 *
 * The system may forbid joining (an AppArmor rule; a set-uid bwrap, whose namespaces belong to root). The self-test finds
 * out (bwrap_probe.c), and views are then used as bwrap has built them. docs/SECURITY.md lists what is missing in that case.
 *
 * All functions make raw system calls only, as sandbox/enter.h says. Each function returns 0 or -errno.
 */
#pragma once

#include "sandbox/user_limits.h"
#include "sandbox/verify.h"

/* Descriptors of the namespaces of a process that is in the view. */
struct finish {
        int owner, user;      /* user namespaces: the one that owns the mounts, and that of the process */
        int mount, pid, ipc;  /* the other namespaces of the process */
        int settings;         /* the directory /proc/sys/user of the machine */
        bool has_second_user; /* owner and user differ */
};

/* Opens the namespaces of a process in the view. Returns -EPROTO when its user or mount namespace is that of `outside`. */
NODISCARD int finish_open(pid_t pid, const struct verify_spaces *outside, struct finish *ret);
void finish_close(const struct finish *f);

/* Sets the limits in all user namespaces of the view, and makes the devices read-only when the view has its own (`has_view`).
 * For that the caller joins the mount and the user namespace of the view permanently, with all capabilities in the latter.
 * When it `stays`, it also joins the ipc namespace, and its children join the pid namespace. The caller has one thread and
 * shares neither root nor working directory with another process. Limits that cannot be set, as in many containers, are
 * skipped. */
NODISCARD int finish_view(const struct finish *f, struct user_limits limits, bool has_view, bool stays);
