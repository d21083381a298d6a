/* reach_pack: writes a plan as a list of records, one for each operation and pattern with its text and a NUL, and reads it
 * back. */
#include "confine/reach_pack.h"

#include "base/arena.h"
#include "base/mem.h"
#include "plan/plan.h"
#include "policy/pattern.h"

#include <errno.h>

#define PATTERN UINT32_MAX

struct record {
        uint32_t gives; /* enum plan_gives, or PATTERN */
        uint32_t bytes;
        /* In the record of a pattern `dev` is the depth below its prefix to which it applies (0: any), and `ino` is
         * plan::is_overfull. */
        uint64_t dev, ino;
        uint64_t
                born; /* only tells keys apart: a directory that was made again is not the one that a view has mounted */
        uint32_t is_directory;
        uint32_t root;   /* enum plan_root, the same in each record */
        uint32_t reason; /* enum plan_reason; a pattern has none */
        uint32_t unused; /* 0, so that equal records have equal bytes */
};
_Static_assert(sizeof(struct record) == 48, "no padding");

static int put(struct buf *b, const struct record *r, struct slice text)
{
        int e = buf_append(b, slice_from(r, sizeof(*r)));
        return e < 0 ? e : buf_append(b, text);
}

int reach_pack(const struct plan *p, struct buf *ret)
{
        struct slice whose = p->profile_key.p ? p->profile_key : S("");
        int r = put(ret,
                    &(struct record){
                            .gives = PLAN_GIVES_NO_WORD, .bytes = (uint32_t)whose.n, .root = p->root },
                    whose);
        for (size_t i = 0; r == 0 && i < p->op_count; i++) {
                const struct plan_op *op = &p->ops[i];
                enum plan_gives gives = plan_kind_row(op->kind)->gives;
                if (gives == PLAN_GIVES_NO_WORD)
                        continue;
                r = put(ret,
                        &(struct record){ .gives = gives,
                                          .bytes = (uint32_t)op->path.n,
                                          .dev = op->dev,
                                          .ino = op->ino,
                                          .born = op->born,
                                          .is_directory = op->is_directory,
                                          .root = p->root,
                                          .reason = plan_reason(op) },
                        op->path);
        }
        for (size_t i = 0; r == 0 && i < p->glob_count; i++)
                r = put(ret,
                        &(struct record){ .gives = PATTERN,
                                          .dev = p->glob_depth,
                                          .ino = p->is_overfull,
                                          .bytes = (uint32_t)p->globs[i].n,
                                          .root = p->root },
                        p->globs[i]);
        return r;
}

/* ---- reading the records, in the fs helper */

struct patterns {
        const struct pattern **list;
        struct slice *texts; /* the text of each */
        size_t count;
        uint64_t depth;   /* how many levels below its prefix a pattern is applied; 0: all */
        bool is_overfull; /* the scan found more matches than it listed */
};

static size_t components(struct slice path)
{
        size_t n = 0;
        for (size_t i = 0; i < path.n; i++)
                n += path.p[i] == '/' && i + 1 < path.n;
        return n;
}

static bool is_matched(const struct patterns *p, const struct pattern *pattern, struct slice path)
{
        return pattern_matches(pattern, path) &&
               (p->depth == 0 || components(path) - components(pattern_prefix(pattern)) <= p->depth);
}

/* Is this the directory of a process in /proc? These are denied: one would show the fs helper itself, and the others are no files
 * of the client. */
static bool is_process(struct slice path)
{
        struct slice proc = S("/proc/");
        if (path.n <= proc.n || !slice_starts(path, proc))
                return false;
        for (size_t i = proc.n; i < path.n; i++)
                if (path.p[i] < '0' || path.p[i] > '9')
                        return false;
        return true;
}

/* Returns the text of the pattern that matches the path, or an empty slice. */
static struct slice denied_by(void *arg, struct slice path)
{
        const struct patterns *p = arg;
        for (size_t i = 0; i < p->count; i++)
                if (is_matched(p, p->list[i], path))
                        return p->texts[i];
        return S("");
}

