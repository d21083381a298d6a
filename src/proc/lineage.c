/* lineage: walks up the parents of a process (lineage.h).
 *
 * The parent of a process that is just being removed reads as 0, which otherwise means that it has no parent. And between
 * reading the pid of a parent and opening its directory, the pid may become that of another process. So every pid is read again
 * after its directory was opened, and the rest is read through that directory: as long as it can be read, the pid is in use.
 */
#include "proc/lineage.h"

#include "base/fd.h"
#include "base/slice.h"
#include "keeper/keeper_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STAT_BYTES 1024
#define STATUS_BYTES_MAX (1024 * 1024) /* the file names all groups of the process, up to 65,536 */
#define TRIES_MAX 16                   /* how often one walk repeats a step because a process has exited */

/* One process on the way up. */
struct step {
        pid_t pid;
        int dir; /* /proc/PID */
        struct lineage_stat stat;
};

int lineage_stat_parse(const char *text, struct lineage_stat *ret)
{
        /* "pid (name) S parent …": a name may hold blanks and parentheses, so the last ')' counts. */
        const char *open = strchr(text, '('), *close = strrchr(text, ')');
        if (!open || !close || close < open || strlen(close) < 4)
                return -EBADMSG;
        struct slice name = slice_from(open + 1, (size_t)(close - open - 1)),
                     rest = slice_from_str(close + 4);
        uint64_t parent;
        if (slice_to_u64(slice_split(&rest, ' '), INT32_MAX, &parent) < 0 || !rest.p)
                return -EBADMSG;
        *ret = (struct lineage_stat){ .parent = (pid_t)parent };
        if (name.n < sizeof(ret->name)) /* kernel threads have longer names, keepers have not */
                memcpy(ret->name, name.p, name.n);
        return 0;
}

