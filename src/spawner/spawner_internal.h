/* spawner_internal: what the parts of the spawner share.
 *
 *     spawner.c             the loop: reaping, the end
 *     spawner_orders.c      the orders of the server; makes the keeper of a command
 *     spawner_prebuilt.c    makes a keeper and its sandbox ahead
 *     spawner_held.c        ends commands that keep the server waiting for the lock of a pipe
 *     spawner_fs_helpers.c  makes fs helpers, which are no keepers
 */
#pragma once

#include "base/list.h"
#include "keeper/cgroup.h"
#include "sandbox/image.h"
#include "spawner/fence.h"
#include "spawner/nets.h"
#include "spawner/slot.h"
#include "spawner/spawner.h"

#define RETRY_FIRST_MS 1 /* wait between two looks at something that has been killed and is still there */
#define RETRY_LAST_MS 100

/* How long the server has been sleeping in calls on pipes that commands keep locked (spawner_held.c, pipe_watch.h). */
struct held {
        bool has_proc;      /* /proc shows our pid namespace */
        bool has_sums;      /* such a sleep was added to others_ms, or to the sum in a slot */
        uint64_t next_ms;   /* when to look again; 0: no command runs */
        uint64_t ended_ms;  /* when the last command was ended; 0: never */
        uint32_t count;     /* pipe_call::count at the last look */
        uint32_t others_ms; /* the sum of sleeps at pipes whose own command has gone or is being killed */
        unsigned rounds;    /* how often other commands were ended because of such a pipe */
};

#define PREBUILT_FILTER_MAX 512 /* instructions; with a longer seccomp filter no sandbox is made ahead */

/* The part of an image that a prebuilt sandbox is made from. It fits every command whose image differs in its operations only. */
struct prebuilt_head {
        struct image image; /* all zero: there was no image */
        struct sock_filter filter[PREBUILT_FILTER_MAX];
};

struct prebuilt_kind {
        struct prebuilt_head head;
        uint64_t session; /* a network is used again within one session only */
};

struct prebuilt {
        struct slot *slot; /* the slot of the keeper, in no table; NULL: there is no prebuilt sandbox */
        struct prebuilt_kind kind; /* of the sandbox in `slot` */
        struct prebuilt_kind next; /* what is prebuilt next: the kind of the last command */
        int socket;                /* the socket to the init */
        int keeper_socket; /* the socket to the keeper, for descriptors that it needs itself; -1: none */
        int mounts;        /* a descriptor that reports changes of the machine's mounts; -1: not open yet */
        bool is_due; /* a sandbox is to be made PREBUILT_AFTER_MS after used_ms, unless one exists by then */
        bool is_wanted;   /* a sandbox is to be made as soon as possible */
        bool is_dropped;  /* the keeper was told to end */
        uint64_t used_ms; /* when the last command was started that can use a prebuilt sandbox */
};

struct spawner_state {
        struct spawner_setup setup;
        struct list fs_helpers;
        struct rlimit nofile_now;       /* the limit of the spawner and of all its copies */
        struct rlimit nofile_sandboxed; /* the limit of commands in a sandbox */
        int signals;                    /* a signalfd: SIGCHLD; SPAWNER_LOOK; SIGTERM when the server dies */
        bool is_forking;
        bool is_closing;
        bool is_sweeping;   /* there may be children that are no keepers */
        bool is_cancelling; /* a keeper that was told to end may hang in execve */
        bool is_tidying;    /* a cgroup could not be removed yet */
        int retry_ms;
        uint64_t closing_since_ms;
        uint64_t last_end_ms; /* when the last child ended, once the server has gone */
        struct slots slots;
        struct order_buffer *next; /* the buffer for the next order */
        bool has_tried_cgroups;    /* the spawner knows whether cgroups can be made */
        struct cgroup cgroup;
        struct prebuilt prebuilt;
        struct nets nets;
        struct fence fence;
        struct held held;
        struct tree_entry *walk_room; /* for a walk over the processes below a keeper */
};

