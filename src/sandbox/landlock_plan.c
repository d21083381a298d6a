/* landlock_plan: see landlock_plan.h. */
#include "sandbox/landlock_plan.h"

#include "sandbox/plan_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define TOP_MAX 1024 /* names in the root directory; more is refused */

/* What one asks the machine for, where not all of /proc can be read. No process is among it. */
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
        /* Of the machine's devices only the harmless ones are there: see enter_rules.c. */
        if (path_is_within(op->path, S("/dev")))
                return refuse(err, op->path, "apart from the machine's other devices");
        switch (op->kind) {
        case PLAN_DIRECTORY:
        case PLAN_FILE:
        case PLAN_LINK:
        case PLAN_WRITE:
                return 0;
        case PLAN_READ:
                return op->is_guarded ? refuse(err, op->path, "read-only inside of what can be written") : 0;
        case PLAN_PIN:
                return refuse(err, op->path, "where it is");
        case PLAN_COVER:
                return refuse(err, op->path, "from coming into being");
        default:
                return refuse(err, op->path, "from being read");
        }
}

static int plan_check(const struct plan *p, struct err *err)
{
        int r = 0;
        if (p->root == PLAN_ROOT_WRITE)
                return refuse(err, S("/proc/sys"), "read-only where everything can be written");
        for (size_t i = 0; r == 0 && i < p->op_count; i++)
                r = op_check(&p->ops[i], err);
        return r == 0 && p->stub_count > 0 ? refuse(err, p->stubs[0].path, "from coming into being") : r;
}

static void op_add(struct plan *to, struct slice path, bool is_directory)
{
        to->ops[to->op_count++] = (struct plan_op){ .kind = PLAN_READ,
                                                    .is_directory = is_directory,
                                                    .may_miss = true,
                                                    .path = path,
                                                    .why = "readable" };
}

static bool is_left_out(const struct dirent *e, bool has_proc)
{
        if (!has_proc && strcmp(e->d_name, "proc") == 0)
                return true;
        return strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strcmp(e->d_name, "dev") == 0 ||
               e->d_type == DT_LNK;
}

/* Everything but /dev. Rights on the root itself could not be taken back there. */
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
                if (from->ops[i].kind == PLAN_READ || from->ops[i].kind == PLAN_WRITE)
                        ret->ops[ret->op_count++] = from->ops[i];
        return add_readable(a, has_proc, ret, room, err);
}
