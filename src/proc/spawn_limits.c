/* spawn_limits: which limits of a command can be kept, and by what (see spawn.h). */
#include "proc/cgroup.h"
#include "proc/spawn.h"
#include "proc/spawn_msg.h"

#include <errno.h>

/* What the machine has, or -errno. It is a question of where the server was started, which does not change. */
static int controllers_get(void)
{
        static int found;
        static bool is_known;
        if (!is_known)
                found = cgroup_probe();
        is_known = true;
        return found;
}

static bool has_controller(enum cgroup_controller which)
{
        int found = controllers_get();
        return found >= 0 && ((uint32_t)found & which) != 0;
}

int spawn_limits_check(const struct spawn_limits *l, struct spawn_enforced *ret, struct err *err)
{
        if (l->processes > 0 && !has_controller(CGROUP_PIDS)) {
                err->remedy = "Run the server below a delegated cgroup v2 (systemd: Delegate=yes with "
                              "DelegateSubgroup=) that has the pids controller, or leave the limit "
                              "`processes` out.";
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

/* The same answers, so that a start cannot do less than was said. */
struct cgroup_limits spawn_limits_tree(const struct spawn_limits *l)
{
        return (struct cgroup_limits){
                .memory_bytes = l->memory_bytes > 0 && has_controller(CGROUP_MEMORY) ? l->memory_bytes : 0,
                .processes = l->processes,
        };
}
