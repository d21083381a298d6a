/* bwrap: see bwrap.h. Here: a plan becomes arguments, in the order of enter_view.c. */
#include "sandbox/bwrap.h"

#include "policy/rules.h"
#include "sandbox/verify.h"

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

/* `option` and a path. */
static int put_at(struct bwrap_arguments *a, const char *option, struct slice path)
{
        int r = PUT(a, option);
        return r < 0 ? r : put(a, path);
}

/* ---- operations ---- */

/* From the machine onto the same path of the view. */
static int bind(struct bwrap_arguments *a, const char *option, struct slice path)
{
        int r = put_at(a, option, path);
        return r < 0 ? r : put(a, path);
}

static int bind_op(struct bwrap_arguments *a, const struct plan *p, const struct plan_op *op,
                   bool has_landlock)
{
        bool is_device = slice_starts(op->path, S("/dev/"));
        if (op->kind != PLAN_READ)
                return bind(a, is_device && op->kind == PLAN_WRITE ? "--dev-bind" : "--bind", op->path);
        if (!is_device || !has_landlock || p->root == PLAN_ROOT_WRITE)
                return bind(a, "--ro-bind", op->path);
        int r = bind(a, "--dev-bind", op->path);
        return r < 0 ? r : put_at(a, "--remount-ro", op->path);
}

/* An empty file of bwrap's own: a descriptor is where it reads what shall be in there. */
static int lid_file(struct bwrap_arguments *a, const char *mode, struct slice path)
{
        char number[16];
        (void)snprintf(number, sizeof(number), "%u", (unsigned)BWRAP_FD_EMPTY + a->empties++);
        int r = PUT(a, "--perms", mode, "--ro-bind-data", number);
        return r < 0 ? r : put(a, path);
}

static int lid_directory(struct bwrap_arguments *a, const char *mode, struct slice path)
{
        int r = PUT(a, "--perms", mode);
        if (r == 0)
                r = put_at(a, "--tmpfs", path);
        return r < 0 ? r : put_at(a, "--remount-ro", path);
}

/* Of the machine's processes none is in there, and bwrap could not lay anything on what is missing. Number 1 is. */
static bool is_of_a_stranger(struct slice path)
{
        if (!slice_starts(path, S("/proc/")) || path.n < 7 || path.p[6] < '0' || path.p[6] > '9')
                return false;
        return path.p[6] != '1' || (path.n > 7 && path.p[7] != '/');
}

static int lid(struct bwrap_arguments *a, const struct plan_op *op, bool is_directory)
{
        bool covers = op->kind == PLAN_COVER;
        if (op->may_miss && is_of_a_stranger(op->path))
                return 0;
        return is_directory ? lid_directory(a, covers ? "0555" : "0000", op->path)
                            : lid_file(a, covers ? "0444" : "0000", op->path);
}

/* In a mask nobody shall list it, in the empty root everybody may. */
static int place(struct bwrap_arguments *a, const struct plan *p, const struct plan_op *op)
{
        bool is_masked = false;
        for (const struct plan_op *o = p->ops; o < op; o++)
                is_masked |= o->kind == PLAN_OPEN && path_is_within(op->path, o->path);
        int r = PUT(a, "--perms", is_masked ? "0111" : "0755");
        return r < 0 ? r : put_at(a, "--dir", op->path);
}

static int operation(struct bwrap_arguments *a, const struct plan *p, const struct plan_op *op,
                     bool has_landlock)
{
        int r;
        switch (op->kind) {
        case PLAN_DIRECTORY:
                return place(a, p, op);
        case PLAN_FILE:
                return 0; /* is made by what is mounted on it */
        case PLAN_LINK:
                r = put_at(a, "--symlink", op->text);
                return r < 0 ? r : put(a, op->path);
        case PLAN_READ:
        case PLAN_WRITE:
        case PLAN_PIN:
                return bind_op(a, p, op, has_landlock);
        case PLAN_HIDE:
        case PLAN_COVER:
                return lid(a, op, op->is_directory);
        case PLAN_OPEN:
                r = PUT(a, "--perms", "0111");
                return r < 0 ? r : put_at(a, "--tmpfs", op->path);
        case PLAN_SEAL:
                return put_at(a, "--remount-ro", op->path);
        default:
                return -EINVAL;
        }
}

/* ---- the view ---- */

static int root(struct bwrap_arguments *a, const struct plan *p)
{
        if (p->root == PLAN_ROOT_EMPTY)
                return 0; /* as bwrap begins */
        return PUT(a, p->root == PLAN_ROOT_READ ? "--ro-bind" : "--bind", "/", "/");
}

/* bwrap covers those of them that look writable; that says little of a directory whose files are. */
static int proc(struct bwrap_arguments *a)
{
        int r = PUT(a, "--proc", "/proc");
        for (const char *const *knob = verify_knobs; r == 0 && *knob; knob++) {
                char path[64];
                (void)snprintf(path, sizeof(path), "/%s", *knob);
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

/* Each of the two ways to lie on it, the planned one in its place. */
static int stub(struct bwrap_arguments *a, const struct plan *p, size_t n)
{
        const struct plan_op *op = &p->ops[p->stubs[n].op];
        struct bwrap_stub *s = &a->stubs[n];
        s->planned.at = (uint32_t)a->text.n;
        int r = lid(a, op, op->is_directory);
        s->planned.bytes = (uint32_t)a->text.n - s->planned.at;
        texts_swap(a);
        uint32_t count = a->count;
        s->other.at = (uint32_t)a->text.n;
        if (r == 0)
                r = lid(a, op, !op->is_directory);
        s->other.bytes = (uint32_t)a->text.n - s->other.at;
        texts_swap(a);
        a->count = count + 1; /* only one of them is used, and one may be longer by one */
        return r;
}

static int operations(struct bwrap_arguments *a, const struct plan *p, bool has_landlock)
{
        size_t stubs = 0;
        int r = 0;
        for (size_t i = 0; r == 0 && i < p->op_count && a->count <= BWRAP_ARGUMENTS_MAX; i++) {
                bool is_stub = stubs < p->stub_count && p->stubs[stubs].op == i;
                r = is_stub ? stub(a, p, stubs++) : operation(a, p, &p->ops[i], has_landlock);
        }
        return r;
}

static int view(struct bwrap_arguments *a, const struct plan *p, bool has_landlock)
{
        int r = PUT(a, "--unshare-pid", "--unshare-ipc", "--as-pid-1");
        if (r == 0)
                r = root(a, p);
        if (r == 0)
                r = PUT(a, "--dev", "/dev", "--perms", "1777", "--size", "67108864", "--tmpfs", "/dev/shm");
        if (r == 0)
                r = proc(a);
        if (r == 0)
                r = operations(a, p, has_landlock);
        if (r == 0 && p->root == PLAN_ROOT_EMPTY)
                r = PUT(a, "--remount-ro", "/");
        return r;
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
                r = p->has_view ? view(ret, p, has_landlock) : PUT(ret, "--dev-bind", "/", "/");
        if (r == 0 && ret->count <= BWRAP_ARGUMENTS_MAX)
                return 0;
        err->step = "bubblewrap";
        err->os_errno = E2BIG;
        err->remedy = "name fewer paths, or deny directories rather than what is in them";
        return err_set(err, 0, -E2BIG, "the profile needs more arguments than bwrap takes");
}