/* ---- spawner.c ---- */

/* Ends a command's tree. */
void slot_kill(struct spawner_state *s, struct slot *slot);
/* Ends all commands, sandboxes and fs helpers, when the server has gone. */
void close_down(struct spawner_state *s);

/* ---- spawner_held.c ---- */

/* Returns how long the caller may wait until the next held_tick; -1: for ever. */
NODISCARD int held_wait_ms(const struct spawner_state *s);
/* To be called often: checks, when it is time, whether a command keeps the server waiting. Sends nothing. */
void held_tick(struct spawner_state *s);

/* ---- spawner_orders.c ---- */

/* Sends a report that has no more than its kind and its number. */
void report_kind(struct spawner_state *s, enum spawn_report_kind kind, uint32_t number);
/* Takes one order from the socket of the server, if there is one, and carries it out. */
void order_take(struct spawner_state *s);

/* Returns a slot with the settings that all commands share, or, if `is_sandboxed`, all commands in a sandbox. NULL on failure. */
NODISCARD struct slot *slot_for_start(struct spawner_state *s, bool is_sandboxed);
/* Removes a cgroup: before its keeper exists, or when no process is left in it. */
void leaf_drop(struct spawner_state *s, uint64_t leaf);
/* Starts the keeper of a slot. Returns its pid, or -errno. */
NODISCARD pid_t keeper_start(struct spawner_state *s, struct slot *slot);
/* Closes the spawner's copies of the command's descriptors, and enters the slot into the table. */
void start_hand_over(struct spawner_state *s, struct slot *slot, int fds[static 3]);

/* ---- spawner_prebuilt.c ---- */

/* Notes the kind of a command that is started. Returns true when its keeper is to report the exit (keeper::tells), so that a
 * prebuilt sandbox is made then. */
NODISCARD bool prebuilt_note(struct spawner_state *s, const struct spawn_order *order,
                             const struct image *image);
/* Makes a prebuilt sandbox: a command has exited, or the sandbox is due. A failure is not reported: the next start makes its
 * own sandbox, and reports. */
void prebuilt_make(struct spawner_state *s);
/* Starts the command in the prebuilt sandbox. Returns 0, and the slot owns the image from then on; -ENOENT when there is no sandbox
 * that fits; or another -errno, and the command may have run. */
NODISCARD int prebuilt_start(struct spawner_state *s, const struct spawn_order *order, struct image *image,
                             int fds[], int inlet_socket);
/* Ends the prebuilt sandbox, if there is one. */
void prebuilt_drop(struct spawner_state *s);
/* Returns the time until a prebuilt sandbox is due, or until it or a free network (nets.h) has been kept long enough; -1: none
 * of these. */
NODISCARD int prebuilt_wait_ms(const struct spawner_state *s);
/* To be called when the time of prebuilt_wait_ms is over: makes the sandbox, or ends it and the free networks. */
void prebuilt_tick(struct spawner_state *s);
/* Takes back the network of a command that has gone, for the next command. */
void prebuilt_recover(struct spawner_state *s, struct net *net);
/* Returns whether `pid` is the keeper of the prebuilt sandbox. */
NODISCARD bool prebuilt_has_keeper(const struct prebuilt *p, pid_t pid);
/* To be called when the keeper of the prebuilt sandbox was reaped. `is_well`: it has ended by itself, and left no process. */
void prebuilt_reaped(struct spawner_state *s, bool is_well);

/* ---- spawner_fs_helpers.c ---- */

void fs_helpers_start(struct spawner_state *s, const struct spawn_order *order, const int fds[],
                      size_t fd_count);
NODISCARD bool fs_helpers_have(const struct spawner_state *s, pid_t pid);
/* Forgets a child that was reaped. Returns true when the child was an fs helper. */
bool fs_helpers_forget(struct spawner_state *s, pid_t pid);
void fs_helpers_kill(const struct spawner_state *s);
