/* landlock_plan: checks whether Landlock alone can enforce a plan, and converts the plan to readable and writable paths. */
#include "plan/landlock_plan.h"

#include "plan/plan_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define TOP_MAX 1024 /* how many names in the root directory are allowed; more are refused */

/* Files of /proc about the machine that programs read, allowed where /proc as a whole is not. None is about a process. */
static const char *const proc_files[] = {
        "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg",
        "/proc/meminfo", "/proc/stat",        "/proc/sys",
        "/proc/uptime",  "/proc/version",     NULL,
};

static int refuse(struct err *err, struct slice path, const char *why)
{
        err->step = "landlock";
        err->os_errno = EOPNOTSUPP;
        return err_set(
                err, 0, -EOPNOTSUPP,
                "sandbox intent cannot be enforced on this executor: Landlock alone cannot keep %.*s %s",
                SLICE(path), why);
}

static int op_check(const struct plan_op *op, struct err *err)
{
        /* enter_rules.c allows the harmless devices, and no other ones. */
        if (path_is_within(op->path, S("/dev")))
                return refuse(err, op->path, "apart from the machine's other devices");
        const struct plan_kind_row *row = plan_kind_row(op->kind);
        const char *why = op->is_guarded ? row->alone_guarded : row->alone;
        return why ? refuse(err, op->path, why) : 0;
}

static int plan_check(const struct plan *p, struct err *err)
{
        int r = 0;
        if (p->root == PLAN_ROOT_WRITE)
                return refuse(err, S("/proc/sys"), "read-only where everything can be written");
        for (size_t i = 0; r == 0 && i < p->op_count; i++)
                r = op_check(&p->ops[i], err);
        return r == 0 && p->placeholder_count > 0
                       ? refuse(err, p->placeholders[0].path, "from coming into being")
                       : r;
}

static void op_add(struct plan *to, struct slice path, bool is_directory)
{
        to->ops[to->op_count++] = (struct plan_op){ .kind = PLAN_READ,
                                                    .is_directory = is_directory,
                                                    .may_be_missing = true,
                                                    .path = path,
                                                    .why = PLAN_WHY_READABLE };
}

static bool is_left_out(const struct dirent *e, bool has_proc)
{
        if (!has_proc && strcmp(e->d_name, "proc") == 0)
                return true;
        return strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strcmp(e->d_name, "dev") == 0 ||
               e->d_type == DT_LNK;
}

/* Allows every entry of the root directory except /dev. A right for the root itself could not be taken back for /dev. */
static int add_top(struct arena *a, DIR *top, bool has_proc, struct plan *to, size_t room, struct err *err)
{
        const struct dirent *e;
        while ((e = readdir(top))) {
                struct stat st = { .st_mode = S_IFDIR };
                if (is_left_out(e, has_proc))
                        continue;
                if (e->d_type != DT_DIR && fstatat(dirfd(top), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (S_ISLNK(st.st_mode))
                        continue;
                if (to->op_count == room)
                        return refuse(err, S("/"), "apart from /dev: it holds too many names");
                op_add(to, path_join(a, S("/"), slice_from_str(arena_dup(a, slice_from_str(e->d_name)))),
                       S_ISDIR(st.st_mode));
        }
        return 0;
}

static int add_readable(struct arena *a, bool has_proc, struct plan *to, size_t room, struct err *err)
{
        for (size_t i = 0; (to->root == PLAN_ROOT_EMPTY || !has_proc) && proc_files[i]; i++)
                op_add(to, slice_from_str(proc_files[i]), strcmp(proc_files[i], "/proc/sys") == 0);
        if (to->root == PLAN_ROOT_EMPTY)
                return 0;
        DIR *top = opendir("/");
        if (!top) {
                err->step = "landlock";
                err->os_errno = errno;
                return err_set(err, 0, -errno, "cannot list /: %s", errno_text(errno));
        }
        int r = add_top(a, top, has_proc, to, room, err);
        (void)closedir(top);
        return r;
}

int landlock_plan(struct arena *a, const struct plan *from, bool has_proc, struct plan *ret, struct err *err)
{
        *ret = *from;
        if (!from->has_view)
                return 0;
        int r = plan_check(from, err);
        if (r < 0)
                return r;
        size_t room = from->op_count + TOP_MAX;
        ret->ops = arena_alloc(a, room * sizeof(*ret->ops));
        ret->op_count = 0;
        for (size_t i = 0; i < from->op_count; i++)
                if (plan_kind_row(from->ops[i].kind)->act == PLAN_ACT_BIND)
                        ret->ops[ret->op_count++] = from->ops[i];
        return add_readable(a, has_proc, ret, room, err);
}
