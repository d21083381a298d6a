/* shell_snapshot: what the profile files of a login shell have set up, captured once for a scope and restored by later starts
 * (docs/PROTOCOL.md).
 *
 * The first start of a scope waits for a capture: a login shell with the same sandbox, cwd and environment policy prints its
 * functions, aliases, options and variables. Later starts that ask for the same snapshot restore these instead of running the
 * profile files again. When a capture fails or takes too long, starts run the profile files as usual.
 *
 * A session keeps a few snapshots, in memory only. Only variables that the profile files changed are kept, and variables that the
 * policy excludes are not restored, so that nothing of one request gets into another. Commands get the snapshot in their
 * environment, which other users cannot read.
 */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "base/slice.h"

struct capture_events;
struct process_start;
struct session;

enum shell_snapshot_state {
        SHELL_SNAPSHOT_NEW,       /* no capture has begun */
        SHELL_SNAPSHOT_CAPTURING, /* a task is capturing, or its sandbox is being planned */
        SHELL_SNAPSHOT_READY,
        SHELL_SNAPSHOT_FAILED,
};

struct shell_snapshot;

/* Returns whether a start can use a snapshot: only a login bash that runs a script can. */
NODISCARD bool shell_snapshot_applies(const struct process_start *in);

/* Returns the snapshot for this start, and makes it first if it is missing; NULL when there is no room for it. A snapshot is
 * freed with its session, or to make room for another one, but not while it is being captured. */
NODISCARD struct shell_snapshot *shell_snapshot_find(struct session *session, const struct process_start *in);
NODISCARD enum shell_snapshot_state shell_snapshot_state(const struct shell_snapshot *s);

/* Begins a capture. *ret gets the process to start: `in` with another script. `base` is the environment of that process. Sets
 * *planner to `s`, and to NULL once a task captures or the capture has ended. A planner that gives up while *planner is set must
 * call shell_snapshot_settle. */
void shell_snapshot_begin(struct shell_snapshot *s, struct arena *a, const struct process_start *in,
                          const char *const *base, struct shell_snapshot **planner,
                          struct process_start *ret);
/* Ends a capture with this state. SHELL_SNAPSHOT_NEW: nothing was captured, and the next start that needs the snapshot captures
 * it. */
void shell_snapshot_settle(struct shell_snapshot *s, enum shell_snapshot_state state);
/* Changes a start so that it restores the snapshot. Returns false when the snapshot is too large for this start: then the start
 * is unchanged. */
NODISCARD bool shell_snapshot_apply(struct shell_snapshot *s, struct arena *a, struct process_start *in);

/* Events for task_capture, with the snapshot as argument. When changes on the disk overtake the sandbox plan of a capture, the
 * capture is tried again, up to LIMIT_START_AGAIN times. */
extern const struct capture_events shell_snapshot_events;

void shell_snapshots_release(struct session *session);
