/* bwrap: turns a plan into arguments of bwrap, in the order in which enter_view.c would carry it out. */
#include "sandbox/bwrap.h"

#include "policy/rules.h"
#include "sandbox/bind.h"
#include "sandbox/view_paths.h"

#include <errno.h>

void bwrap_arguments_release(struct bwrap_arguments *a)
{
        buf_release(&a->text);
        buf_release(&a->others);
}

static int put(struct bwrap_arguments *a, struct slice text)
{
        a->count++;
        int r = buf_append(&a->text, text);
        return r < 0 ? r : buf_append_char(&a->text, 0);
}

static int put_all(struct bwrap_arguments *a, const char *const *list)
{
        int r = 0;
        for (; r == 0 && *list; list++)
                r = put(a, slice_from_str(*list));
        return r;
}
#define PUT(a, ...) put_all(a, (const char *const[]){ __VA_ARGS__, NULL })

/* Adds `option` and a path to the arguments. */
static int put_at(struct bwrap_arguments *a, const char *option, struct slice path)
{
        int r = PUT(a, option);
        return r < 0 ? r : put(a, path);
}

/* ---- operations ---- */

/* Adds the arguments that mount a path of the machine on the same path of the view. */
static int put_bind(struct bwrap_arguments *a, const char *option, struct slice path)
{
        int r = put_at(a, option, path);
        return r < 0 ? r : put(a, path);
}

static int put_bind_op(struct bwrap_arguments *a, const struct plan *p, const struct plan_op *op,
                       bool has_landlock)
{
        bool is_device = slice_starts(op->path, S("/dev/"));
        uint64_t attributes = bind_attributes(op->kind);
        if (attributes & ~(uint64_t)(SYS_ATTR_NOSUID | SYS_ATTR_RDONLY))
                return -EOPNOTSUPP; /* bwrap has no option for other attributes */
        if (!(attributes & SYS_ATTR_RDONLY))
                return put_bind(a, is_device && op->kind == PLAN_WRITE ? "--dev-bind" : "--bind", op->path);
        if (!is_device || !has_landlock || p->root == PLAN_ROOT_WRITE)
                return put_bind(a, "--ro-bind", op->path);
        int r = put_bind(a, "--dev-bind", op->path);
        return r < 0 ? r : put_at(a, "--remount-ro", op->path);
}

/* Adds the arguments that mount an empty file. bwrap makes that file itself; it reads the content, which is empty, from a
 * descriptor. */
static int put_mask_file(struct bwrap_arguments *a, const char *mode, struct slice path)
{
        char number[16];
        (void)snprintf(number, sizeof(number), "%u", (unsigned)BWRAP_FD_EMPTY + a->empties++);
        int r = PUT(a, "--perms", mode, "--ro-bind-data", number);
        return r < 0 ? r : put(a, path);
}

static int put_mask_directory(struct bwrap_arguments *a, const char *mode, struct slice path)
{
        int r = PUT(a, "--perms", mode);
        if (r == 0)
                r = put_at(a, "--tmpfs", path);
        return r < 0 ? r : put_at(a, "--remount-ro", path);
}

/* Is the path about a process in /proc that does not exist in the view? Only process 1 exists there, and bwrap cannot mount on
 * a missing path. */
static bool is_of_other_process(struct slice path)
{
        if (!slice_starts(path, S("/proc/")) || path.n < 7 || path.p[6] < '0' || path.p[6] > '9')
                return false;
        return path.p[6] != '1' || (path.n > 7 && path.p[7] != '/');
}

static int put_mask(struct bwrap_arguments *a, const struct plan_op *op, bool is_directory)
{
        /* A mask that prevents shows an empty file or directory. A mask that hides has no permission bits. */
        bool is_readable = plan_kind_row(op->kind)->gives == PLAN_GIVES_EMPTY;
        if (op->may_be_missing && is_of_other_process(op->path))
                return 0;
        return is_directory ? put_mask_directory(a, is_readable ? "0555" : "0000", op->path)
                            : put_mask_file(a, is_readable ? "0444" : "0000", op->path);
}

/* Makes a directory to mount on. Inside of a mask it cannot be listed, in the empty root it can. */
static int put_place(struct bwrap_arguments *a, const struct plan *p, const struct plan_op *op)
{
        bool is_masked = false;
        for (const struct plan_op *o = p->ops; o < op; o++)
                is_masked |=
                        plan_kind_row(o->kind)->act == PLAN_ACT_PASS && path_is_within(op->path, o->path);
        int r = PUT(a, "--perms", is_masked ? "0111" : "0755");
        return r < 0 ? r : put_at(a, "--dir", op->path);
}

static int put_operation(struct bwrap_arguments *a, const struct plan *p, const struct plan_op *op,
                         bool has_landlock)
{
        int r;
        switch (plan_kind_row(op->kind)->act) {
        case PLAN_ACT_DIRECTORY:
                return put_place(a, p, op);
        case PLAN_ACT_FILE:
                return 0; /* bwrap makes the file when something is mounted on it */
        case PLAN_ACT_LINK:
                r = put_at(a, "--symlink", op->text);
                return r < 0 ? r : put(a, op->path);
        case PLAN_ACT_BIND:
                return put_bind_op(a, p, op, has_landlock);
        case PLAN_ACT_MASK:
                return put_mask(a, op, op->is_directory);
        case PLAN_ACT_PASS:
                r = PUT(a, "--perms", "0111");
                return r < 0 ? r : put_at(a, "--tmpfs", op->path);
        case PLAN_ACT_SEAL:
                return put_at(a, "--remount-ro", op->path);
        }
        return -EINVAL;
}

