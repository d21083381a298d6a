/* enter_view: builds what the command sees of the file system, and makes it the root. See enter.h.
 *
 * The new root is put on top of the old one, and everything is mounted into it by descriptors: sources are looked up from
 * the old root, targets from the new one, neither through a link. The old root is let go last, or stays beneath where
 * nobody comes. All mounts are private: what the machine mounts later does not appear, writable, in here.
 */
#include "sandbox/enter_view_internal.h"
#include "sandbox/landlock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/sysmacros.h>

/* What lies on what is denied, or must not come into being. */
enum lid { LID_NO_DIRECTORY, LID_NO_FILE, LID_EMPTY_DIRECTORY, LID_EMPTY_FILE };
static const char *const lid_names[] = { "a", "b", "c", "d" };

static int fail(struct enter_failure *ret, enum enter_step step, uint32_t op, long r)
{
        *ret = (struct enter_failure){ .step = step, .os_errno = (int32_t)-r, .op = op };
        return (int)r;
}

/* ---- pieces ---- */

int view_tmpfs_make(const char *mode, const char *bytes, const char *inodes, unsigned attributes)
{
        int fs = sys_fsopen("tmpfs");
        if (fs < 0)
                return fs;
        int r = sys_fsconfig_text(fs, "mode", mode);
        if (r == 0)
                r = sys_fsconfig_text(fs, "size", bytes);
        if (r == 0)
                r = sys_fsconfig_text(fs, "nr_inodes", inodes);
        if (r == 0)
                r = sys_fsconfig_create(fs);
        if (r == 0)
                r = sys_fsmount(fs, attributes);
        sys_close(fs);
        return r;
}

int view_attach(int tree, int dir, const char *path)
{
        if (tree < 0)
                return tree;
        int r = sys_tree_attach(tree, dir, path);
        sys_close(tree);
        return r;
}

int view_allow_writes(const struct enter_view *v, int fd, bool is_directory)
{
        return v->ruleset < 0 ? 0 : landlock_allow(v->ruleset, v->image->landlock_abi, fd, is_directory);
}

/* ---- the root ---- */

bool enter_needs_lids(const struct image *i)
{
        const struct image_op *ops = image_at(i, i->ops);
        for (uint32_t n = 0; n < i->op_count; n++)
                if (ops[n].kind == PLAN_HIDE || ops[n].kind == PLAN_COVER)
                        return true;
        return false;
}

static int lids_make(struct enter_view *v)
{
        int fs = view_tmpfs_make("0700", "64k", "16", ATTR_TREE);
        if (fs < 0)
                return fs;
        v->lids = fs;
        int r = sys_mkdirat(fs, lid_names[LID_NO_DIRECTORY], 0);
        if (r == 0)
                r = sys_touchat(fs, lid_names[LID_NO_FILE], 0);
        if (r == 0)
                r = sys_mkdirat(fs, lid_names[LID_EMPTY_DIRECTORY], 0555);
        if (r == 0)
                r = sys_touchat(fs, lid_names[LID_EMPTY_FILE], 0444);
        if (r == 0)
                r = sys_mount_seal(fs);
        /* Only what is mounted can be copied. It goes with the old root. */
        return r == 0 ? sys_tree_attach(fs, v->old, "") : r;
}

static int root_make(struct enter_view *v)
{
        if (v->image->root == PLAN_ROOT_EMPTY) {
                v->root = view_tmpfs_make("0755", "16m", "65536", ATTR_TREE);
                return v->root < 0 ? v->root : 0;
        }
        v->root = sys_tree_copy(v->old, "");
        if (v->root < 0)
                return v->root;
        uint64_t attributes = v->image->root == PLAN_ROOT_READ ? ATTR_TREE | SYS_ATTR_RDONLY : ATTR_TREE;
        return sys_tree_set(v->root, attributes);
}

static int view_begin(struct enter_view *v, bool has_lids)
{
        int r = (int)sys6(SYS_mount, 0, SYS_ARG("/"), 0, SYS_MS_REC | SYS_MS_PRIVATE, 0, 0);
        if (r < 0)
                return r;
        v->old = sys_open("/", O_PATH | O_DIRECTORY);
        if (v->old < 0)
                return v->old;
        r = root_make(v);
        if (r == 0 && has_lids)
                r = lids_make(v);
        return r == 0 ? sys_tree_attach(v->root, v->old, "") : r;
}

