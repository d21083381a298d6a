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
        struct slice at; /* the path whose point or pattern decided; empty: the root decided */
        const struct reach_point *point; /* the point that was found, or NULL */
        bool is_denied;                  /* a denied pattern decided (reach::is_denied) */
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
                        .at = at,
                        .point = point,
                        .is_denied = is_denied,
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

static int judge_search(struct verdict v)
{
        if (is_absent(v))
                return -ENOENT;
        if (is_file(v))
                return -ENOTDIR;
        return v.kind == REACH_HIDE ? -EACCES : 0;
}

static int judge_look(struct verdict v)
{
        if (is_absent(v))
                return -ENOENT;
        return v.kind == REACH_HIDE ? -EACCES : 0;
}

static int judge_get(struct verdict v)
{
        if (is_absent(v))
                return -ENOENT;
        return v.kind == REACH_HIDE || v.kind == REACH_PASS ? -EACCES : 0;
}

static int judge_put(struct verdict v)
{
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

/* Judges whether names may be created and removed in a directory. */
static int judge_names(struct verdict v)
{
        if (is_absent(v))
                return -ENOENT;
        if (is_file(v))
                return -ENOTDIR;
        if (v.kind == REACH_WRITE)
                return 0;
        return v.kind == REACH_HIDE ? -EACCES : -EROFS;
}

/* The rules for creating and for removing a name are the same, except for the error at a point. */
static int judge_name(const struct reach *reach, struct slice path, int at_point, struct verdict *ret)
{
        *ret = verdict_on(reach, parent_of(path));
        int r = judge_names(*ret);
        if (r < 0)
                return r;
        *ret = verdict_on(reach, path);
        if (ret->is_point)
                return at_point;
        return ret->kind == REACH_HIDE ? -EACCES : 0;
}

/* Judges, and stores the verdict that decided. */
static int judge(const struct reach *reach, enum reach_deed deed, struct slice path, struct verdict *ret)
{
        if (deed == REACH_MAKE || deed == REACH_UNMAKE)
                return judge_name(reach, path, deed == REACH_MAKE ? -EEXIST : -EBUSY, ret);
        *ret = verdict_on(reach, path);
        switch (deed) {
        case REACH_SEARCH:
                return judge_search(*ret);
        case REACH_LOOK:
                return judge_look(*ret);
        case REACH_GET:
                return judge_get(*ret);
        case REACH_AS_DIRECTORY:
                return is_file(*ret) ? -ENOTDIR : 0;
        case REACH_PUT:
        case REACH_MAKE:
        case REACH_UNMAKE:
                break;
        }
        return judge_put(*ret);
}

int reach_judge(const struct reach *reach, enum reach_deed deed, struct slice path)
{
        struct verdict ignored;
        return judge(reach, deed, path, &ignored);
}

bool reach_is_cover(const struct reach *reach, struct slice path)
{
        const struct reach_point *point = find(reach, path);
        return point && point->kind == REACH_COVER && point->is_directory;
}

/* ---- explaining */

static bool is_in(struct slice path, struct slice directory)
{
        return slice_starts(path, directory) && (path.n == directory.n || path.p[directory.n] == '/');
}

/* Returns the first rule of the profile below a point of the kind REACH_RULE_BELOW: because of it the point must not be moved or removed. */
static const struct reach_point *point_below(const struct reach *reach, const struct reach_point *above)
{
        /* A name that sorts before '/', as "a-b" beside "a", may stand between a point and what is below it. */
        for (const struct reach_point *p = above + 1; p < reach->points + reach->count; p++) {
                if (!slice_starts(p->path, above->path))
                        return NULL;
                if (is_in(p->path, above->path) && p->rule != REACH_RULE_BELOW && p->rule != REACH_RULE_ABOVE)
                        return p;
        }
        return NULL;
}

static struct reach_reason reason_of_root(const struct reach *reach, struct slice path)
{
        bool is_own = is_in(path, S("/dev")) || is_in(path, S("/proc"));
        return (struct reach_reason){ .rule = is_own ? REACH_RULE_OWN : reach->root_rule };
}

static struct reach_reason reason_of(const struct reach *reach, struct verdict v, struct slice path)
{
        while (!v.is_denied && v.point && v.point->rule == REACH_RULE_ABOVE)
                v = verdict_on(reach, parent_of(v.at));
        if (v.is_denied) {
                struct slice pattern = reach->denied_by ? reach->denied_by(reach->arg, v.at) : S("");
                return (struct reach_reason){ pattern.n > 0 ? REACH_RULE_PATTERN : REACH_RULE_OWN, pattern };
        }
        const struct reach_point *point = v.point;
        if (point && point->rule == REACH_RULE_BELOW)
                point = point_below(reach, point);
        if (!point)
                return reason_of_root(reach, path);
        bool is_named = point->rule == REACH_RULE_ENTRY || point->rule == REACH_RULE_PROTECTED;
        return (struct reach_reason){ point->rule, is_named ? point->path : S("") };
}

bool reach_explain(const struct reach *reach, enum reach_deed deed, struct slice path,
                   struct reach_reason *ret)
{
        struct verdict v;
        int r = judge(reach, deed, path, &v);
        /* A point that is neither hidden nor covered exists on the machine: nothing can be made there, rules or not. */
        bool is_there = r == -EEXIST && v.kind != REACH_HIDE && v.kind != REACH_COVER;
        if (r == 0 || is_there)
                return false;
        *ret = reason_of(reach, v, path);
        return true;
}

bool reach_explain_missing(const struct reach *reach, struct slice path, struct reach_reason *ret)
{
        struct verdict v = verdict_on(reach, path);
        bool is_unlisted = reach->lacks_unlisted && v.at.n == 0 && !is_in(path, S("/proc"));
        bool is_device = reach->has_own_dev && v.at.n == 0 && is_in(path, S("/dev"));
        if (!is_absent(v) && v.kind != REACH_HIDE && !is_unlisted && !is_device)
                return false;
        *ret = reason_of(reach, v, path);
        return true;
}