static bool is_denied(void *arg, struct slice path)
{
        return is_process(path) || denied_by(arg, path).n > 0;
}

/* May a pattern match something below this path? Needed only when the plan has too many matches to have a point for each of
 * them; otherwise the points answer this. */
static bool may_deny_below(void *arg, struct slice path)
{
        const struct patterns *p = arg;
        for (size_t i = 0; p->is_overfull && i < p->count; i++)
                if (pattern_may_match_below(p->list[i], path))
                        return true;
        return false;
}

struct reader {
        struct reach_point *points;
        size_t count;
        bool has_pass; /* one of the points is a directory that can only be passed through (PLAN_GIVES_PASS) */
        bool is_whole; /* the process has no view of its own: the reach also contains the paths that masks lie on */
        bool has_writable; /* the plan lets something be written */
        struct patterns *patterns;
        struct arena *arena;
        struct err *err;
};

static void add(struct reader *r, struct slice path, enum reach_kind kind, bool is_directory,
                enum reach_rule rule)
{
        for (size_t i = 0; i < r->count; i++)
                if (slice_eq(r->points[i].path, path))
                        return;
        r->points[r->count++] = (struct reach_point){ path, kind, is_directory, rule };
}

static enum reach_rule read_only_rule(const struct reader *r)
{
        return r->has_writable ? REACH_RULE_OUTSIDE : REACH_RULE_READ_ONLY;
}

static enum reach_rule rule_of(const struct reader *r, const struct record *record)
{
        switch ((enum plan_reason)record->reason) {
        case PLAN_REASON_ENTRY:
                return REACH_RULE_ENTRY;
        case PLAN_REASON_PROTECTED:
                return REACH_RULE_PROTECTED;
        case PLAN_REASON_PATTERN:
                return REACH_RULE_PATTERN;
        case PLAN_REASON_PLATFORM:
                return read_only_rule(r);
        case PLAN_REASON_PIN:
                return REACH_RULE_BELOW;
        case PLAN_REASON_WAY:
                return REACH_RULE_ABOVE;
        case PLAN_REASON_OWN:
                break;
        }
        return REACH_RULE_OWN;
}

/* Must the reach open the way to this mount point? Yes where the reach hides everything else, or where the nearest point above the
 * mount point is hidden. */
static bool is_hidden(const struct reader *r, struct slice path)
{
        const struct reach_point *deepest = NULL;
        if (r->is_whole || !r->has_pass)
                return r->is_whole;
        for (size_t i = 0; i < r->count; i++)
                if (path_is_within(path, r->points[i].path) &&
                    (!deepest || r->points[i].path.n > deepest->path.n))
                        deepest = &r->points[i];
        return deepest && (deepest->kind == REACH_PASS || deepest->kind == REACH_HIDE);
}

static int take(struct reader *r, const struct record *record, struct slice text)
{
        enum reach_kind kind = REACH_HIDE;
        if (record->gives == PATTERN) {
                r->patterns->depth = record->dev;
                r->patterns->is_overfull = record->ino;
                r->patterns->texts[r->patterns->count] = text;
                return pattern_compile(r->arena, text, &r->patterns->list[r->patterns->count++], r->err);
        }
        switch ((enum plan_gives)record->gives) {
        case PLAN_GIVES_NO_WORD:
                return 0;
        case PLAN_GIVES_WAY:
                if (!is_hidden(r, text))
                        return 0;
                kind = REACH_PASS;
                break;
        case PLAN_GIVES_READ:
                kind = REACH_READ;
                break;
        case PLAN_GIVES_WRITE:
                kind = REACH_WRITE;
                break;
        case PLAN_GIVES_PASS:
                r->has_pass = true;
                kind = REACH_PASS;
                break;
        case PLAN_GIVES_EMPTY:
                kind = REACH_COVER;
                break;
        case PLAN_GIVES_NOTHING:
                break; /* denied; an unknown value is denied as well */
        }
        r->points[r->count++] = (struct reach_point){ text, kind, record->is_directory, rule_of(r, record) };
        return 0;
}

