/* sandboxed: a command in a sandbox, seen from its keeper.
 *
 *     keeper ── init ── command        init: process 1 of the pid namespace of the sandbox
 *
 * The init is a copy of the keeper in new namespaces. It builds the view (sandbox/enter.h), starts the command, reports its
 * exit to the keeper over a socketpair, and reaps until no process is left. When the init is killed, the kernel kills every
 * process in the pid namespace: so one signal ends the tree. With Landlock alone there is no init.
 *
 *     keeper ── bwrap ── init ── command        where bwrap makes the namespaces (sandbox/bwrap.h)
 *
 * There the init is a program of its own, farhand-init. Once the view is built, it does the same as the other init.
 *
 * The keeper and the init make raw system calls only.
 */
#pragma once

#include "base/urgent.h"
#include "keeper/keeper_shared.h"
#include "sandbox/masks.h"

#include <sys/resource.h>

struct sandboxed {
        pid_t init;     /* a child of the keeper: the init, or the bwrap above it. 0: none, or reaped */
        pid_t inner;    /* the init below bwrap, which is no child of the keeper while bwrap lives; or 0 */
        int socket;     /* the socket to the init; -1: none */
        int listener;   /* of an intercepted command, once it has started; -1: none */
        bool must_look; /* the kernel sends no signal for messages of the init: look every SANDBOXED_LOOK_MS */
        bool is_due;    /* the init waits for sandboxed_confirm_exit */
        bool has_exit;  /* the command's exit is known; `status` and `usage` are as wait4 would give them */
        int status;
        struct rusage usage;
        /* The members below are for sandboxed_masks.c. */
        struct masks masks;
        int signals; /* a signalfd that is polled beside the masks; -1: none */
        enum urgent urgent;
        struct urgent_before before;
};

#define SANDBOXED_LOOK_MS 20

#define SANDBOXED_INIT \
        ((struct sandboxed){ .socket = -1, .listener = -1, .masks = MASKS_NONE, .signals = -1 })

/* Makes the placeholders and the processes; sleeps until execve is over. Returns the command's pid as the keeper sees it, or
 * -errno or 0 with failed_step set. */
NODISCARD pid_t sandboxed_start(struct keeper *k, struct sandboxed *ret);
/* To be called when `init` was reaped, with its status. Returns true when the sandbox is gone, or false when there is another
 * `init` to wait for. */
NODISCARD bool sandboxed_is_gone(struct sandboxed *b, int status);
/* Once the command has exited and was reaped: whether other processes of its tree are alive. */
enum sandboxed_news { SANDBOXED_NO_NEWS, SANDBOXED_NOBODY_LEFT, SANDBOXED_OTHERS_LEFT };

/* Reads the messages of the init. Never sleeps. The kernel sends KEEPER_HEAR when a message comes. */
NODISCARD enum sandboxed_news sandboxed_hear(struct sandboxed *b);
/* Tells the init that the keeper knows of the command's exit. From then on the command's pid may be used again, and the init may
 * end when no process is left. */
void sandboxed_confirm_exit(struct sandboxed *b);

/* Waits for a signal of `set`, while the command runs and b->masks.table is open. Returns the number of the signal; or 0 when a
 * mask is gone, and then sets image::is_broken. */
NODISCARD int sandboxed_masks_wait(struct sandboxed *b, struct image *image, uint64_t set);
/* Returns whether all masks that are watched are still there; if not, sets image::is_broken. */
NODISCARD bool sandboxed_masks_are_there(struct sandboxed *b, struct image *image);
/* Kills the processes that must die first when a mask is gone. */
void sandboxed_masks_strike(struct sandboxed *b, pid_t init, pid_t command);
/* Stops watching the masks. May be called at any time. */
void sandboxed_masks_end(struct sandboxed *b);
