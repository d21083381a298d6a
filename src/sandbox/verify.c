/* verify: see verify.h. */
#include "sandbox/verify.h"

#include "sandbox/landlock.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#define MOUNT_RDONLY 1 /* of statfs */

const char *const verify_knobs[] = { "proc/sys",           "proc/irq",        "proc/bus",  "proc/fs",
                                     "proc/sysrq-trigger", "proc/acpi",       "proc/scsi", "proc/driver",
                                     "proc/mtrr",          "proc/timer_list", NULL };

static int fail(struct enter_failure *ret, enum enter_step step, uint32_t op, long r)
{
        *ret = (struct enter_failure){ .step = step, .os_errno = (int32_t)-r, .op = op };
        return (int)r;
}

/* What can be said of one path. */
struct found {
        struct statx st;
        bool is_mount, is_read_only, is_memory;
};

static int find(int fd, struct found *ret)
{
        struct statfs fs;
        long r = sys6(SYS_statx, fd, SYS_ARG(""), AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME,
                      SYS_ARG(&ret->st), 0);
        if (r == 0)
                r = sys_call2(SYS_fstatfs, fd, &fs);
        if (r < 0)
                return (int)r;
        ret->is_mount = ret->st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
        ret->is_read_only = fs.f_flags & MOUNT_RDONLY;
        ret->is_memory = fs.f_type == TMPFS_MAGIC;
        return 0;
}

static bool is_same(const struct statx *st, const struct image_op *op)
{
        return op->ino == 0 ||
               (makedev(st->stx_dev_major, st->stx_dev_minor) == op->dev && st->stx_ino == op->ino);
}

/* ---- namespaces ---- */

int verify_spaces_get(struct verify_spaces *ret)
{
        static const char *const paths[SPACES] = { "/proc/self/ns/user", "/proc/self/ns/mnt",
                                                   "/proc/self/ns/pid", "/proc/self/ns/ipc",
                                                   "/proc/self/ns/net" };
        for (size_t i = 0; i < SPACES; i++) {
                struct stat st;
                long r = sys_call4(SYS_newfstatat, AT_FDCWD, paths[i], &st, 0);
                if (r < 0)
                        return (int)r;
                ret->inodes[i] = st.st_ino;
        }
        return 0;
}

static int spaces_check(const struct image *i, const struct verify_spaces *outside)
{
        struct verify_spaces here;
        const bool is_wanted[SPACES] = { [SPACE_USER] = i->needs_user,
                                         [SPACE_MOUNT] = i->has_view,
                                         [SPACE_PID] = i->has_view,
                                         [SPACE_IPC] = i->has_view,
                                         [SPACE_NET] = !i->has_network };
        int r = verify_spaces_get(&here);
        for (size_t n = 0; r == 0 && n < SPACES; n++)
                if (is_wanted[n] && here.inodes[n] == outside->inodes[n])
                        r = -EPROTO;
        return r == 0 && i->has_view && sys_getpid() != 1 ? -EPROTO : r;
}

/* ---- before ---- */

int verify_sources(const struct image *i, struct enter_failure *ret)
{
        const struct image_op *ops = image_at(i, i->ops);
        int root = sys_open("/", O_PATH | O_DIRECTORY);
        if (root < 0)
                return fail(ret, ENTER_MOUNT, ENTER_NO_OP, root);
        int r = 0;
        for (uint32_t n = 0; r == 0 && n < i->op_count; n++) {
                struct statx st;
                if (ops[n].ino == 0)
                        continue;
                int fd = sys_open_beneath(root, image_at(i, ops[n].path), O_PATH | O_NOFOLLOW);
                long got = fd < 0 ? fd
                                  : sys6(SYS_statx, fd, SYS_ARG(""), AT_EMPTY_PATH, STATX_INO | STATX_BTIME,
                                         SYS_ARG(&st), 0);
                if (fd >= 0)
                        sys_close(fd);
                if (got == 0 && !is_same(&st, &ops[n]))
                        got = -ESTALE;
                if (got == 0)
                        ((struct image_op *)(uintptr_t)&ops[n])->born = image_born(&st);
                else
                        r = fail(ret, ENTER_MOUNT, n, got);
        }
        sys_close(root);
        return r;
}

/* ---- after ---- */

struct view {
        const struct image *image;
        int root, ruleset;
};

static int allow_writes(const struct view *v, int fd, bool is_directory)
{
        return v->ruleset < 0 ? 0 : landlock_allow(v->ruleset, v->image->landlock_abi, fd, is_directory);
}

static bool is_bind_right(const struct image_op *op, const struct found *f)
{
        return f->is_mount && is_same(&f->st, op) && (op->kind != PLAN_READ || f->is_read_only);
}

/* Empty, of memory, and nobody can write it or change its mode. */
static bool is_lid_right(const struct image_op *op, const struct found *f)
{
        unsigned mode = op->kind == PLAN_HIDE   ? 0
                        : op->kind == PLAN_OPEN ? 0111
                        : op->is_directory      ? 0555
                                                : 0444;
        bool is_directory = S_ISDIR(f->st.stx_mode);
        bool is_empty = op->kind == PLAN_OPEN || (is_directory ? f->st.stx_nlink == 2 : f->st.stx_size == 0);
        return f->is_mount && f->is_memory && f->is_read_only && is_empty &&
               is_directory == (op->kind == PLAN_OPEN || op->is_directory) &&
               (f->st.stx_mode & 07777) == mode;
}

