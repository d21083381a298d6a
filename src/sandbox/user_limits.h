/* user_limits: the share of per-user resources of the kernel that sandboxes may use.
 *
 * The kernel counts inotify instances and watches for each user, in every user namespace that the user has made and in all
 * above it. A command that takes all of them would leave none for the server, which guards masks with them, and none for
 * other commands. So each sandbox gets half of the total, in a user namespace of its own, and all sandboxes together three
 * quarters (spawner/fence.h). No sandbox may make user namespaces.
 */
#pragma once

#include "base/compat.h"

#define USER_LIMITS_DIRECTORY "/proc/sys/user"

struct user_limits {
        uint32_t inotify_instances, inotify_watches; /* 0: not known, and not changed */
};

/* Reads the limits of the caller's user namespace. From these limits user_limits_of_one computes the share of one sandbox, and
 * user_limits_of_all that of all sandboxes together. */
NODISCARD struct user_limits user_limits_read(void);
NODISCARD struct user_limits user_limits_of_one(struct user_limits all);
NODISCARD struct user_limits user_limits_of_all(struct user_limits all);

/* Sets the limits of the caller's user namespace; needs a /proc of the machine and the capabilities of a new namespace.
 * `may_have_children`: user namespaces may be made inside. Makes raw system calls only. Returns 0 or the first -errno; where
 * /proc/sys cannot be written, callers go on without limits. */
int user_limits_set(struct user_limits l, bool may_have_children);
/* As user_limits_set, by a descriptor of USER_LIMITS_DIRECTORY, which may have been opened in another user or mount namespace. */
int user_limits_set_at(int directory, struct user_limits l, bool may_have_children);
