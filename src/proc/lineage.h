/* lineage: whether a process descends from a command of this server or of another, and whether that command has a sandbox.
 *
 *     server ── spawner ── keeper ── … ── process
 *
 * Keepers are sub-reapers: whatever a command leaves behind stays below its keeper, whatever namespaces it is in. So the walk
 * goes from the process up to the server, and the name of the keeper decides: only the keeper of a command without a sandbox has
 * the name KEEPER_PLAIN_NAME, which it takes before its command exists. The keeper of a sandboxed command of any other server, or
 * of `farhand sandbox`, is known by its name as well, unless this server itself is below it. Each step up is verified, so that a
 * pid that was used again on the way is noticed.
 */
#pragma once

#include "base/compat.h"

#include <sys/types.h>

#define LINEAGE_OTHERS 8      /* children of the server that are neither spawner nor keeper */
#define LINEAGE_DEPTH_MAX 128 /* ancestors; with more the answer is LINEAGE_UNKNOWN */

enum lineage {
        LINEAGE_OTHER, /* descends from no command of this server, and from no sandboxed command of another */
        LINEAGE_PLAIN, /* descends from a command of this server without a sandbox */
        LINEAGE_SANDBOXED, /* descends from a command with a sandbox, of any server; or is something else below our spawner */
        LINEAGE_UNKNOWN, /* the walk could not find out */
};

struct lineage_roots {
        pid_t server;                 /* the caller */
        pid_t spawner;                /* the server's spawner; 0: there is none */
        pid_t others[LINEAGE_OTHERS]; /* other children of the server, which are no clients; 0: none */
        bool has_orphans; /* a spawner was lost: children of the server may be what commands have left */
};

/* Says what the process `pid` descends from. `proc_dir`: /proc/PID of `pid`, opened by the caller while `pid` was certainly the
 * process in question. */
NODISCARD enum lineage lineage_find(pid_t pid, int proc_dir, const struct lineage_roots *roots);

/* Parses the text of /proc/PID/stat; for the walk, and for tests. Returns 0 or -EBADMSG. */
struct lineage_stat {
        char name[16];
        pid_t parent;
};
NODISCARD int lineage_stat_parse(const char *text, struct lineage_stat *ret);
