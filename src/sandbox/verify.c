/* verify: compares a view that bwrap has built with the operations of the plan. */
#include "base/born.h"
#include "base/sys_proc.h"
#include "sandbox/bind.h"
#include "sandbox/landlock.h"
#include "sandbox/sys_mount.h"
#include "sandbox/verify_internal.h"
#include "sandbox/view_paths.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

int verify_find(int fd, struct verify_found *ret)
{
        struct statfs fs;
        long r = sys6(SYS_statx, fd, SYS_ARG(""), AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME,
                      SYS_ARG(&ret->st), 0);
        if (r == 0)
                r = sys_call2(SYS_fstatfs, fd, &fs);
        if (r < 0)
                return (int)r;
        ret->is_mount = ret->st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
        ret->attributes =
                (uint64_t)fs.f_flags & (SYS_ATTR_RDONLY | SYS_ATTR_NOSUID | SYS_ATTR_NODEV | SYS_ATTR_NOEXEC);
        ret->is_read_only = ret->attributes & SYS_ATTR_RDONLY;
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

int verify_spaces_new(const struct image *i, const struct verify_spaces *outside)
{
        struct verify_spaces here;
        const bool is_wanted[SPACES] = { [SPACE_USER] = i->needs_user,
                                         [SPACE_MOUNT] = true,
                                         [SPACE_PID] = true,
                                         [SPACE_IPC] = true,
                                         [SPACE_NET] = !i->has_network };
        int r = verify_spaces_get(&here);
        for (size_t n = 0; r == 0 && n < SPACES; n++)
                if (is_wanted[n] && here.inodes[n] == outside->inodes[n])
                        r = -EPROTO;
        return r;
}

/* ---- before bwrap builds the view ---- */

int verify_sources(const struct image *i, struct enter_failure *ret)
{
        const struct image_op *ops = image_at(i, i->ops);
        int root = sys_open("/", O_PATH | O_DIRECTORY);
        if (root < 0)
                return enter_fail(ret, ENTER_MOUNT, ENTER_NO_OP, root);
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
                        ((struct image_op *)(uintptr_t)&ops[n])->born = statx_born(&st);
                else
                        r = enter_fail(ret, ENTER_MOUNT, n, got);
        }
        sys_close(root);
        return r;
}

/* ---- after bwrap has built the view ---- */

struct view {
        const struct image *image;
        int root;
        struct landlock landlock;
};

static bool is_bind_right(const struct image_op *op, const struct verify_found *f)
{
        uint64_t wanted = bind_attributes(op->kind);
        return f->is_mount && is_same(&f->st, op) && (f->attributes & wanted) == wanted;
}

/* Is this an empty mask: in memory, read-only, with the right mode? */
static bool is_mask_right(const struct image_op *op, const struct verify_found *f)
{
        enum plan_gives gives = plan_kind_row(op->kind)->gives;
        bool is_passed = gives == PLAN_GIVES_PASS;
        unsigned mode = gives == PLAN_GIVES_NOTHING ? 0 : is_passed ? 0111 : op->is_directory ? 0555 : 0444;
        bool is_directory = S_ISDIR(f->st.stx_mode);
        bool is_empty = is_passed || (is_directory ? f->st.stx_nlink == 2 : f->st.stx_size == 0);
        return f->is_mount && f->is_memory && f->is_read_only && is_empty &&
               is_directory == (is_passed || op->is_directory) && (f->st.stx_mode & 07777) == mode;
}

static int op_check(const struct view *v, const struct image_op *op)
{
        struct verify_found f;
        enum plan_act act = plan_kind_row(op->kind)->act;
        if (!plan_kind_is_mount(op->kind))
                return 0; /* not a mount; it is checked with the mounts on it */
        int fd = sys_open_beneath(v->root, image_at(v->image, op->path), O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT && op->may_be_missing)
                return 0;
        if (fd < 0)
                return fd;
        int r = verify_find(fd, &f);
        if (r == 0 && !(act == PLAN_ACT_BIND ? is_bind_right(op, &f) : is_mask_right(op, &f)))
                r = -ESTALE;
        if (r == 0 && act == PLAN_ACT_BIND && op->kind != PLAN_PIN) /* a pin is in a writable directory */
                r = landlock_allow(&v->landlock, fd, op->is_directory, bind_right(op->kind));
        sys_close(fd);
        return r;
}

/* What path_check does with a path: MAY_BE_MISSING accepts a missing one, IS_READ_ONLY demands a read-only mount, and IS_ALLOWED
 * adds a Landlock rule that allows writing. */
enum { MAY_BE_MISSING = 1, IS_READ_ONLY = 2, IS_ALLOWED = 4 };

static int path_check(const struct view *v, const char *path, unsigned what)
{
        struct verify_found f;
        int fd = sys_open_beneath(v->root, path, O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT && (what & MAY_BE_MISSING))
                return 0;
        if (fd < 0)
                return fd;
        int r = verify_find(fd, &f);
        if (r == 0 && (what & IS_READ_ONLY) && !f.is_read_only)
                r = -EPROTO;
        if (r == 0 && (what & IS_ALLOWED))
                r = landlock_allow(&v->landlock, fd, S_ISDIR(f.st.stx_mode), LANDLOCK_WRITE);
        sys_close(fd);
        return r;
}