static int stat_read(int dir, struct lineage_stat *ret)
{
        char text[STAT_BYTES];
        _close_ int fd = openat(dir, "stat", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return n < 0 ? -errno : -ESRCH;
        text[n] = 0;
        return lineage_stat_parse(text, ret);
}

/* Finds the parent of `child`. The caller closes ret->dir. ret->pid is 0 when `child` has no parent in this pid namespace.
 * Returns 0, or -ESTALE when a process has exited meanwhile. */
static int step_up(const struct step *child, struct step *ret)
{
        struct lineage_stat again;
        char path[32];
        *ret = (struct step){ .pid = child->stat.parent, .dir = -1 };
        (void)snprintf(path, sizeof(path), "/proc/%d", ret->pid);
        _close_ int dir = ret->pid ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        if (stat_read(child->dir, &again) < 0 || again.parent != ret->pid)
                return -ESTALE;
        if (ret->pid == 0)
                return 0;
        if (dir < 0 || stat_read(dir, &ret->stat) < 0)
                return -ESTALE;
        ret->dir = TAKE_FD(dir);
        return 0;
}

/* ---- judging by the keeper ---- */

/* How far a process has confined itself, which cannot be undone. */
struct confinement {
        uint64_t no_new_privs, seccomp, filters;
};

static uint64_t field(struct slice status, const char *name)
{
        uint64_t value;
        while (status.n > 0) {
                struct slice line = slice_split(&status, '\n'), key = slice_split(&line, ':');
                if (slice_eq(key, slice_from_str(name)) &&
                    slice_to_u64(slice_trim(line), UINT32_MAX, &value) == 0)
                        return value;
        }
        return 0; /* this kernel lacks the field, so the value is the same for all processes */
}

static int confinement_read(const char *path, struct confinement *ret)
{
        _buf_ struct buf text = BUF_INIT(STATUS_BYTES_MAX);
        int r = fd_read_file(path, STATUS_BYTES_MAX, &text);
        if (r < 0)
                return r;
        *ret = (struct confinement){ .no_new_privs = field(buf_slice(&text), "NoNewPrivs"),
                                     .seccomp = field(buf_slice(&text), "Seccomp"),
                                     .filters = field(buf_slice(&text), "Seccomp_filters") };
        return 0;
}

/* `keeper` is a child of the spawner. It may also be a process that a killed keeper has left, which is a child of the spawner for a
 * moment and may have any name. But a process that comes out of a sandbox has more seccomp filters than this server. */
static enum lineage keeper_judge(const struct step *keeper)
{
        struct confinement its, ours;
        char path[64];
        if (strcmp(keeper->stat.name, KEEPER_PLAIN_NAME) != 0)
                return LINEAGE_SANDBOXED;
        (void)snprintf(path, sizeof(path), "/proc/%d/status", keeper->pid);
        struct lineage_stat still;
        if (confinement_read(path, &its) < 0 || confinement_read("/proc/self/status", &ours) < 0 ||
            stat_read(keeper->dir, &still) < 0)
                return LINEAGE_UNKNOWN;
        bool is_alike = its.no_new_privs == ours.no_new_privs && its.seccomp == ours.seccomp &&
                        its.filters == ours.filters;
        return is_alike ? LINEAGE_PLAIN : LINEAGE_SANDBOXED;
}

/* ---- walking up ---- */

/* Says what a process descends from. On the way up from that process, `child` is the child of the server, and `below` is the
 * child of `child`, or NULL. */
static enum lineage child_judge(const struct step *child, const struct step *below, pid_t from,
                                const struct lineage_roots *roots)
{
        if (child->pid == roots->spawner)
                return !below || below->pid == from ? LINEAGE_SANDBOXED : keeper_judge(below);
        if (roots->has_orphans)
                return LINEAGE_UNKNOWN;
        for (size_t i = 0; i < ARRAY_LEN(roots->others); i++)
                if (child->pid == roots->others[i])
                        return LINEAGE_UNKNOWN;
        return LINEAGE_OTHER; /* the child existed before the server, or was only adopted by it */
}

/* The keeper of a prebuilt sandbox may still be called KEEPER_PREBUILT_NAME when its command runs already. */
static bool is_of_sandbox(const struct step *s)
{
        return strcmp(s->stat.name, KEEPER_NAME) == 0 || strcmp(s->stat.name, KEEPER_PREBUILT_NAME) == 0;
}

/* Returns whether the server itself descends from that process. */
static bool is_above_us(pid_t pid)
{
        struct step child = { .dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC) }, up;
        bool is_above = false;
        for (int i = 0; i < LINEAGE_DEPTH_MAX && !is_above; i++) {
                if (child.dir < 0 || stat_read(child.dir, &child.stat) < 0 || step_up(&child, &up) < 0 ||
                    up.pid == 0)
                        break;
                fd_close(child.dir);
                child = up;
                is_above = up.pid == pid;
        }
        fd_close(child.dir);
        return is_above;
}

enum lineage lineage_find(pid_t pid, int proc_dir, const struct lineage_roots *roots)
{
        /* `child` and `below` are the last two processes of the walk up. The walk closes the directories that it has opened, but
         * not `proc_dir`. */
        struct step child = { .pid = pid, .dir = proc_dir }, below = { .dir = -1 }, up;
        enum lineage found = LINEAGE_UNKNOWN;
        int tries = 0;
        bool has_stat = pid != roots->server && stat_read(proc_dir, &child.stat) == 0;
        for (int depth = 0; has_stat && depth < LINEAGE_DEPTH_MAX;) {
                if (step_up(&child, &up) < 0) {
                        has_stat = ++tries < TRIES_MAX && stat_read(child.dir, &child.stat) == 0;
                        continue;
                }
                if (up.pid == 0 || up.pid == roots->server) {
                        found = up.pid ? child_judge(&child, below.pid ? &below : NULL, pid, roots)
                                       : LINEAGE_OTHER;
                        fd_close(up.dir);
                        break;
                }
                if (below.dir != proc_dir)
                        fd_close(below.dir);
                below = child;
                child = up;
                depth++;
                if (is_of_sandbox(&child) && !is_above_us(child.pid)) {
                        found = LINEAGE_SANDBOXED;
                        break;
                }
        }
        if (below.dir != proc_dir)
                fd_close(below.dir);
        if (child.dir != proc_dir)
                fd_close(child.dir);
        return found;
}
