/* spawn_limits: which limits of a command can be enforced, and by what (spawn_limits.h). */
#include "keeper/spawn_limits.h"

#include "base/limits.h"

#include <errno.h>

/* Returns whether cgroups can have that controller here. That depends on where the server was started, which does not change. */
static bool has_controller(enum cgroup_controller which)
{
        static int found; /* the controllers, or -errno */
        static bool is_known;
        if (!is_known)
                found = cgroup_probe();
        is_known = true;
        return found >= 0 && ((uint32_t)found & which) != 0;
}

int spawn_limits_check(const struct spawn_limits *l, struct spawn_enforced *ret, struct err *err)
{
        if (l->processes > 0 && !has_controller(CGROUP_PIDS)) {
                err->remedy =
                        "Run the server alone in a directory of a delegated cgroup v2 that has the pids "
                        "controller, as the systemd unit of this project does (`farhand doctor` tells "
                        "how), or leave the limit `processes` out.";
                err->step = "limits";
                return err_set(err, 0, -ENOTSUP, "limit cannot be enforced");
        }
        *ret = (struct spawn_enforced){
                .cpu_seconds = l->cpu_seconds ? "rlimit" : NULL,
                .open_files = l->open_files ? "rlimit" : NULL,
                .file_bytes = l->file_bytes ? "rlimit" : NULL,
                .processes = l->processes ? "cgroup" : NULL,
        };
        if (l->memory_bytes > 0)
                ret->memory_bytes = has_controller(CGROUP_MEMORY) ? "cgroup" : "rlimit";
        return 0;
}

/* Uses the same answers as spawn_limits_check, so that a start enforces what was said. */
struct cgroup_limits spawn_limits_tree(const struct spawn_limits *l)
{
        return (struct cgroup_limits){
                .memory_bytes = l->memory_bytes > 0 && has_controller(CGROUP_MEMORY) ? l->memory_bytes : 0,
                .processes = l->processes,
        };
}

/* A process may not send descriptors while its user has more of them in flight than the process may open. So commands, which may
 * open only half as many as the server and its helpers, are refused long before the server is. And the descriptors that a few
 * commands send at the same moment, 253 each, still fit between the two limits. */
struct rlimit spawn_limits_nofile(struct rlimit plain)
{
        if (plain.rlim_max < LIMIT_OPEN_FILES_SPLIT)
                return plain;
        rlim_t half = plain.rlim_max / 2;
        return (struct rlimit){ .rlim_cur = MIN(plain.rlim_cur, half), .rlim_max = half };
}
