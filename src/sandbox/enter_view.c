/* enter_view: builds the file system that a command sees, and makes it the root.
 *
 * The new root is mounted on top of the root of the machine, and everything is mounted into it by descriptors: sources are
 * opened from the root of the machine, targets from the new one, without following links. At the end the root of the machine
 * is detached with everything below it, including the directory of the masks. All mounts are private: later mounts of the
 * machine do not appear in the view.
 */
#include "sandbox/bind.h"
#include "sandbox/enter_view_internal.h"
#include "sandbox/layers.h"

#include "base/born.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/sysmacros.h>

/* The four empty files and directories that masks are copies of. Those for denied paths have no permissions; those for paths
 * that must not be created are readable. */
enum mask_kind { MASK_DENIED_DIRECTORY, MASK_DENIED_FILE, MASK_EMPTY_DIRECTORY, MASK_EMPTY_FILE };
static const char *const mask_names[] = { "a", "b", "c", "d" };

/* ---- making and attaching file systems ---- */

int view_fs_make(const char *type, const char *const options[], unsigned attributes)
{
        int fs = sys_fsopen(type);
        if (fs < 0)
                return fs;
        int r = 0;
        for (; r == 0 && *options; options += 2)
                r = sys_fsconfig_text(fs, options[0], options[1]);
        if (r == 0)
                r = sys_fsconfig_create(fs);
        if (r == 0)
                r = sys_fsmount(fs, attributes);
        sys_close(fs);
        return r;
}

int view_tmpfs_make(const char *mode, const char *bytes, const char *inodes, unsigned attributes)
{
        const char *const options[] = { "mode", mode, "size", bytes, "nr_inodes", inodes, NULL };
        return view_fs_make("tmpfs", options, attributes);
}

int view_attach(int tree, int dir, const char *path)
{
        if (tree < 0)
                return tree;
        int r = sys_tree_attach(tree, dir, path);
        sys_close(tree);
        return r;
}

/* ---- the root ---- */

/* Makes the directory of the masks. Only a mounted tree can be copied, so it is mounted below the root of the machine;
 * mounts on that root itself would have to be detached one by one. view_begin mounts it on /proc, which is reached through
 * `old_proc` from then on. */
static int masks_make(struct enter_view *v)
{
        v->masks = view_tmpfs_make("0700", "64k", "16", ATTR_TREE);
        int r = v->masks < 0 ? v->masks : sys_mkdirat(v->masks, mask_names[MASK_DENIED_DIRECTORY], 0);
        if (r == 0)
                r = sys_touchat(v->masks, mask_names[MASK_DENIED_FILE], 0);
        if (r == 0)
                r = sys_mkdirat(v->masks, mask_names[MASK_EMPTY_DIRECTORY], 0555);
        if (r == 0)
                r = sys_touchat(v->masks, mask_names[MASK_EMPTY_FILE], 0444);
        if (r == 0)
                r = sys_mount_seal(v->masks);
        if (r < 0)
                return r;
        v->old_proc = sys_openat(v->old, "proc", O_PATH | O_DIRECTORY);
        return MIN(v->old_proc, 0);
}

static int root_make(struct enter_view *v)
{
        if (v->image->root == PLAN_ROOT_EMPTY) {
                v->root = view_tmpfs_make("0755", "16m", "65536", ATTR_TREE);
                return MIN(v->root, 0);
        }
        v->root = sys_tree_copy(v->old, "");
        if (v->root < 0)
                return v->root;
        uint64_t attributes = v->image->root == PLAN_ROOT_READ ? ATTR_TREE | SYS_ATTR_RDONLY : ATTR_TREE;
        return sys_tree_set(v->root, attributes);
}

/* pivot_root puts the root of the machine onto the new root. It examines every process of the machine, which takes time, so
 * it is called while no client waits. */
static int root_enter(const struct enter_view *v)
{
        int r = (int)sys_call1(SYS_fchdir, v->root);
        return r == 0 ? (int)sys_call2(SYS_pivot_root, ".", ".") : r;
}

/* The directory of the masks is made first, then the root is copied, then the directory is attached. Attached earlier, it would be
 * in the copy. Made later, it would be newer than the root, and enter_check.c would take it for a mount of the view; it belongs to
 * the mounts of the machine, which machine_detach detaches. */
