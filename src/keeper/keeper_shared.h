/* keeper_shared: the memory through which the spawner, the keeper of one command and the keeper's child talk.
 *
 * A keeper usually shares its memory with the spawner (CLONE_VM), runs on a small stack of its own and makes raw
 * system calls only. Where that is not possible (sanitizers, valgrind, a kernel that refuses) a keeper is a fork; the struct
 * below lies in shared memory in both cases. The keeper of an intercepted command is always a fork: it has a second thread, the
 * broker, which uses libc (intercepted.h).
 */
#pragma once

#include "base/compat.h"
#include "keeper/spawn_msg.h"
#include "keeper/tree.h"

#include <stdatomic.h>
#include <sys/resource.h>

#define KEEPER_WALK_MAX 16384 /* processes that one walk over the tree can reach */

/* The process names of keepers. A process below a keeper may connect to the server only when that keeper has the first name
 * (proc/lineage.h). */
#define KEEPER_PLAIN_NAME "fh-keeper-plain"
#define KEEPER_NAME "fh-keeper" /* the name of a keeper whose command has a sandbox */
#define KEEPER_PREBUILT_NAME "fh-prebuilt"

/* Signals with which keepers and the spawner wake each other. The kernel sends KEEPER_KILL, too, when the spawner dies. */
#define KEEPER_LOOK SIGUSR1  /* there is something in `signals`, or an order for a prebuilt sandbox */
#define KEEPER_KILL SIGTERM  /* end the tree */
#define KEEPER_HEAR SIGIO    /* from the kernel: the init of a sandbox has sent a message */
#define SPAWNER_LOOK SIGUSR1 /* to the spawner: a command has exited (keeper::tells), or an fh-net is ready */

struct image;

/* What to start. The strings are in memory of the spawner that nothing else writes to until `is_over`. */
struct keeper_order {
        char *const *argv;
        char *const *env;
        char *const *candidates;
        const char *cwd;
        int stdio[3];        /* all above 2 */
        int bwrap[2];        /* the programs bwrap and farhand-init, opened; -1: bwrap is not used */
        bool is_intercepted; /* every start of a program below the command is decided by the keeper's broker */
        enum exec_asking asking;
        int config, server; /* for the broker (broker_start.h); -1: not intercepted */
        struct inlets inlets;
        int inlet_socket; /* where the inlets are sent; -1: there are none, or they were sent */
        bool holds;       /* farhand-init starts nothing, but keeps its view for an fs helper (fs_view.c) */
        bool is_tty;
        bool has_nofile;
        struct rlimit nofile;
        struct spawn_limits limits;
        bool needs_leaf;     /* the start fails without a cgroup */
        struct image *image; /* the sandbox, or NULL; mapped until the keeper has gone */
};

/* State of a prebuilt sandbox. Either the spawner gives it an order or the keeper gives up, whichever comes first. */
enum keeper_waits { KEEPER_ORDERED, KEEPER_WAITS, KEEPER_GAVE_UP };

struct keeper {
        /* Written by the spawner before the keeper exists; for a prebuilt sandbox, before it is KEEPER_ORDERED. */
        uint32_t number;
        pid_t spawner;
        int socket;
        bool is_fork;
        void *child_stack; /* the top of the stack for the keeper's child */
        struct keeper_order order;
        struct tree_entry *walk_room; /* for KEEPER_WALK_MAX processes */
        int leaf_fd;                  /* the command's cgroup, or -1; a copy that belongs to the keeper */
        uint64_t leaf;                /* the name of that cgroup, or 0 */
        const struct cgroup *cgroup;  /* the spawner's farhand-PID, which contains that cgroup */
        int init_ends[2];             /* for a prebuilt sandbox: socket pair of keeper and init; else -1 */
        int net_fd; /* for a prebuilt sandbox: a network that exists already (spawner/nets.h), or -1 */
        int order_ends
                [2]; /* for a prebuilt sandbox: socket pair of spawner and keeper, for order.inlet_socket; else -1 */
        int fence_fd; /* the user namespace in which the sandbox is made (spawner/fence.h), or -1 */
        void *(*broker)(void *broker_start); /* the function of the broker's thread; NULL: there is none */
        bool tells;                          /* the keeper sends SPAWNER_LOOK when its command has exited */
        /* Where the order's strings are; `strings` and `strings_owner` may be NULL. The keeper frees the pages of `strings` and
         * clears *strings_owner when the start is over; a forked keeper has copies and does neither. The spawner does both for a
         * keeper that was killed. */
        void *strings;
        size_t strings_bytes;
        _Atomic(void *) *strings_owner;

        _Atomic uint32_t waits; /* enum keeper_waits */

        /* Written by the spawner at any time. `signals` is a ring: the spawner writes `signals_in`, the keeper `signals_out`. */
        atomic_bool is_kill_wanted;
        atomic_bool is_holder;      /* killed because it kept the server waiting for the lock of a pipe */
        atomic_bool is_handed_over; /* the spawner has closed its copies of the command's descriptors */
        _Atomic uint32_t signals_in, signals_out;
        struct {
                int32_t signo;
                uint32_t scope;
        } signals[SPAWN_SIGNALS_MAX];

        /* Written by the broker: how it has decided, counted before a decision takes effect; and how many commands it runs outside of
         * the sandbox. It counts such a command before it makes it, and when it has reaped it sends the keeper KEEPER_LOOK: the
         * keeper does not end before. */
        _Atomic uint64_t run, escalated, denied;
        _Atomic uint32_t broker_children;

        /* Written by the keeper. `is_over`: execve has succeeded or failed, and the order is not read any more. Until then `root`,
         * once it is set, is a process that has not been reaped. */
        _Atomic pid_t root;
        atomic_bool is_over;

        atomic_bool is_in_net; /* the prebuilt sandbox is in the network net_fd */
        uint32_t inlets_made;  /* a futex: not 0 once the inlets were sent */

        /* Written by the child before it exits. */
        uint32_t failed_step;
        int32_t failed_errno;
        uint32_t failed_op; /* the operation of the sandbox's plan that failed */
};

/* Waits until the spawner has closed its copies of the command's descriptors, or until the calling process has another parent
 * than `parent`, because `parent` has died. Called before the command runs: the command could keep a pipe locked
 * (spawner/pipe_watch.h), and the process that closes the last copy of a descriptor would wait for that lock. */
void keeper_await_handover(const struct keeper *k, pid_t parent);
/* Waits until the keeper has sent the inlets. Called by a process of the sandbox before the command runs; when the keeper cannot
 * make them, or dies, the calling process is killed. */
void keeper_await_inlets(const struct keeper *k);

/* The strings of an order that came with its packet, and room for their pointers. */
struct order_strings {
        char bytes[SPAWN_INLINE_MAX];
        char *pointers[SPAWN_INLINE_MAX + 3]; /* a string has at least its NUL; three lists end in NULL */
};

/* Fills the order from the head of a command and its strings, `bytes`, into which the order keeps pointers. `pointers` has room
 * for all strings and three NULLs. Returns 0, or -EBADMSG when the strings are not as the head says. */
NODISCARD int keeper_order_unpack(struct keeper_order *o, const struct command_head *head, char *bytes,
                                  char **pointers);
