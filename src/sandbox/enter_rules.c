/* enter_rules: makes the Landlock ruleset that replaces the view where there are no namespaces.
 *
 * The plan comes from plan/landlock_plan.h: readable and writable paths, none of which needs a narrower path inside.
 * Every path that is not named is closed. It makes raw system calls only, as all code between clone and execve does.
 */
#include "sandbox/bind.h"
#include "sandbox/enter.h"
#include "sandbox/landlock.h"
#include "sandbox/sys_mount.h"

#include <errno.h>

struct ruleset_build {
        const struct image *image;
        struct landlock landlock;
        int root; /* the root directory, opened */
};

/* Is this the file that the plan saw? */
static bool is_same(int fd, const struct image_op *op)
{
        struct stat st;
        return op->ino == 0 || (sys_fstat(fd, &st) == 0 && st.st_dev == op->dev && st.st_ino == op->ino);
}

static int op_allow(const struct ruleset_build *b, const struct image_op *op)
{
        if (plan_kind_row(op->kind)->act != PLAN_ACT_BIND)
                return -EINVAL;
        int fd = sys_open_beneath(b->root, image_at(b->image, op->path), O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT && op->may_be_missing)
                return 0;
        if (fd < 0)
                return fd;
        int r = -ESTALE;
        if (is_same(fd, op))
                r = landlock_allow(&b->landlock, fd, op->is_directory, bind_right(op->kind));
        sys_close(fd);
        return r;
}

/* Allows only the harmless devices: no disk, no keyboard, no terminal of another user. */
static int devices_allow(const struct ruleset_build *b)
{
        static const char *const nodes[] = { "dev/null",   "dev/zero",    "dev/full",
                                             "dev/random", "dev/urandom", "dev/tty" };
        int r = 0;
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(nodes); n++) {
                int fd = sys_open_beneath(b->root, nodes[n], O_PATH | O_NOFOLLOW);
                if (fd == -ENOENT)
                        continue;
                struct stat st;
                r = fd < 0 ? fd : sys_fstat(fd, &st);
                /* In some containers such a name is a regular file. */
                if (r == 0 && S_ISCHR(st.st_mode))
                        r = landlock_allow(&b->landlock, fd, false, LANDLOCK_DEVICE);
                if (fd >= 0)
                        sys_close(fd);
        }
        return r;
}

/* Allows the files in /proc about the command itself, which stays the same process after execve. */
static int self_allow(const struct ruleset_build *b)
{
        int fd = sys_open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd == -ENOENT)
                return 0;
        int r = fd < 0 ? fd : landlock_allow(&b->landlock, fd, true, LANDLOCK_READ);
        if (fd >= 0)
                sys_close(fd);
        return r;
}

static int ruleset_build(struct ruleset_build *b, const struct enter_stdio *io, struct enter_failure *ret)
{
        const struct image *i = b->image;
        const struct image_op *ops = image_at(i, i->ops);
        int r = i->root == PLAN_ROOT_READ ? landlock_allow(&b->landlock, b->root, true, LANDLOCK_LIST) : 0;
        if (r == 0)
                r = devices_allow(b);
        if (r == 0 && !i->hides_proc)
                r = self_allow(b);
        if (r < 0)
                return enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r);
        r = enter_stdio_allow(&b->landlock, io);
        if (r < 0)
                return enter_fail(ret, ENTER_STDIO, ENTER_NO_OP, r);
        for (uint32_t n = 0; n < i->op_count; n++) {
                r = op_allow(b, &ops[n]);
                if (r < 0)
                        return enter_fail(ret, ENTER_LANDLOCK, n, r);
        }
        return 0;
}

int enter_rules(const struct image *i, const struct enter_stdio *io, int *ret_ruleset,
                struct enter_failure *ret)
{
        struct ruleset_build b = { .image = i };
        int r = sys_prctl(PR_SET_NO_NEW_PRIVS, 1); /* required before a ruleset can be applied */
        if (r < 0)
                return enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r);
        r = landlock_begin(&b.landlock, i->has_view ? LANDLOCK_ALONE : LANDLOCK_NOTHING, i->landlock_abi);
        if (r < 0)
                return enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r);
        *ret_ruleset = b.landlock.ruleset;
        if (!i->has_view)
                return 0;
        b.root = sys_open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = b.root < 0 ? enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, b.root) : ruleset_build(&b, io, ret);
        if (b.root >= 0)
                sys_close(b.root);
        return r;
}
