/* spawner_internal: what the parts of the spawner share.
 *
 *     spawner.c          the loop: orders, reaping, the end
 *     spawner_start.c    a start order becomes a keeper
 *     spare.c            a keeper and its sandbox made ahead
 *     nets.c             network namespaces
 *     spawner_filers.c   processes that are no keepers
 */
#pragma once

#include "base/list.h"
#include "proc/cgroup.h"
#include "proc/nets.h"
#include "proc/slot.h"
#include "proc/spare.h"
#include "proc/spawner.h"

#define RETRY_FIRST_MS 1 /* between two looks at something that does not want to die */
#define RETRY_LAST_MS 100

struct state {
        struct spawner_setup setup;
        struct list filers;
        struct rlimit nofile_now;
        int signals; /* signalfd: SIGCHLD; SPAWNER_LOOK; SIGTERM when the server dies */
        bool is_forking;
        bool is_closing;
        bool is_sweeping;   /* there may be children that are not keepers */
        bool is_cancelling; /* a killed keeper may hang in execve */
        bool is_tidying;    /* a cgroup could not be removed yet */
        int retry_ms;
        uint64_t closing_since_ms;
        uint64_t last_end_ms; /* of a child, once the server has gone */
        struct slots slots;
        struct request *next; /* the one to receive into */
        bool has_looked;      /* whether there are cgroups */
        struct cgroup cgroup;
        struct spare spare;
        struct nets nets;
};

/* ---- spawner_start.c ---- */

void report_gone(const struct state *s, uint32_t number);
void start_take(struct state *s, const struct spawn_order *order, int fds[], size_t fd_count);

/* A clean slot with what is the same for all, or NULL. */
NODISCARD struct slot *start_slot(struct state *s);
/* Before the keeper exists, or when nobody is left in it. */
void leaf_drop(struct state *s, uint64_t leaf);
/* The pid, or -errno. */
NODISCARD pid_t keeper_start(struct state *s, struct slot *slot);
/* The spawner holds the command's descriptors no longer. */
void start_handed_over(struct state *s, struct slot *slot, int fds[static 3]);

/* ---- spawner_filers.c ---- */

void filers_start(struct state *s, const int fds[], size_t fd_count);
NODISCARD bool filers_have(const struct state *s, pid_t pid);
/* It was reaped: whether it was one. */
bool filers_forget(struct state *s, pid_t pid);
void filers_kill(const struct state *s);
