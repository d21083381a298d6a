/* confine: makes the sandbox of a command from its profile, and guards it while the command runs.
 *
 * The server uses it with a loop and a pool; `farhand sandbox` uses it for one command, without them.
 *
 * A process outside of the sandbox may remove or replace what a mask lies on (confine/guard.h). Then the command could see
 * more than its profile allows, and has to be ended: `on_broken` is called.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "confine/guard.h"
#include "confine/placeholder_book.h"
#include "confine/prepare.h"
#include "loop/loop.h"
#include "loop/pool.h"
#include "policy/rules.h"
#include "sandbox/image.h"

struct confine {
        struct preparer preparer;
        /* NULL when the system gives no inotify instance; without a loop also when the command needs no guard. */
        struct guard *guard;
        struct watch *watch; /* the loop's watch on the descriptor of the guard */
        struct placeholder_book book;
        struct journal *journal; /* NULL: none can be kept. Without a loop it is opened when it is needed. */
        struct timer *retry_timer; /* submits `retry` to the pool */
        struct work retry;         /* tries again to remove placeholders that could not be removed */
        bool is_retrying;          /* retry_timer or `retry` runs */
        struct loop *loop;         /* NULL: the caller polls confine_fd itself */
        struct pool *pool;         /* NULL: there is none, or it has ended */
};

/* The sandbox of one command. */
struct guarded {
        int image_fd;        /* the file of the image, until the start is over; -1: none */
        struct image *image; /* the image, mapped */
        struct guard_hold *hold;
        struct placeholder_entries placeholders;
        bool has_started;
        bool is_suspect; /* a placeholder was made or removed before the start was over */
        bool has_cwd;    /* set by the owner: outside of the sandbox the cwd could be entered */
        /* Set by confine_begin. Called when the sandbox is broken: the owner must end the command. */
        void (*on_broken)(struct guarded *g);
};
#define GUARDED_NONE ((struct guarded){ .image_fd = -1 })

void confine_init(struct confine *c, struct loop *loop, struct pool *pool, enum backend wish);
void confine_release(struct confine *c);

/* Makes a sandbox; returns 0, or -errno with err filled. From any thread; blocks. When files change during the planning, it
 * plans again, up to LIMIT_START_AGAIN times. *ret_plan, in the arena, is the plan that the image was made from. */
NODISCARD int confine_make(struct confine *c, struct arena *a, const struct profile *profile,
                           const struct place *place, struct guarded *ret, struct plan *ret_plan,
                           struct err *err);
/* Ends a sandbox. Called on the loop, or on any thread when the command of the sandbox was never started. */
void confine_unmake(struct confine *c, struct guarded *g);

/* Lets the guard report to `g`. To be called before the command is started. From then on `g` must not move in memory until
 * confine_unmake or confine_let_go. */
void confine_begin(struct confine *c, struct guarded *g, void (*on_broken)(struct guarded *g));
/* To be called when the command has started. Handles the events of the guard from before the start. */
void confine_started(struct confine *c, struct guarded *g);
/* Ends the guard of the sandbox. To be called when no process is left in the sandbox. */
void confine_let_go(struct confine *c, struct guarded *g);
/* After a command was killed or could not start: was its sandbox broken? The keeper or the guard may have killed the command
 * before `on_broken` was called. */
NODISCARD bool guarded_was_broken(const struct guarded *g);

/* For a caller without a loop: confine_fd returns the descriptor to poll (-1: nothing is guarded), and confine_look is to be called
 * when the descriptor is readable. */
int confine_fd(const struct confine *c);
void confine_look(struct confine *c);