/* An empty root shows less than the old one held: that goes. It is on top of the new one then, and is let go. */
static int view_end_empty(struct enter_view *v)
{
        int r = sys_mount_seal(v->root);
        if (r == 0)
                r = (int)sys_call1(SYS_fchdir, v->root);
        if (r == 0)
                r = (int)sys_call2(SYS_pivot_root, ".", ".");
        if (r == 0)
                r = (int)sys_call2(SYS_umount2, ".", SYS_MNT_DETACH);
        return r == 0 ? (int)sys_call1(SYS_chdir, "/") : r;
}

/* A copy of the old root stays on top of it. No path leads beneath: the new root lies on the very root of the namespace, so
 * that whatever comes there, by ".." or by entering the namespace, comes out in the new one, even with CAP_SYS_CHROOT.
 * Who could take it off (CAP_SYS_ADMIN, which nobody in here has or gets) could as well take off the masks and the
 * read-only flags of the copy, and has nothing from the old one that he would not have without it. Letting go of it, on the
 * other hand, means to wait until every processor has noticed. */
static int view_end(struct enter_view *v)
{
        if (v->image->root == PLAN_ROOT_EMPTY)
                return view_end_empty(v);
        int r = (int)sys_call1(SYS_fchdir, v->root);
        return r == 0 ? (int)sys_call1(SYS_chroot, ".") : r;
}

/* ---- operations ---- */

/* Is this what the plan saw? Then it is noted when it was made, for who guards it. */
static bool is_same(int fd, const struct image_op *op)
{
        struct statx st;
        if (op->ino == 0)
                return true;
        long r = sys6(SYS_statx, fd, SYS_ARG(""), AT_EMPTY_PATH, STATX_INO | STATX_BTIME, SYS_ARG(&st), 0);
        if (r < 0 || makedev(st.stx_dev_major, st.stx_dev_minor) != op->dev || st.stx_ino != op->ino)
                return false;
        ((struct image_op *)(uintptr_t)op)->born = image_born(&st);
        return true;
}

/* A device is written through a read-only mount as through any other. Only Landlock, where all devices but ours are
 * missing, makes one readable and no more. */
static bool may_hold_devices(const struct enter_view *v, const struct image_op *op, const char *path)
{
        bool is_in_dev = path[0] == 'd' && path[1] == 'e' && path[2] == 'v' && path[3] == '/';
        return is_in_dev &&
               (op->kind == PLAN_WRITE || (v->ruleset >= 0 && v->image->root != PLAN_ROOT_WRITE));
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
        uint64_t attributes = SYS_ATTR_NOSUID | (may_hold_devices(v, op, path) ? 0 : SYS_ATTR_NODEV) |
                              (op->kind == PLAN_READ ? SYS_ATTR_RDONLY : 0);
        int r = sys_tree_set(tree, attributes);
        int target = r < 0 ? r : sys_open_beneath(v->root, path, O_PATH | O_NOFOLLOW);
        r = target < 0 ? target : sys_tree_attach(tree, target, "");
        if (r == 0 && op->kind == PLAN_WRITE)
                r = view_allow_writes(v, tree, op->is_directory);
        if (target >= 0)
                sys_close(target);
        sys_close(tree);
        return r;
}

static int op_lid(struct enter_view *v, const struct image_op *op)
{
        static const enum lid lids[2][2] = { { LID_NO_FILE, LID_NO_DIRECTORY },
                                             { LID_EMPTY_FILE, LID_EMPTY_DIRECTORY } };
        int target = sys_open_beneath(v->root, image_at(v->image, op->path), O_PATH | O_NOFOLLOW);
        if (target == -ENOENT && op->may_miss)
                return 0;
        if (target < 0)
                return target;
        enum lid lid = lids[op->kind == PLAN_COVER][op->is_directory];
        int r = -ESTALE;
        if (is_same(target, op)) {
                int tree = sys_tree_copy(v->lids, lid_names[lid]);
                r = view_attach(tree, target, "");
        }
        sys_close(target);
        return r;
}

