/* enter_rules: what stands for the view where there are no namespaces: a Landlock ruleset. See enter.h.
 *
 * The plan is one of sandbox/landlock_plan.h: readable and writable places, none inside of another that would have to be
 * narrower. Everything that is not named is closed. Raw, as all that runs between clone and execve.
 */
#include "sandbox/enter.h"
#include "sandbox/landlock.h"
#include "sandbox/sys_mount.h"

#include <errno.h>

struct rules_build {
        const struct image *image;
        int root, ruleset;
};

static int fail(struct enter_failure *ret, uint32_t op, long r)
{
        *ret = (struct enter_failure){ .step = ENTER_LANDLOCK, .os_errno = (int32_t)-r, .op = op };
        return (int)r;
}

static int allow(const struct rules_build *b, int fd, bool is_directory, enum landlock_right right)
{
        return landlock_alone_allow(b->ruleset, b->image->landlock_abi, fd, is_directory, right);
}

/* Is this what the plan saw? */
static bool is_same(int fd, const struct image_op *op)
{
        struct stat st;
        return op->ino == 0 || (sys_fstat(fd, &st) == 0 && st.st_dev == op->dev && st.st_ino == op->ino);
}

static int op_allow(const struct rules_build *b, const struct image_op *op)
{
        if (op->kind != PLAN_READ && op->kind != PLAN_WRITE)
                return -EINVAL;
        int fd = sys_open_beneath(b->root, image_at(b->image, op->path), O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT && op->may_miss)
                return 0;
        if (fd < 0)
                return fd;
        int r = -ESTALE;
        if (is_same(fd, op))
                r = allow(b, fd, op->is_directory, op->kind == PLAN_READ ? LANDLOCK_READ : LANDLOCK_WRITE);
        sys_close(fd);
        return r;
}

/* The harmless devices, and no others: no raw disk, no keyboard, no terminal of somebody else's. */
static int devices_allow(const struct rules_build *b, int tty)
{
        static const char *const nodes[] = { "dev/null",   "dev/zero",    "dev/full",
                                             "dev/random", "dev/urandom", "dev/tty" };
        int r = tty >= 0 ? allow(b, tty, false, LANDLOCK_DEVICE) : 0;
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(nodes); n++) {
                int fd = sys_open_beneath(b->root, nodes[n], O_PATH | O_NOFOLLOW);
                if (fd == -ENOENT)
                        continue;
                struct stat st;
                r = fd < 0 ? fd : sys_fstat(fd, &st);
                /* In some containers a name here is a plain file. */
                if (r == 0 && S_ISCHR(st.st_mode))
                        r = allow(b, fd, false, LANDLOCK_DEVICE);
                if (fd >= 0)
                        sys_close(fd);
        }
        return r;
}

/* What /proc says of the command itself: it stays the same process. */
static int self_allow(const struct rules_build *b)
{
        int fd = sys_open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd == -ENOENT)
                return 0;
        int r = fd < 0 ? fd : allow(b, fd, true, LANDLOCK_READ);
        if (fd >= 0)
                sys_close(fd);
        return r;
}

static int rules_build(struct rules_build *b, int tty, struct enter_failure *ret)
{
        const struct image *i = b->image;
        const struct image_op *ops = image_at(i, i->ops);
        int r = i->root == PLAN_ROOT_READ ? allow(b, b->root, true, LANDLOCK_LIST) : 0;
        if (r == 0)
                r = devices_allow(b, tty);
        if (r == 0 && !i->hides_proc)
                r = self_allow(b);
        if (r < 0)
                return fail(ret, ENTER_NO_OP, r);
        for (uint32_t n = 0; n < i->op_count; n++) {
                r = op_allow(b, &ops[n]);
                if (r < 0)
                        return fail(ret, n, r);
        }
        return 0;
}

int enter_rules(const struct image *i, int tty, int *ret_ruleset, struct enter_failure *ret)
{
        struct rules_build b = { .image = i };
        int r = sys_prctl(PR_SET_NO_NEW_PRIVS, 1); /* or the kernel takes no ruleset */
        if (r < 0)
                return fail(ret, ENTER_NO_OP, r);
        b.ruleset = i->has_view ? landlock_alone_begin(i->landlock_abi) : landlock_domain_begin();
        if (b.ruleset < 0)
                return fail(ret, ENTER_NO_OP, b.ruleset);
        *ret_ruleset = b.ruleset;
        if (!i->has_view)
                return 0;
        b.root = sys_open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = b.root < 0 ? fail(ret, ENTER_NO_OP, b.root) : rules_build(&b, tty, ret);
        if (b.root >= 0)
                sys_close(b.root);
        return r;
}