/* ---- the view ---- */

static int put_root(struct bwrap_arguments *a, const struct plan *p)
{
        if (p->root == PLAN_ROOT_EMPTY)
                return 0; /* bwrap begins with an empty root anyway */
        return PUT(a, p->root == PLAN_ROOT_READ ? "--ro-bind" : "--bind", "/", "/");
}

/* Adds the arguments that mount /proc and make every setting of the kernel in it read-only. bwrap by itself does that only for
 * settings that look writable, but a directory can look read-only and hold writable files. */
static int put_proc(struct bwrap_arguments *a)
{
        int r = PUT(a, "--proc", "/proc");
        for (const char *const *setting = view_settings; r == 0 && *setting; setting++) {
                char path[64];
                (void)snprintf(path, sizeof(path), "/%s", *setting);
                r = PUT(a, "--ro-bind-try", path, path);
        }
        return r;
}

static void texts_swap(struct bwrap_arguments *a)
{
        struct buf text = a->text;
        a->text = a->others;
        a->others = text;
}

/* Writes the arguments of two masks: the planned one into `text`, and the one for the other kind of file into `others`. */
static int put_placeholder(struct bwrap_arguments *a, const struct plan *p, size_t n)
{
        const struct plan_op *op = &p->ops[p->placeholders[n].op];
        struct bwrap_placeholder *s = &a->placeholders[n];
        s->planned.at = (uint32_t)a->text.n;
        int r = put_mask(a, op, op->is_directory);
        s->planned.bytes = (uint32_t)a->text.n - s->planned.at;
        texts_swap(a);
        uint32_t count = a->count;
        s->other.at = (uint32_t)a->text.n;
        if (r == 0)
                r = put_mask(a, op, !op->is_directory);
        s->other.bytes = (uint32_t)a->text.n - s->other.at;
        texts_swap(a);
        a->count = count + 1; /* only one of the two masks is used, and `other` may have one argument more */
        return r;
}

static int put_operations(struct bwrap_arguments *a, const struct plan *p, bool has_landlock)
{
        size_t placeholders = 0;
        int r = 0;
        for (size_t i = 0; r == 0 && i < p->op_count && a->count <= BWRAP_ARGUMENTS_MAX; i++) {
                bool is_placeholder =
                        placeholders < p->placeholder_count && p->placeholders[placeholders].op == i;
                r = is_placeholder ? put_placeholder(a, p, placeholders++)
                                   : put_operation(a, p, &p->ops[i], has_landlock);
        }
        return r;
}

static int put_view(struct bwrap_arguments *a, const struct plan *p, bool has_landlock)
{
        int r = PUT(a, "--unshare-pid", "--unshare-ipc", "--as-pid-1");
        if (r == 0)
                r = put_root(a, p);
        if (r == 0)
                r = PUT(a, "--dev", "/dev", "--perms", "1777", "--size", "67108864", "--tmpfs", "/dev/shm");
        if (r == 0)
                r = put_proc(a);
        if (r == 0)
                r = put_operations(a, p, has_landlock);
        if (r == 0 && p->root == PLAN_ROOT_EMPTY)
                r = PUT(a, "--remount-ro", "/");
        return r;
}

/* Mounts the whole machine, except for /proc and /sys, as enter_view.c does. */
static int put_whole_machine(struct bwrap_arguments *a)
{
        int r = PUT(a, "--unshare-pid", "--unshare-ipc", "--as-pid-1", "--dev-bind", "/", "/");
        if (r == 0)
                r = put_proc(a);
        return r < 0 ? r : PUT(a, "--ro-bind-try", "/sys", "/sys");
}

int bwrap_arguments_make(const struct plan *p, bool has_landlock, struct bwrap_arguments *ret,
                         struct err *err)
{
        buf_truncate(&ret->text, 0);
        buf_truncate(&ret->others, 0);
        ret->count = ret->empties = 0;
        int r = PUT(ret, "--unshare-user", "--die-with-parent", "--cap-drop", "ALL", "--chdir", "/");
        if (r == 0 && !p->has_network)
                r = PUT(ret, "--unshare-net");
        if (r == 0)
                r = p->has_view ? put_view(ret, p, has_landlock) : put_whole_machine(ret);
        if (r == 0 && ret->count <= BWRAP_ARGUMENTS_MAX)
                return 0;
        err->step = "bubblewrap";
        if (r == -EOPNOTSUPP) {
                err->os_errno = EOPNOTSUPP;
                return err_set(err, 0, r,
                               "sandbox intent cannot be enforced on this executor: bwrap has no such mount");
        }
        err->os_errno = E2BIG;
        err->remedy = "name fewer paths, or deny directories rather than what is in them";
        return err_set(err, 0, -E2BIG, "the profile needs more arguments than bwrap takes");
}