/* Adds the devices that every view has, and hides the links in /proc that lead to the directory of the fs helper itself. */
static void add_private(struct reader *r, bool is_alone)
{
        static const char *const devices[] = { "/dev/null",   "/dev/zero",    "/dev/full",
                                               "/dev/random", "/dev/urandom", "/dev/tty" };
        for (size_t i = 0; i < ARRAY_LEN(devices); i++)
                add(r, slice_from_str(devices[i]), REACH_WRITE, false, REACH_RULE_OWN);
        if (is_alone)
                add(r, S("/dev"), REACH_PASS, true,
                    REACH_RULE_OWN); /* the machine's /dev: only these devices can be used */
        else
                add(r, S("/dev/shm"), REACH_WRITE, true, REACH_RULE_OWN);
        add(r, S("/proc/self"), REACH_HIDE, true, REACH_RULE_OWN);
        add(r, S("/proc/thread-self"), REACH_HIDE, true, REACH_RULE_OWN);
}

#define PRIVATE_MAX 16

/* Of two points with the same path, one is of a mount point (REACH_PASS) and the other of what is mounted there: keeps the latter.
 * The points are sorted. */
static void drop_covered_points(struct reader *r)
{
        size_t kept = 0;
        for (size_t i = 0; i < r->count; i++) {
                struct reach_point *last = kept > 0 ? &r->points[kept - 1] : NULL;
                if (!last || !slice_eq(last->path, r->points[i].path))
                        r->points[kept++] = r->points[i];
                else if (last->kind == REACH_PASS)
                        *last = r->points[i];
        }
        r->count = kept;
}

static bool next(struct slice *bytes, struct record *ret, struct slice *ret_text)
{
        if (bytes->n < sizeof(*ret))
                return false;
        memcpy(ret, bytes->p, sizeof(*ret));
        if (bytes->n - sizeof(*ret) < ret->bytes)
                return false;
        *ret_text = slice_from(bytes->p + sizeof(*ret), ret->bytes);
        *bytes = slice_from(ret_text->p + ret->bytes, bytes->n - sizeof(*ret) - ret->bytes);
        return true;
}

int reach_unpack(struct arena *a, struct slice bytes, bool is_alone, struct reach *ret, struct err *err)
{
        struct reader r = { .arena = a, .err = err, .patterns = arena_new(a, struct patterns) };
        struct record record;
        struct slice text, rest = bytes;
        size_t count = 0;
        enum plan_root root = PLAN_ROOT_EMPTY;
        while (next(&rest, &record, &text)) {
                count++;
                root = (enum plan_root)record.root;
                r.has_writable |= record.gives == PLAN_GIVES_WRITE || root == PLAN_ROOT_WRITE;
        }
        r.is_whole = is_alone && root == PLAN_ROOT_EMPTY;
        r.points = arena_alloc(a, (count + PRIVATE_MAX) * sizeof(*r.points));
        r.patterns->list = arena_alloc(a, (count + 1) * sizeof(*r.patterns->list));
        r.patterns->texts = arena_alloc(a, (count + 1) * sizeof(*r.patterns->texts));
        for (rest = bytes; next(&rest, &record, &text);) {
                int e = take(&r, &record, text);
                if (e < 0)
                        return e;
        }
        add_private(&r, is_alone);
        if (r.is_whole)
                add(&r, S("/"), REACH_PASS, true, REACH_RULE_NO_ENTRY);
        reach_sort(r.points, r.count);
        drop_covered_points(&r);
        *ret = (struct reach){
                /* An empty root shows only what the profile allows to see, so that everything in it can be read. */
                .root = root == PLAN_ROOT_WRITE ? REACH_WRITE
                        : r.is_whole            ? REACH_HIDE
                                                : REACH_READ,
                .root_rule = root == PLAN_ROOT_EMPTY ? REACH_RULE_NO_ENTRY : read_only_rule(&r),
                .points = r.points,
                .count = r.count,
                .is_denied = is_denied,
                .may_deny_below = may_deny_below,
                .denied_by = denied_by,
                .arg = r.patterns,
                .has_own_dev = !is_alone,
                .lacks_unlisted = !is_alone && root == PLAN_ROOT_EMPTY,
        };
        return 0;
}
