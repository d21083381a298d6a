/* guard: notices when somebody outside takes away what a sandbox's masks lie on.
 *
 * A mount lies on a directory entry. When the machine renames or removes that entry, or one above it, the kernel detaches
 * the mount, and what is put in its place is open to the command. So every directory on the way to a mask is watched
 * (one inotify instance for all sandboxes), and whoever holds the sandbox is told: the command has to be ended.
 *
 * Holding and letting go from any thread; guard_read on one.
 */
#pragma once

#include "base/err.h"
#include "sandbox/plan.h"

struct guard;
struct guard_hold;

/* Names on the way to masks, of all sandboxes together. */
#define GUARD_NAMES_MAX 1048576

NODISCARD int guard_new(struct guard **ret, struct err *err);
struct guard *guard_free(struct guard *g); /* holds must have been let go; NULL is fine */
int guard_fd(const struct guard *g);       /* readable: call guard_read */

/* Before the sandbox is built: what changes between plan and building is found there, what changes later here. NULL when
 * there is nothing to guard; -errno with err (step "guard"). */
NODISCARD int guard_hold(struct guard *g, const struct plan *plan, struct guard_hold **ret, struct err *err);
struct guard_hold *guard_let_go(struct guard *g, struct guard_hold *h); /* NULL is fine; returns NULL */

/* Who is told. From the thread of guard_read. */
void guard_set_owner(struct guard *g, struct guard_hold *h, void *owner);

/* Does every mask still lie on what it was put on? Of a sandbox that has been built; looks at paths of the machine.
 * `must_be_sure`: no, where the file system does not tell when something was made. */
struct image;
NODISCARD bool guard_is_intact(const struct image *i, bool must_be_sure);

/* What has happened to a hold; of several the last of these. */
enum guard_event {
        GUARD_LOST,   /* nobody knows: there were too many events. guard_is_intact tells */
        GUARD_STUB,   /* a stub came or went; keepers make and remove those, too */
        GUARD_BROKEN, /* a mask is gone */
};

/* Works off what has happened: `told` is called for every hold that is concerned, with its owner, or not at all for one
 * without. May be called from inside. */
void guard_read(struct guard *g, void (*told)(void *owner, enum guard_event event));