static int view_begin(struct enter_view *v)
{
        int r = (int)sys6(SYS_mount, 0, SYS_ARG("/"), 0, SYS_MS_REC | SYS_MS_PRIVATE, 0, 0);
        if (r < 0)
                return r;
        v->old = sys_open("/", O_PATH | O_DIRECTORY);
        if (v->old < 0)
                return v->old;
        r = masks_make(v);
        if (r == 0)
                r = root_make(v);
        if (r == 0)
                r = sys_tree_attach(v->masks, v->old, "proc");
        if (r == 0)
                r = sys_tree_attach(v->root, v->old, "");
        return r == 0 ? root_enter(v) : r;
}

/* Detaches the root of the machine, which is mounted on the new root since root_enter, and everything below it. */
static int machine_detach(const struct enter_view *v)
{
        int r = v->image->root == PLAN_ROOT_EMPTY ? sys_mount_seal(v->root) : 0;
        if (r == 0)
                r = (int)sys_call1(SYS_fchdir, v->root);
        if (r < 0 || layer_is_off(LAYER_DETACH))
                return r;
        return (int)sys_call2(SYS_umount2, ".", SYS_MNT_DETACH);
}

int enter_view_close(const struct enter_view *v, struct enter_failure *ret)
{
        if (!v->image->has_view)
                return 0;
        int r = layers_spoil_before_detach(v);
        if (r == 0)
                r = machine_detach(v);
        if (r == 0)
                r = layers_spoil_after_detach(v);
        if (r < 0)
                return enter_fail(ret, ENTER_MOUNT, ENTER_NO_OP, r);
        r = layer_is_off(LAYER_CHECK) ? 0 : view_check_table(v);
        if (r < 0)
                return enter_fail(ret, ENTER_CHECK, ENTER_NO_OP, r);
        r = layer_is_off(LAYER_CHECK) ? 0 : view_check_root(v->root);
        return r < 0 ? enter_fail(ret, ENTER_CHECK, ENTER_NO_OP, r) : 0;
}

/* ---- operations ---- */

/* Is this the file that the plan saw? If so, its birth time is recorded for the guard. */
static bool is_same(int fd, const struct image_op *op)
{
        struct statx st;
        if (op->ino == 0)
                return true;
        long r = sys6(SYS_statx, fd, SYS_ARG(""), AT_EMPTY_PATH, STATX_INO | STATX_BTIME, SYS_ARG(&st), 0);
        if (r < 0 || makedev(st.stx_dev_major, st.stx_dev_minor) != op->dev || st.stx_ino != op->ino)
                return false;
        ((struct image_op *)(uintptr_t)op)->born = statx_born(&st);
        return true;
}

/* A device can be written through a read-only mount. Only Landlock can make one read-only, and only where all other devices
 * of the machine are missing. */
static bool may_hold_devices(const struct enter_view *v, const struct image_op *op, const char *path)
{
        bool is_in_dev = path[0] == 'd' && path[1] == 'e' && path[2] == 'v' && path[3] == '/';
        return is_in_dev &&
               (op->kind == PLAN_WRITE || (v->landlock.ruleset >= 0 && v->image->root != PLAN_ROOT_WRITE));
}

static int op_bind(struct enter_view *v, const struct image_op *op)
{
        const char *path = image_at(v->image, op->path);
        int source = sys_open_beneath(v->old, path, O_PATH | O_NOFOLLOW);
        if (source < 0)
                return source;
        int tree = is_same(source, op) ? sys_tree_copy(source, "") : -ESTALE;
        sys_close(source);
        if (tree < 0)
                return tree;
        uint64_t attributes =
                bind_attributes(op->kind) | (may_hold_devices(v, op, path) ? 0 : SYS_ATTR_NODEV);
        int r = sys_tree_set(tree, attributes);
        int target = r < 0 ? r : sys_open_beneath(v->root, path, O_PATH | O_NOFOLLOW);
        r = target < 0 ? target : sys_tree_attach(tree, target, "");
        if (r == 0)
                view_note_mount(v, op, tree);
        if (r == 0 && op->kind != PLAN_PIN) /* a pin is inside of a writable directory */
                r = landlock_allow(&v->landlock, tree, op->is_directory, bind_right(op->kind));
        if (target >= 0)
                sys_close(target);
        sys_close(tree);
        return r;
}

/* Mounts `tree` on `target` for an operation and closes both; a negative `tree` is returned as it is. */
static int op_mount(const struct enter_view *v, const struct image_op *op, int tree, int target)
{
        int r = tree < 0 ? tree : sys_tree_attach(tree, target, "");
        if (r == 0)
                view_note_mount(v, op, tree);
        if (tree >= 0)
                sys_close(tree);
        sys_close(target);
        return r;
}

