/* law_judge: what a law says of a path. Pure: paths in, an answer out. See law.h. */
#include "fsop/law.h"

#include <errno.h>
#include <stdlib.h>

struct verdict {
        enum law_kind kind;
        bool is_at;    /* it is about the path itself */
        bool is_point; /* … which is a point */
        bool is_directory;
        bool is_absent; /* no word on it in a law that speaks of all there is */
};

static int compare(const void *a, const void *b)
{
        struct slice x = ((const struct law_point *)a)->path, y = ((const struct law_point *)b)->path;
        int r = memcmp(x.p, y.p, MIN(x.n, y.n));
        return r ? r : x.n < y.n ? -1 : x.n > y.n;
}

void law_sort(struct law_point *points, size_t count)
{
        if (count > 0)
                qsort(points, count, sizeof(*points), compare);
}

static const struct law_point *find(const struct law *law, struct slice path)
{
        const struct law_point key = { .path = path };
        return law->count ? bsearch(&key, law->points, law->count, sizeof(key), compare) : NULL;
}

/* Of "/": n == 0. */
static struct slice parent_of(struct slice path)
{
        if (path.n <= 1)
                return slice_from(path.p, 0);
        while (path.p[path.n - 1] != '/')
                path.n--;
        return slice_from(path.p, path.n > 1 ? path.n - 1 : 1);
}

/* The deepest word on it. A pattern outweighs a point at the same path. */
static struct verdict verdict_on(const struct law *law, struct slice path)
{
        for (struct slice at = path; at.n > 0; at = parent_of(at)) {
                const struct law_point *point = find(law, at);
                bool is_denied = law->is_denied && law->is_denied(law->arg, at);
                if (!point && !is_denied)
                        continue;
                return (struct verdict){
                        .kind = is_denied ? LAW_HIDE : point->kind,
                        .is_at = at.n == path.n,
                        .is_point = point && at.n == path.n,
                        .is_directory = point && point->is_directory,
                };
        }
        return (struct verdict){ .kind = law->root, .is_absent = law->root == LAW_HIDE };
}

bool law_is_point(const struct law *law, struct slice path)
{
        return find(law, path) != NULL;
}

/* Beside the way through something hidden there is nothing. */
static bool is_absent(struct verdict v)
{
        return v.is_absent || (v.kind == LAW_PASS && !v.is_at);
}

/* A file, or an empty one in its place: nothing is below it. */
static bool is_file(struct verdict v)
{
        return (v.kind == LAW_HIDE || v.kind == LAW_COVER) && v.is_point && !v.is_directory;
}

int law_judge_search(const struct law *law, struct slice directory)
{
        struct verdict v = verdict_on(law, directory);
        if (is_absent(v))
                return -ENOENT;
        if (is_file(v))
                return -ENOTDIR;
        return v.kind == LAW_HIDE ? -EACCES : 0;
}

int law_judge_look(const struct law *law, struct slice path)
{
        struct verdict v = verdict_on(law, path);
        if (is_absent(v))
                return -ENOENT;
        return v.kind == LAW_HIDE ? -EACCES : 0;
}

int law_judge_read(const struct law *law, struct slice path)
{
        struct verdict v = verdict_on(law, path);
        if (is_absent(v))
                return -ENOENT;
        return v.kind == LAW_HIDE || v.kind == LAW_PASS ? -EACCES : 0;
}

int law_judge_write(const struct law *law, struct slice path)
{
        struct verdict v = verdict_on(law, path);
        if (is_absent(v))
                return -ENOENT;
        switch (v.kind) {
        case LAW_WRITE:
                return 0;
        case LAW_HIDE: /* a file is hidden by one that is read-only as well */
                return v.is_at && !v.is_directory ? -EROFS : -EACCES;
        case LAW_PASS:
                return -EACCES;
        case LAW_COVER:
                return v.is_at && v.is_directory ? -EISDIR : -EROFS;
        case LAW_READ:
                break;
        }
        return -EROFS;
}

/* May names in the directory of `path` come and go? */
static int judge_directory(const struct law *law, struct slice path)
{
        struct verdict v = verdict_on(law, parent_of(path));
        if (is_absent(v))
                return -ENOENT;
        if (is_file(v))
                return -ENOTDIR;
        if (v.kind == LAW_WRITE)
                return 0;
        return v.kind == LAW_HIDE ? -EACCES : -EROFS;
}

/* Names that come and names that go are judged alike, but for what is said of a point. */
static int judge_name(const struct law *law, struct slice path, int at_point)
{
        int r = judge_directory(law, path);
        if (r < 0)
                return r;
        struct verdict v = verdict_on(law, path);
        if (v.is_point)
                return at_point;
        return v.kind == LAW_HIDE ? -EACCES : 0;
}

int law_judge_make(const struct law *law, struct slice path)
{
        return judge_name(law, path, -EEXIST);
}

int law_judge_unmake(const struct law *law, struct slice path)
{
        return judge_name(law, path, -EBUSY);
}

int law_judge_directory(const struct law *law, struct slice path)
{
        return is_file(verdict_on(law, path)) ? -ENOTDIR : 0;
}

bool law_is_cover(const struct law *law, struct slice path)
{
        const struct law_point *point = find(law, path);
        return point && point->kind == LAW_COVER && point->is_directory;
}
