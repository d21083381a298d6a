/* guard: kills a command when a process outside of its sandbox moves or removes a path that one of its masks lies on.
 *
 * A mount lies on a directory entry. When a process outside of the sandbox renames or removes that entry, or one above it, the
 * mount is detached or moves along, and a new file in its place is visible to the command. So every directory on the way to a
 * mask is watched (with one inotify instance for all sandboxes). A thread of the guard kills the command; then the owner of
 * the sandbox is notified.
 *
 * The keeper of the command learns earlier of a mask that was detached (masks.h). Only the guard notices one that was moved.
 *
 * guard_hold and guard_let_go may be called from any thread; guard_read from one thread.
 */
#pragma once

#include "base/err.h"
#include "plan/plan.h"

struct guard;
struct guard_hold; /* what the guard keeps of one sandbox */

/* The most guarded names, of all sandboxes together. */
#define GUARD_NAMES_MAX 1048576

NODISCARD int guard_new(struct guard **ret, struct err *err);
struct guard *guard_free(struct guard *g); /* all holds must have been released; NULL is fine */

/* Starts the thread. Returns 0, or -errno when that fails: then the guard kills only when guard_read is called. */
int guard_start(struct guard *g);
void guard_stop(struct guard *g); /* called by guard_free, too */

/* Returns the descriptor to poll: call guard_read when it is readable. Starting the thread changes it. */
int guard_fd(const struct guard *g);

/* Guards the masks of a plan. Called before the sandbox is built: building notices changes since the plan, and the guard
 * notices later ones. *ret is NULL when there is nothing to guard. Returns 0, or -errno with err filled (step "guard"). `image` is
 * that of the sandbox and tells which processes to kill; it must stay mapped as long as the hold exists. With NULL no process
 * is killed. */
struct image;
NODISCARD int guard_hold(struct guard *g, const struct plan *plan, struct image *image,
                         struct guard_hold **ret, struct err *err);
struct guard_hold *guard_let_go(struct guard *g, struct guard_hold *h); /* NULL is fine; returns NULL */

/* To be called when the sandbox has been built: from then on the placeholders that the sandbox can do without
 * (image_op::may_be_missing) may be removed. A file that is moved to their place is still reported. */
struct image;
void guard_allow_missing(struct guard *g, struct guard_hold *h, const struct image *i);

/* Sets the argument of the callback of guard_read. Called from the thread of guard_read. */
void guard_set_owner(struct guard *g, struct guard_hold *h, void *owner);

/* Does every mask of a finished sandbox still lie on the file that it was mounted on? Examines paths of the machine.
 * With `must_be_sure` it returns false also when the file system does not tell birth times. */
NODISCARD bool guard_is_intact(const struct image *i, bool must_be_sure);

/* The events of a hold. When a hold has several events, the last in this order is reported. */
enum guard_event {
        GUARD_LOST,        /* events were lost: ask guard_is_intact whether a mask is gone */
        GUARD_PLACEHOLDER, /* a placeholder was made or removed; keepers do that as well */
        GUARD_BROKEN,      /* a mask is gone */
};

/* Handles the pending events and calls `told` with the owner of every hold that has an event; holds without an owner are
 * skipped. `told` may call functions of the guard. */
void guard_read(struct guard *g, void (*told)(void *owner, enum guard_event event));
