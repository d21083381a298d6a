/* path: the order, the parts and the joining of absolute paths. */
#include "policy/path.h"

bool path_is_within(struct slice path, struct slice above)
{
        if (!slice_starts(path, above))
                return false;
        return path.n == above.n || above.n == 1 || path.p[above.n] == '/';
}

int path_compare(struct slice a, struct slice b)
{
        size_t n = MIN(a.n, b.n), i = 0;
        while (i < n && a.p[i] == b.p[i])
                i++;
        if (i == n)
                return (a.n > b.n) - (a.n < b.n);
        if (a.p[i] == '/' || b.p[i] == '/')
                return a.p[i] == '/' ? -1 : 1;
        return (unsigned char)a.p[i] < (unsigned char)b.p[i] ? -1 : 1;
}

struct slice path_parent(struct slice path)
{
        size_t n = path.n - path_name(path).n;
        return n <= 1 ? S("/") : slice_from(path.p, n - 1);
}

struct slice path_name(struct slice path)
{
        size_t n = path.n;
        while (n > 0 && path.p[n - 1] != '/')
                n--;
        /* Nothing is added to the pointer of an empty path, which may be NULL. */
        return n == 0 ? path : slice_from(path.p + n, path.n - n);
}

struct slice path_join(struct arena *a, struct slice directory, struct slice name)
{
        size_t n = directory.n == 1 ? 0 : directory.n; /* for the root: without its slash */
        return slice_from(arena_printf(a, "%.*s/%.*s", (int)n, directory.p, SLICE(name)), n + 1 + name.n);
}
