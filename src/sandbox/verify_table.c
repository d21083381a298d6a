/* verify_table: checks every mount of a view that bwrap has built, and refuses those that are not in the plan.
 *
 * The list is that of proc_pid_mountinfo(5), which every kernel has. enter_check.c asks newer kernels and knows the numbers
 * of the mounts that it has made; here only paths and attributes are known. A mount is accepted when it is the only one at
 * the root; when it is in /dev or /proc and every view has it; or when it is at or below a path that the plan mounts, with
 * the attributes of that operation. Only raw system calls are made.
 */
#include "base/sys_proc.h"
#include "plan/mount_escape.h"
#include "sandbox/enter_view_internal.h"
#include "sandbox/verify_internal.h"
#include "sandbox/view_paths.h"

#include <errno.h>
#include <limits.h>

#define ESCAPED_MAX (4 * PATH_MAX) /* each byte may be written as an octal escape */

struct table {
        const struct image *image;
        int root;
        uint32_t roots; /* the number of mounts at `/` */
};

/* A line that is being read. */
struct line {
        unsigned field;
        size_t point_n, option_n;
        char point[ESCAPED_MAX + 1];
        char options[2];
};
enum { FIELD_POINT = 4, FIELD_OPTIONS };

/* ---- paths, without their leading slash ---- */

static bool is_equal(const char *a, const char *b)
{
        while (*a && *a == *b) {
                a++;
                b++;
        }
        return *a == *b;
}

static bool is_within(const char *path, const char *top)
{
        for (; *top; top++, path++)
                if (*path != *top)
                        return false;
        return *path == 0 || *path == '/';
}

/* ---- checking one mount ---- */

/* Is this a mount that every view has? */
static bool is_own(const char *path)
{
        static const char *const others[] = { "dev", "dev/pts", "dev/shm", "proc" };
        for (size_t n = 0; n < ARRAY_LEN(others); n++)
                if (is_equal(path, others[n]))
                        return true;
        for (const char *const *device = view_devices; *device; device++)
                if (is_equal(path, *device))
                        return true;
        for (const char *const *setting = view_settings; *setting; setting++)
                if (is_within(path, *setting))
                        return true;
        return false;
}

/* Returns the deepest operation of the plan at or above a path; deeper ones come later in the plan. *ret_is_planned: the plan
 * mounts on this very path, or mounts a tree of the machine at or above it. */
static const struct image_op *op_above(const struct image *i, const char *path, bool *ret_is_planned)
{
        const struct image_op *ops = image_at(i, i->ops), *found = NULL;
        *ret_is_planned = false;
        for (uint32_t n = 0; n < i->op_count; n++) {
                enum plan_act act = plan_kind_row(ops[n].kind)->act;
                const char *top = image_at(i, ops[n].path);
                if (!plan_kind_is_mount(ops[n].kind) || !is_within(path, top))
                        continue;
                found = &ops[n];
                *ret_is_planned |= act == PLAN_ACT_BIND || is_equal(path, top);
        }
        return found;
}

/* Checks that the mount that a path leads to is read-only; of several mounts on that path this is the topmost. */
static int check_read_only(const struct table *t, const char *path)
{
        struct verify_found found;
        int fd = sys_open_beneath(t->root, path, O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EACCES)
                return 0; /* the mount cannot be reached: another mount covers it, or this user may not pass */
        int r = fd < 0 ? fd : verify_find(fd, &found);
        if (fd >= 0)
                sys_close(fd);
        return r < 0 || found.is_read_only ? r : -EPROTO;
}

static int mount_check(struct table *t, const char *path, bool is_read_only)
{
        const struct image *i = t->image;
        bool is_planned;
        if (path[0] == 0)
                return ++t->roots == 1 ? 0 : -EPROTO;
        if (is_own(path))
                return 0;
        if (i->root != PLAN_ROOT_EMPTY && is_read_only)
                return 0;
        const struct image_op *above = op_above(i, path, &is_planned);
        if (i->root == PLAN_ROOT_EMPTY && !is_planned)
                return -EPROTO;
        bool is_writable = above ? plan_kind_is_writable(above->kind) : i->root == PLAN_ROOT_WRITE;
        return is_read_only || is_writable ? 0 : check_read_only(t, path);
}

/* ---- reading the list of mounts ---- */

static int line_end(struct table *t, struct line *l)
{
        if (l->field < FIELD_OPTIONS || l->option_n < 2 || l->point_n == 0 || l->point[0] != '/')
                return -EBADMSG;
        l->point[mount_unescape(l->point, l->point_n)] = 0;
        int r = mount_check(t, l->point + 1, l->options[0] == 'r' && l->options[1] == 'o');
        l->field = 0;
        l->point_n = l->option_n = 0;
        return r;
}

static int line_take(struct table *t, struct line *l, char c)
{
        if (c == '\n')
                return line_end(t, l);
        if (c == ' ') {
                l->field++;
        } else if (l->field == FIELD_POINT) {
                if (l->point_n == ESCAPED_MAX)
                        return -ENAMETOOLONG;
                l->point[l->point_n++] = c;
        } else if (l->field == FIELD_OPTIONS && l->option_n < sizeof(l->options)) {
                l->options[l->option_n++] = c;
        }
        return 0;
}

/* Opens the list by the number of this process, so that no link is followed, and without leaving that /proc, so that no other
 * file mounted on the list is read. */
static int list_open(int root)
{
        struct sys_path path = { .n = 0 };
        sys_path_add_pid(&path, sys_getpid());
        sys_path_add(&path, "/mountinfo");
        const struct open_how how = {
                .flags = O_RDONLY | O_CLOEXEC,
                .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH,
        };
        int proc = sys_open_beneath(root, "proc", O_PATH | O_DIRECTORY);
        if (proc < 0)
                return proc;
        int fd = (int)sys_call4(SYS_openat2, proc, path.text, &how, sizeof(how));
        sys_close(proc);
        return fd;
}

static int list_check(struct table *t, int fd)
{
        struct line line = { .field = 0 };
        char bytes[4096];
        for (;;) {
                long n = sys_read(fd, bytes, sizeof(bytes));
                if (n == -EINTR)
                        continue;
                if (n < 0)
                        return (int)n;
                if (n == 0)
                        return t->roots == 1 && line.field == 0 ? 0 : -EPROTO;
                for (long i = 0; i < n; i++) {
                        int r = line_take(t, &line, bytes[i]);
                        if (r < 0)
                                return r;
                }
        }
}

int verify_table(const struct image *i, int root)
{
        struct table t = { .image = i, .root = root };
        int r = view_check_root(root);
        if (r < 0 || !i->has_view)
                return r; /* without a view the mounts are those of the machine */
        int fd = list_open(root);
        r = fd < 0 ? fd : list_check(&t, fd);
        if (fd >= 0)
                sys_close(fd);
        return r;
}
