/* reach_judge: decides by the rules of a reach what is allowed for a path. Pure. */
#include "reach/reach.h"

#include <errno.h>
#include <stdlib.h>

struct verdict {
        enum reach_kind kind;
        bool is_at;    /* a point or pattern for the path itself decided, not one for a directory above it */
        bool is_point; /* the reach has a point at the path itself, whether or not a pattern decided */
        bool is_directory; /* the point that was found is a directory */
        bool is_absent; /* no point is at or above the path, and root is REACH_HIDE: the path looks missing */
};

static int compare(const void *a, const void *b)
{
        struct slice x = ((const struct reach_point *)a)->path, y = ((const struct reach_point *)b)->path;
        int r = memcmp(x.p, y.p, MIN(x.n, y.n));
        return r ? r : x.n < y.n ? -1 : x.n > y.n;
}

void reach_sort(struct reach_point *points, size_t count)
{
        if (count > 0)
                qsort(points, count, sizeof(*points), compare);
}

static const struct reach_point *find(const struct reach *reach, struct slice path)
{
        const struct reach_point key = { .path = path };
        return reach->count ? bsearch(&key, reach->points, reach->count, sizeof(key), compare) : NULL;
}

/* Returns the path of the directory above; an empty slice for "/". */
static struct slice parent_of(struct slice path)
{
        if (path.n <= 1)
                return slice_from(path.p, 0);
        while (path.p[path.n - 1] != '/')
                path.n--;
        return slice_from(path.p, path.n > 1 ? path.n - 1 : 1);
}

/* Finds the rule that applies to a path: that of the deepest point or pattern. A pattern beats a point at the same path. */
static struct verdict verdict_on(const struct reach *reach, struct slice path)
{
        for (struct slice at = path; at.n > 0; at = parent_of(at)) {
                const struct reach_point *point = find(reach, at);
                bool is_denied = reach->is_denied && reach->is_denied(reach->arg, at);
                if (!point && !is_denied)
                        continue;
                return (struct verdict){
                        .kind = is_denied ? REACH_HIDE : point->kind,
                        .is_at = at.n == path.n,
                        .is_point = point && at.n == path.n,
                        .is_directory = point && point->is_directory,
                };
        }
        return (struct verdict){ .kind = reach->root, .is_absent = reach->root == REACH_HIDE };
}

bool reach_is_point(const struct reach *reach, struct slice path)
{
        return find(reach, path) != NULL;
}

/* Returns whether the rules make a name look absent: a directory of kind REACH_PASS has only the names that lead to points. */
static bool is_absent(struct verdict v)
{
        return v.is_absent || (v.kind == REACH_PASS && !v.is_at);
}

/* Returns whether the rules make the path look like a file, so that nothing can be below it. */
static bool is_file(struct verdict v)
{
        return (v.kind == REACH_HIDE || v.kind == REACH_COVER) && v.is_point && !v.is_directory;
}

int reach_judge_search(const struct reach *reach, struct slice directory)
{
        struct verdict v = verdict_on(reach, directory);
        if (is_absent(v))
                return -ENOENT;
        if (is_file(v))
                return -ENOTDIR;
        return v.kind == REACH_HIDE ? -EACCES : 0;
}

int reach_judge_look(const struct reach *reach, struct slice path)
{
        struct verdict v = verdict_on(reach, path);
        if (is_absent(v))
                return -ENOENT;
        return v.kind == REACH_HIDE ? -EACCES : 0;
}

int reach_judge_read(const struct reach *reach, struct slice path)
{
        struct verdict v = verdict_on(reach, path);
        if (is_absent(v))
                return -ENOENT;
        return v.kind == REACH_HIDE || v.kind == REACH_PASS ? -EACCES : 0;
}

int reach_judge_write(const struct reach *reach, struct slice path)
{
        struct verdict v = verdict_on(reach, path);
        if (is_absent(v))
                return -ENOENT;
        switch (v.kind) {
        case REACH_WRITE:
                return 0;
        case REACH_HIDE: /* in the sandbox of a command, a read-only mount hides a file */
                return v.is_at && !v.is_directory ? -EROFS : -EACCES;
        case REACH_PASS:
                return -EACCES;
        case REACH_COVER:
                return v.is_at && v.is_directory ? -EISDIR : -EROFS;
        case REACH_READ:
                break;
        }
        return -EROFS;
}

/* Checks whether names may be created and removed in the directory of `path`. */
static int judge_directory(const struct reach *reach, struct slice path)
{
        struct verdict v = verdict_on(reach, parent_of(path));
        if (is_absent(v))
                return -ENOENT;
        if (is_file(v))
                return -ENOTDIR;
        if (v.kind == REACH_WRITE)
                return 0;
        return v.kind == REACH_HIDE ? -EACCES : -EROFS;
}

/* The rules for creating and for removing a name are the same, except for the error at a point. */
static int judge_name(const struct reach *reach, struct slice path, int at_point)
{
        int r = judge_directory(reach, path);
        if (r < 0)
                return r;
        struct verdict v = verdict_on(reach, path);
        if (v.is_point)
                return at_point;
        return v.kind == REACH_HIDE ? -EACCES : 0;
}

int reach_judge_make(const struct reach *reach, struct slice path)
{
        return judge_name(reach, path, -EEXIST);
}

int reach_judge_unmake(const struct reach *reach, struct slice path)
{
        return judge_name(reach, path, -EBUSY);
}

int reach_judge_directory(const struct reach *reach, struct slice path)
{
        return is_file(verdict_on(reach, path)) ? -ENOTDIR : 0;
}

bool reach_is_cover(const struct reach *reach, struct slice path)
{
        const struct reach_point *point = find(reach, path);
        return point && point->kind == REACH_COVER && point->is_directory;
}