/* Checks that /dev is read-only, and each device too when the keeper completes the view (image::finishes): a device can be written
 * through a read-only mount, but its mode, owner and times cannot be changed (finish.h). Opens the terminal again in the view. */
static int dev_check(const struct view *v, struct enter_stdio *io)
{
        static const char *const writable[] = { "dev/shm", "dev/pts" };
        unsigned of_devices = IS_ALLOWED | (v->image->finishes ? IS_READ_ONLY : 0);
        int r = path_check(v, "dev", IS_READ_ONLY);
        for (const char *const *device = view_devices; r == 0 && *device; device++)
                r = path_check(v, *device, MAY_BE_MISSING | of_devices);
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(writable); n++)
                r = path_check(v, writable[n], MAY_BE_MISSING | IS_ALLOWED);
        if (r < 0 || enter_stdio_terminal(io) < 0)
                return r;
        int dev = sys_open_beneath(v->root, "dev", O_PATH | O_DIRECTORY);
        r = dev < 0 ? dev : enter_stdio_reopen(io, dev);
        if (dev >= 0)
                sys_close(dev);
        return r;
}

/* Is this the /proc of the caller's pid namespace? In any other, the caller has another number, or none. */
static bool is_ours(int proc)
{
        char found[NAME_MAX];
        struct sys_path self = { .n = 0 };
        sys_path_add_pid(&self, sys_getpid());
        if (sys_call4(SYS_readlinkat, proc, "self", found, sizeof(found)) != (long)self.n)
                return false;
        for (size_t i = 0; i < self.n; i++)
                if (found[i] != self.text[i])
                        return false;
        return true;
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
                r = landlock_allow(&v->landlock, fd, true, LANDLOCK_WRITE);
        sys_close(fd);
        for (const char *const *setting = view_settings; r == 0 && *setting; setting++)
                r = path_check(v, *setting, MAY_BE_MISSING | IS_READ_ONLY);
        return (int)r;
}

static int root_check(const struct view *v)
{
        struct verify_found f;
        int r = verify_find(v->root, &f);
        if (r == 0 && v->image->root != PLAN_ROOT_WRITE && !f.is_read_only)
                r = -EPROTO;
        if (r == 0 && v->image->root == PLAN_ROOT_EMPTY && !f.is_memory)
                r = -EPROTO;
        enum landlock_right right = v->image->root == PLAN_ROOT_WRITE ? LANDLOCK_WRITE : LANDLOCK_LIST;
        return r == 0 ? landlock_allow(&v->landlock, v->root, true, right) : r;
}

static int all_check(const struct view *v, struct enter_stdio *io, struct enter_failure *ret)
{
        const struct image_op *ops = image_at(v->image, v->image->ops);
        int r = root_check(v);
        if (r < 0)
                return enter_fail(ret, ENTER_MOUNT, ENTER_NO_OP, r);
        r = enter_stdio_allow(&v->landlock, io);
        if (r < 0)
                return enter_fail(ret, ENTER_STDIO, ENTER_NO_OP, r);
        r = dev_check(v, io);
        if (r < 0)
                return enter_fail(ret, ENTER_DEV, ENTER_NO_OP, r);
        r = proc_check(v);
        if (r < 0)
                return enter_fail(ret, ENTER_PROC, ENTER_NO_OP, r);
        for (uint32_t n = 0; n < v->image->op_count; n++) {
                r = op_check(v, &ops[n]);
                if (r < 0)
                        return enter_fail(ret, ENTER_MOUNT, n, r);
        }
        return 0;
}

static int kept_check(const struct view *v, struct enter_failure *ret)
{
        int r = proc_check(v);
        if (r == 0)
                r = path_check(v, "sys", MAY_BE_MISSING | IS_READ_ONLY);
        return r < 0 ? enter_fail(ret, ENTER_PROC, ENTER_NO_OP, r) : 0;
}

int verify_view(const struct image *i, const struct verify_spaces *outside, struct enter_stdio *io,
                int *ret_ruleset, struct enter_failure *ret)
{
        struct view v = { .image = i, .root = -1, .landlock = LANDLOCK_NONE };
        *ret_ruleset = -1;
        int r = verify_spaces_new(i, outside);
        if (r < 0)
                return enter_fail(ret, ENTER_BUBBLEWRAP, ENTER_NO_OP, r);
        v.root = sys_open("/", O_PATH | O_DIRECTORY);
        if (v.root < 0)
                return enter_fail(ret, ENTER_MOUNT, ENTER_NO_OP, v.root);
        r = enter_ruleset_begin(i, &v.landlock);
        if (r < 0)
                (void)enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r);
        else
                r = i->has_view ? all_check(&v, io, ret) : kept_check(&v, ret);
        if (r == 0 && (r = verify_table(i, v.root)) < 0)
                (void)enter_fail(ret, ENTER_CHECK, ENTER_NO_OP, r);
        sys_close(v.root);
        *ret_ruleset = v.landlock.ruleset;
        return r;
}