static int op_open(struct enter_view *v, const struct image_op *op)
{
        int target = sys_open_beneath(v->root, image_at(v->image, op->path), O_PATH | O_NOFOLLOW);
        if (target < 0)
                return target;
        int r = is_same(target, op)
                        ? view_attach(view_tmpfs_make("0111", "1m", "65536", ATTR_TREE), target, "")
                        : -ESTALE;
        sys_close(target);
        return r;
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

/* A place to mount on. In a mask nobody shall list it, in the empty root everybody may. */
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
        int r = sys_fstat(dir, &st);
        if (r == 0 && op->kind == PLAN_DIRECTORY)
                r = sys_mkdirat(dir, path + name, st.st_mode & 0777);
        else if (r == 0 && op->kind == PLAN_FILE)
                r = sys_touchat(dir, path + name, 0444);
        else if (r == 0)
                r = sys_symlinkat(image_at(v->image, op->text), dir, path + name);
        if (name)
                sys_close(dir);
        return r == -EEXIST ? 0 : r;
}

static int op_run(struct enter_view *v, const struct image_op *op)
{
        switch (op->kind) {
        case PLAN_DIRECTORY:
        case PLAN_FILE:
        case PLAN_LINK:
                return op_place(v, op);
        case PLAN_READ:
        case PLAN_WRITE:
        case PLAN_PIN:
                return op_bind(v, op);
        case PLAN_HIDE:
        case PLAN_COVER:
                return op_lid(v, op);
        case PLAN_OPEN:
                return op_open(v, op);
        case PLAN_SEAL:
                return op_seal(v, op);
        default:
                return -EINVAL;
        }
}

/* The keeper makes them while we build what needs none of them. When it cannot, or dies, we are killed here. */
static void stubs_await(const struct image *i)
{
        while (__atomic_load_n(&i->stubs_due, __ATOMIC_ACQUIRE))
                (void)sys_call4(SYS_futex, &i->stubs_due, FUTEX_WAIT, 1, NULL);
}

/* In the order of the plan. Nothing lies on what lies on a stub, so those can wait. */
static int ops_run(struct enter_view *v, bool are_on_stubs, struct enter_failure *ret)
{
        const struct image *i = v->image;
        const struct image_op *ops = image_at(i, i->ops);
        for (uint32_t n = 0; n < i->op_count; n++) {
                int r = ops[n].is_on_stub == are_on_stubs ? op_run(v, &ops[n]) : 0;
                if (r < 0)
                        return fail(ret, ENTER_MOUNT, n, r);
        }
        return 0;
}

int enter_view_begin(struct enter_view *v, const struct image *i, bool has_lids, struct enter_failure *ret)
{
        *v = (struct enter_view){
                .image = i, .old = -1, .root = -1, .dev = -1, .lids = -1, .ruleset = -1, .children = -1
        };
        if (i->landlock_abi > 0) {
                v->ruleset = landlock_begin(i->landlock_abi);
                if (v->ruleset < 0)
                        return fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, v->ruleset);
        }
        int r = view_begin(v, has_lids);
        if (r < 0)
                return fail(ret, ENTER_MOUNT, ENTER_NO_OP, r);
        r = view_dev_make(v);
        if (r < 0)
                return fail(ret, ENTER_DEV, ENTER_NO_OP, r);
        r = view_proc_make(v);
        return r < 0 ? fail(ret, ENTER_PROC, ENTER_NO_OP, r) : 0;
}

int enter_view_end(struct enter_view *v, const struct image *i, int tty, struct enter_failure *ret)
{
        v->image = i;
        /* Its terminal is of the machine's: /dev/stdout leads there. */
        int r = tty >= 0 ? view_allow_writes(v, tty, false) : 0;
        if (r < 0)
                return fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r);
        r = tty >= 0 ? view_dev_console(v, tty) : 0;
        if (r < 0)
                return fail(ret, ENTER_DEV, ENTER_NO_OP, r);
        r = ops_run(v, false, ret);
        if (r < 0)
                return r;
        stubs_await(i);
        r = ops_run(v, true, ret);
        if (r < 0)
                return r;
        r = sys_mount_seal(v->dev);
        if (r < 0)
                return fail(ret, ENTER_DEV, ENTER_NO_OP, r);
        r = i->root == PLAN_ROOT_WRITE ? view_allow_writes(v, v->root, true) : 0;
        if (r < 0)
                return fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r);
        r = view_end(v);
        return r < 0 ? fail(ret, ENTER_MOUNT, ENTER_NO_OP, r) : 0;
}

int enter_view(const struct image *i, int tty, int *ret_ruleset, struct enter_failure *ret)
{
        struct enter_view v;
        int r = enter_view_begin(&v, i, enter_needs_lids(i), ret);
        if (r == 0)
                r = enter_view_end(&v, i, tty, ret);
        if (r == 0)
                *ret_ruleset = v.ruleset;
        return r;
}
