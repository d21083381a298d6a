/* box: a command in a sandbox, seen from its keeper.
 *
 *     keeper ── init ── command        init: process 1 of the sandbox's own process numbers
 *
 * The init is a copy of the keeper in new namespaces. It builds the view (sandbox/enter.h), starts the command, reports its
 * exit to the keeper over a socketpair, and reaps until nobody is left. When it is killed the kernel kills everything in
 * there: so ending the tree is one signal. Where the profile takes only the network away there is no init.
 *
 *     keeper ── bwrap ── init ── command        where bwrap makes the namespaces (sandbox/bwrap.h)
 *
 * There the init is a program of its own, farhand-init, with the same second half.
 *
 * Raw system calls only, on both sides.
 */
#pragma once

#include "base/compat.h"
#include "proc/keeper.h"

#include <sys/resource.h>

struct box {
        pid_t init;    /* 0: none, or reaped. Our child: the init, or the bwrap that has it as its own */
        pid_t inner;   /* the init below bwrap: no child of ours while bwrap lives; or 0 */
        int socket;    /* from the init; -1 */
        bool is_due;   /* the init waits for box_known */
        bool has_exit; /* the command's end is known, as wait4 would have told it */
        int status;
        struct rusage usage;
};

/* Makes the stubs and the processes; sleeps until execve is over. The command's pid as the keeper sees it, or -errno or 0
 * with failed_step set. */
NODISCARD pid_t box_start(struct keeper *k, struct box *ret);
/* `init` was reaped: is the sandbox gone with it? Otherwise there is another `init` to wait for. */
NODISCARD bool box_is_gone(struct box *b, int status);
/* Once the command has exited and is reaped: whether others of its tree live on. */
enum box_news { BOX_NO_NEWS, BOX_NOBODY_LEFT, BOX_OTHERS_LEFT };

/* Never sleeps. KEEPER_HEAR comes when there is something to hear. */
NODISCARD enum box_news box_hear(struct box *b);
/* The command's number may be used again; and the init may end, which takes a while, when nobody is left. */
void box_known(struct box *b);
