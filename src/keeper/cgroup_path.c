/* cgroup_path: finds the directory of the cgroup of this process, as a pure function of two texts of /proc (cgroup.h). */
#include "keeper/cgroup.h"

#include <errno.h>

#define ROOT_MAX (64 * 1024) /* bytes of the root of a mount in mountinfo */

/* Returns the path of the cgroup (version 2) in the text of /proc/self/cgroup; p == NULL when there is none. */
static struct slice self_path(struct slice self)
{
        while (self.n > 0) {
                struct slice line = slice_split(&self, '\n');
                if (slice_starts(line, S("0::/")))
                        return slice_from(line.p + 3, line.n - 3);
        }
        return (struct slice){ NULL, 0 };
}

/* Undoes the escapes of mountinfo, which writes blanks, newlines and backslashes as \ooo. */
static int unescape(struct slice s, struct buf *ret)
{
        int r = 0;
        for (size_t i = 0; i < s.n && r == 0; i++) {
                char c = s.p[i];
                if (c == '\\' && s.n - i > 3) {
                        c = (char)((s.p[i + 1] - '0') * 64 + (s.p[i + 2] - '0') * 8 + (s.p[i + 3] - '0'));
                        i += 3;
                }
                r = buf_append_char(ret, c);
        }
        return r;
}

/* Returns the part of `path` below `root`, or NULL when `path` is not below `root`. */
static const char *path_below(struct slice path, struct slice root)
{
        if (slice_eq(root, S("/")))
                return path.n == 1 ? path.p + 1 : path.p;
        if (!slice_starts(path, root) || (path.n > root.n && path.p[root.n] != '/'))
                return NULL;
        return path.p + root.n;
}

/* Parses a line of mountinfo: "id parent major:minor root point options [tags…] - type source options". */
static bool mount_parse(struct slice line, struct slice *ret_root, struct slice *ret_point)
{
        struct slice fields[5] = { { NULL, 0 } };
        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
                fields[i] = slice_split(&line, ' ');
        while (line.n > 0)
                if (slice_eq(slice_split(&line, ' '), S("-")))
                        break;
        *ret_root = fields[3];
        *ret_point = fields[4];
        return slice_eq(slice_split(&line, ' '), S("cgroup2")) && slice_starts(fields[3], S("/")) &&
               slice_starts(fields[4], S("/"));
}

/* When cgroups are mounted several times the last mount is used: it may cover the others. */
int cgroup_path_find(struct slice self, struct slice mountinfo, struct buf *ret, size_t *ret_mount)
{
        struct slice path = self_path(self);
        if (path.n == 0 || slice_starts(path, S("/.."))) /* outside of our cgroup namespace */
                return -ENOENT;

        struct slice found = { NULL, 0 };
        const char *below = NULL;
        while (mountinfo.n > 0) {
                struct slice root, point;
                if (!mount_parse(slice_split(&mountinfo, '\n'), &root, &point))
                        continue;
                _buf_ struct buf plain = BUF_INIT(ROOT_MAX);
                const char *b = unescape(root, &plain) == 0 ? path_below(path, buf_slice(&plain)) : NULL;
                if (b) {
                        below = b;
                        found = point;
                }
        }
        if (!below)
                return -ENOENT;

        size_t before = ret->n;
        int r = unescape(found, ret);
        size_t mount = ret->n - before;
        if (r == 0)
                r = buf_append(ret, slice_from(below, (size_t)(path.p + path.n - below)));
        if (r < 0) {
                buf_truncate(ret, before);
                return r;
        }
        *ret_mount = mount;
        return 0;
}
