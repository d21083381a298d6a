/* keeper: the process that starts one command, waits for it, and owns everything that descends from it.
 *
 * A keeper usually shares its memory with the spawner (CLONE_VM), runs on a small stack of its own and makes raw
 * system calls only. Where that cannot be (sanitizers, valgrind, a kernel that refuses) it is a fork; the struct below
 * lies in shared memory in both cases, so that the two can talk through it.
 *
 * All signals are blocked in it. Once its command runs it sleeps in one place, sigtimedwait on those that wake it, so nothing
 * is missed.
 */
#pragma once

#include "base/compat.h"
#include "proc/spawn_msg.h"
#include "proc/tree.h"

#include <stdatomic.h>
#include <sys/resource.h>

#define KEEPER_WALK_MAX 16384 /* processes that one walk over the tree reaches */

/* How the spawner wakes a keeper. SIGTERM is the kernel's too, when the spawner dies. */
#define KEEPER_LOOK SIGUSR1  /* look into `signals` */
#define KEEPER_KILL SIGTERM  /* end the tree */
#define KEEPER_HEAR SIGIO    /* the init of a sandbox has something to say: the kernel's */
#define SPAWNER_LOOK SIGUSR1 /* the other way: see keeper::tells */

struct image;

/* What to start. Memory of the spawner's, which nobody else touches until `is_over`. */
struct keeper_order {
        char *const *argv;
        char *const *env;
        char *const *candidates;
        const char *cwd;
        int stdio[3]; /* all above 2 */
        bool is_tty;
        bool set_nofile;
        struct rlimit nofile;
        struct spawn_limits limits;
        bool needs_leaf;     /* without it there is no start */
        struct image *image; /* the sandbox, or NULL; stays until the keeper has gone */
};

/* A spare waits for its order. The spawner gives it, or the keeper gives up: whoever is first. */
enum keeper_waits { KEEPER_ORDERED, KEEPER_WAITS, KEEPER_GAVE_UP };

struct keeper {
        /* Written by the spawner before the keeper exists, or in the case of a spare before it is KEEPER_ORDERED. */
        uint32_t number;
        pid_t spawner;
        int socket;
        bool is_fork;
        void *child_stack; /* top */
        struct keeper_order order;
        struct tree_entry *walk_room; /* KEEPER_WALK_MAX */
        int leaf_fd;                  /* the command's cgroup, or -1; the keeper's own copy of it */
        uint64_t leaf;                /* its name, or 0 */
        const struct cgroup *cgroup;  /* that the leaf is in: the spawner's */
        int init_ends[2];             /* of a spare (spare.h): between keeper and init; else -1 */
        int net_fd;                   /* of a spare, too: a network that is there already (nets.h), or -1 */
        bool tells;                   /* the spawner, with SPAWNER_LOOK, that its start is over */
        /* Where the order's strings are; for either, NULL = not there. The keeper gives the pages of `strings` back
         * and clears *strings_owner when the start is over; a forked keeper has copies and does nothing. What a
         * keeper that is killed did not do, the spawner does. */
        void *strings;
        size_t strings_bytes;
        _Atomic(void *) *strings_owner;

        _Atomic uint32_t waits; /* enum keeper_waits */

        /* Written by the spawner at any time. A ring: `signals_in` is the spawner's, `signals_out` the keeper's. */
        atomic_bool kill_wanted;
        atomic_bool is_handed_over; /* the spawner has closed its copies of the command's descriptors */
        _Atomic uint32_t signals_in, signals_out;
        struct {
                int32_t signo;
                uint32_t scope;
        } signals[SPAWN_SIGNALS_MAX];

        /* Written by the keeper. `is_over`: execve has succeeded or failed, the order is no longer read; until then
         * `root`, once it is set, is a process that nobody has reaped. */
        _Atomic pid_t root;
        atomic_bool is_over;

        /* Written by the child before it exits. */
        uint32_t failed_step;
        int32_t failed_errno;
        uint32_t failed_op; /* of the sandbox's plan */
};

/* Runs in the new process and ends it. All signals must be blocked and at their default disposition. */
NORETURN void keeper_run(void *keeper);