static int op_mask(struct enter_view *v, const struct image_op *op)
{
        static const enum mask_kind kinds[2][2] = { { MASK_DENIED_FILE, MASK_DENIED_DIRECTORY },
                                                    { MASK_EMPTY_FILE, MASK_EMPTY_DIRECTORY } };
        int target = sys_open_beneath(v->root, image_at(v->image, op->path), O_PATH | O_NOFOLLOW);
        if (target == -ENOENT && op->may_be_missing)
                return 0;
        if (target < 0)
                return target;
        enum mask_kind kind = kinds[plan_kind_row(op->kind)->gives == PLAN_GIVES_EMPTY][op->is_directory];
        return op_mount(v, op, is_same(target, op) ? sys_tree_copy(v->masks, mask_names[kind]) : -ESTALE,
                        target);
}

/* Mounts an empty directory that can be passed through but not listed. */
static int op_pass(struct enter_view *v, const struct image_op *op)
{
        int target = sys_open_beneath(v->root, image_at(v->image, op->path), O_PATH | O_NOFOLLOW);
        if (target < 0)
                return target;
        return op_mount(v, op,
                        is_same(target, op) ? view_tmpfs_make("0111", "1m", "65536", ATTR_TREE) : -ESTALE,
                        target);
}

static int op_seal(struct enter_view *v, const struct image_op *op)
{
        int target = sys_open_beneath(v->root, image_at(v->image, op->path), O_PATH | O_NOFOLLOW);
        if (target < 0)
                return target;
        int r = sys_mount_seal(target);
        sys_close(target);
        return r;
}

/* Makes a file, directory or link to mount on. It has the mode of its parent: inside of a mask it cannot be listed, in the
 * empty root it can. */
static int op_place(struct enter_view *v, const struct image_op *op)
{
        const char *path = image_at(v->image, op->path);
        char above[PATH_MAX];
        size_t n = 0, name = 0;
        for (; path[n] && n < sizeof(above) - 1; n++) {
                above[n] = path[n];
                if (path[n] == '/')
                        name = n + 1;
        }
        if (path[n])
                return -ENAMETOOLONG;
        above[name ? name - 1 : 0] = 0;
        int dir = name ? sys_open_beneath(v->root, above, O_PATH | O_DIRECTORY) : v->root;
        if (dir < 0)
                return dir;
        struct stat st;
        enum plan_act act = plan_kind_row(op->kind)->act;
        int r = sys_fstat(dir, &st);
        if (r == 0 && act == PLAN_ACT_DIRECTORY)
                r = sys_mkdirat(dir, path + name, st.st_mode & 0777);
        else if (r == 0 && act == PLAN_ACT_FILE)
                r = sys_touchat(dir, path + name, 0444);
        else if (r == 0)
                r = sys_symlinkat(image_at(v->image, op->text), dir, path + name);
        if (name)
                sys_close(dir);
        return r == -EEXIST ? 0 : r;
}

static int op_run(struct enter_view *v, const struct image_op *op)
{
        switch (plan_kind_row(op->kind)->act) {
        case PLAN_ACT_DIRECTORY:
        case PLAN_ACT_FILE:
        case PLAN_ACT_LINK:
                return op_place(v, op);
        case PLAN_ACT_BIND:
                return op_bind(v, op);
        case PLAN_ACT_MASK:
                return op_mask(v, op);
        case PLAN_ACT_PASS:
                return op_pass(v, op);
        case PLAN_ACT_SEAL:
                return op_seal(v, op);
        }
        return -EINVAL;
}

/* Waits until the keeper has made the placeholders. When the keeper fails or dies, this process is killed here. */
static void placeholders_await(const struct image *i)
{
        while (__atomic_load_n(&i->placeholders_due, __ATOMIC_ACQUIRE))
                (void)sys_call4(SYS_futex, &i->placeholders_due, FUTEX_WAIT, 1, NULL);
}

/* Runs the operations in the order of the plan. No operation is below a placeholder, so the operations on placeholders can
 * come last. */
static int ops_run(struct enter_view *v, bool are_on_placeholders, struct enter_failure *ret)
{
        const struct image *i = v->image;
        const struct image_op *ops = image_at(i, i->ops);
        for (uint32_t n = 0; n < i->op_count; n++) {
                int r = ops[n].is_on_placeholder == are_on_placeholders ? op_run(v, &ops[n]) : 0;
                if (r < 0)
                        return enter_fail(ret, ENTER_MOUNT, n, r);
        }
        return 0;
}