static int op_check(const struct view *v, const struct image_op *op)
{
        struct found f;
        if (op->kind == PLAN_DIRECTORY || op->kind == PLAN_FILE || op->kind == PLAN_LINK ||
            op->kind == PLAN_SEAL)
                return 0; /* shows in what lies on it */
        int fd = sys_open_beneath(v->root, image_at(v->image, op->path), O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT && op->may_miss)
                return 0;
        if (fd < 0)
                return fd;
        bool is_bind = op->kind == PLAN_READ || op->kind == PLAN_WRITE || op->kind == PLAN_PIN;
        int r = find(fd, &f);
        if (r == 0 && !(is_bind ? is_bind_right(op, &f) : is_lid_right(op, &f)))
                r = -ESTALE;
        if (r == 0 && op->kind == PLAN_WRITE)
                r = allow_writes(v, fd, op->is_directory);
        sys_close(fd);
        return r;
}

/* 0 also when it is missing and may be. */
static int path_check(const struct view *v, const char *path, bool may_miss, bool is_writable)
{
        struct found f;
        int fd = sys_open_beneath(v->root, path, O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT && may_miss)
                return 0;
        if (fd < 0)
                return fd;
        int r = find(fd, &f);
        if (r == 0 && !is_writable && !f.is_read_only)
                r = -EPROTO;
        if (r == 0 && is_writable)
                r = allow_writes(v, fd, S_ISDIR(f.st.stx_mode));
        sys_close(fd);
        return r;
}

/* The machine's own would be a mount of another kind, or writable. */
static int dev_check(const struct view *v, int tty)
{
        static const char *const writable[] = { "dev/null",    "dev/zero", "dev/full", "dev/random",
                                                "dev/urandom", "dev/tty",  "dev/shm",  "dev/pts" };
        int r = path_check(v, "dev", false, false);
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(writable); n++)
                r = path_check(v, writable[n], true, true);
        if (r == 0 && tty >= 0) {
                r = path_check(v, "dev/console", true, true);
                if (r == 0 && v->ruleset >= 0)
                        r = landlock_allow(v->ruleset, v->image->landlock_abi, tty, false);
        }
        return r;
}

/* In a /proc of other process numbers we are not number 1. */
static bool is_ours(int proc)
{
        char self[NAME_MAX];
        return sys_call4(SYS_readlinkat, proc, "self", self, sizeof(self)) == 1 && self[0] == '1';
}

static int proc_check(const struct view *v)
{
        struct statfs fs;
        int fd = sys_open_beneath(v->root, "proc", O_PATH | O_DIRECTORY);
        if (fd < 0)
                return fd;
        long r = sys_call2(SYS_fstatfs, fd, &fs);
        if (r == 0 && (fs.f_type != PROC_SUPER_MAGIC || !is_ours(fd)))
                r = -EPROTO;
        if (r == 0)
                r = allow_writes(v, fd, true);
        sys_close(fd);
        for (const char *const *knob = verify_knobs; r == 0 && *knob; knob++)
                r = path_check(v, *knob, true, false);
        return (int)r;
}

static int root_check(const struct view *v)
{
        struct found f;
        int r = find(v->root, &f);
        if (r == 0 && v->image->root != PLAN_ROOT_WRITE && !f.is_read_only)
                r = -EPROTO;
        if (r == 0 && v->image->root == PLAN_ROOT_EMPTY && !f.is_memory)
                r = -EPROTO;
        return r == 0 && v->image->root == PLAN_ROOT_WRITE ? allow_writes(v, v->root, true) : r;
}

static int all_check(const struct view *v, int tty, struct enter_failure *ret)
{
        const struct image_op *ops = image_at(v->image, v->image->ops);
        int r = root_check(v);
        if (r < 0)
                return fail(ret, ENTER_MOUNT, ENTER_NO_OP, r);
        r = dev_check(v, tty);
        if (r < 0)
                return fail(ret, ENTER_DEV, ENTER_NO_OP, r);
        r = proc_check(v);
        if (r < 0)
                return fail(ret, ENTER_PROC, ENTER_NO_OP, r);
        for (uint32_t n = 0; n < v->image->op_count; n++) {
                r = op_check(v, &ops[n]);
                if (r < 0)
                        return fail(ret, ENTER_MOUNT, n, r);
        }
        return 0;
}

int verify_view(const struct image *i, const struct verify_spaces *outside, int tty, int *ret_ruleset,
                struct enter_failure *ret)
{
        struct view v = { .image = i, .root = -1, .ruleset = -1 };
        *ret_ruleset = -1;
        int r = spaces_check(i, outside);
        if (r < 0)
                return fail(ret, ENTER_BUBBLEWRAP, ENTER_NO_OP, r);
        if (!i->has_view)
                return 0;
        if (i->landlock_abi > 0 && (v.ruleset = landlock_begin(i->landlock_abi)) < 0)
                return fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, v.ruleset);
        v.root = sys_open("/", O_PATH | O_DIRECTORY);
        if (v.root < 0)
                return fail(ret, ENTER_MOUNT, ENTER_NO_OP, v.root);
        r = all_check(&v, tty, ret);
        sys_close(v.root);
        *ret_ruleset = v.ruleset;
        return r;
}