/* ---- the view as a whole ---- */

/* Mounts a read-only copy of /sys, with all mounts below it, on /sys. */
static int seal_sys_directory(struct enter_view *v)
{
        int tree = sys_tree_copy(v->root, "sys");
        if (tree < 0)
                return tree == -ENOENT ? 0 : tree;
        int r = sys_tree_set(tree, ATTR_TREE | SYS_ATTR_NOEXEC | SYS_ATTR_RDONLY);
        if (r < 0) {
                sys_close(tree);
                return r;
        }
        return view_attach(tree, v->root, "sys");
}

/* Builds the view of a command that sees the files of the machine, because its profile only closes the network. The mounts of
 * the machine stay, and later mounts appear. Only /proc and /sys are replaced, because both hold settings of the machine that
 * are not files of the user: /proc shows only the processes of the new namespace, and /sys is read-only. */
static int kept_begin(struct enter_view *v, struct enter_failure *ret)
{
        int r = (int)sys6(SYS_mount, 0, SYS_ARG("/"), 0, SYS_MS_REC | MS_SLAVE, 0, 0);
        if (r == 0)
                r = v->root = sys_open("/", O_PATH | O_DIRECTORY);
        if (r >= 0)
                r = seal_sys_directory(v);
        if (r < 0)
                return enter_fail(ret, ENTER_MOUNT, ENTER_NO_OP, r);
        r = view_proc_make(v);
        if (r < 0)
                return enter_fail(ret, ENTER_PROC, ENTER_NO_OP, r);
        r = enter_ruleset_begin(v->image, &v->landlock);
        return r < 0 ? enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r) : 0;
}

int enter_view_begin(struct enter_view *v, const struct image *i, struct enter_failure *ret)
{
        *v = (struct enter_view){ .image = i, .old = -1, .root = -1, .dev = -1, .children = -1 };
        v->landlock = LANDLOCK_NONE;
        if (!i->has_view)
                return kept_begin(v, ret);
        int r = enter_ruleset_begin(i, &v->landlock);
        if (r < 0)
                return enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r);
        r = view_begin(v);
        if (r < 0)
                return enter_fail(ret, ENTER_MOUNT, ENTER_NO_OP, r);
        r = view_dev_make(v);
        if (r < 0)
                return enter_fail(ret, ENTER_DEV, ENTER_NO_OP, r);
        r = view_proc_make(v);
        if (r < 0)
                return enter_fail(ret, ENTER_PROC, ENTER_NO_OP, r);
        r = landlock_allow(&v->landlock, v->root, true,
                           i->root == PLAN_ROOT_WRITE ? LANDLOCK_WRITE : LANDLOCK_LIST);
        if (r < 0)
                return enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r);
        r = view_check_begin(v);
        return r < 0 ? enter_fail(ret, ENTER_CHECK, ENTER_NO_OP, r) : 0;
}

static int stdio_take(struct enter_view *v, struct enter_stdio *io, struct enter_failure *ret)
{
        int r = enter_stdio_allow(&v->landlock, io);
        if (r < 0)
                return enter_fail(ret, ENTER_STDIO, ENTER_NO_OP, r);
        int tty = enter_stdio_terminal(io);
        if (tty < 0)
                return 0;
        r = view_dev_console(v, tty);
        if (r == 0)
                r = enter_stdio_reopen(io, v->dev);
        return r < 0 ? enter_fail(ret, ENTER_DEV, ENTER_NO_OP, r) : 0;
}

int enter_view_fill(struct enter_view *v, const struct image *i, struct enter_stdio *io,
                    struct enter_failure *ret)
{
        v->image = i;
        if (!i->has_view)
                return 0;
        int r = stdio_take(v, io, ret);
        if (r == 0)
                r = ops_run(v, false, ret);
        if (r < 0)
                return r;
        placeholders_await(i);
        r = ops_run(v, true, ret);
        if (r < 0)
                return r;
        r = sys_mount_seal(v->dev);
        return r < 0 ? enter_fail(ret, ENTER_DEV, ENTER_NO_OP, r) : 0;
}

int enter_view(const struct image *i, struct enter_stdio *io, int *ret_ruleset, struct enter_failure *ret)
{
        struct enter_view v;
        int r = enter_view_begin(&v, i, ret);
        if (r == 0)
                r = enter_view_fill(&v, i, io, ret);
        if (r == 0)
                r = enter_view_close(&v, ret);
        if (r == 0)
                *ret_ruleset = v.landlock.ruleset;
        return r;
}
