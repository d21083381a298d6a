/* filer_law: see filer_law.h. A line per operation and pattern, each with its NUL. */
#include "server/filer_law.h"

#include "base/arena.h"
#include "base/mem.h"
#include "policy/pattern.h"
#include "sandbox/plan.h"

#include <errno.h>

struct record {
        uint32_t kind; /* enum plan_kind, or PLAN_KINDS for a pattern */
        uint32_t bytes;
        uint64_t dev, ino; /* of a pattern, in dev: how deep below its prefix it holds; 0: no bound */
        uint32_t is_directory;
        uint32_t root; /* enum plan_root, in each */
};

static int put(struct buf *b, const struct record *r, struct slice text)
{
        int e = buf_append(b, slice_from(r, sizeof(*r)));
        return e < 0 ? e : buf_append(b, text);
}

int filer_law_write(const struct plan *p, struct buf *ret)
{
        struct slice whose = p->whose.p ? p->whose : S("");
        int r = put(ret, &(struct record){ .kind = PLAN_SEAL, .bytes = (uint32_t)whose.n, .root = p->root },
                    whose);
        for (size_t i = 0; r == 0 && i < p->op_count; i++) {
                const struct plan_op *op = &p->ops[i];
                if (op->kind == PLAN_SEAL)
                        continue;
                r = put(ret,
                        &(struct record){ .kind = op->kind,
                                          .bytes = (uint32_t)op->path.n,
                                          .dev = op->dev,
                                          .ino = op->ino,
                                          .is_directory = op->is_directory,
                                          .root = p->root },
                        op->path);
        }
        for (size_t i = 0; r == 0 && i < p->glob_count; i++)
                r = put(ret,
                        &(struct record){ .kind = PLAN_KINDS,
                                          .dev = p->glob_depth,
                                          .bytes = (uint32_t)p->globs[i].n,
                                          .root = p->root },
                        p->globs[i]);
        return r;
}

/* ---- in the filer */

struct patterns {
        const struct pattern **list;
        size_t count;
        uint64_t depth;
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

/* What /proc tells of a process: of a filer it would be about us, of others it is not for files' sake that one asks. */
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

static bool is_denied(void *arg, struct slice path)
{
        const struct patterns *p = arg;
        if (is_process(path))
                return true;
        for (size_t i = 0; i < p->count; i++)
                if (is_matched(p, p->list[i], path))
                        return true;
        return false;
}

struct reader {
        struct law_point *points;
        size_t count;
        bool has_pass;
        bool is_whole; /* the law speaks of all there is: places are part of it */
        struct patterns *patterns;
        struct arena *arena;
        struct err *err;
};

static void add(struct reader *r, struct slice path, enum law_kind kind, bool is_directory)
{
        for (size_t i = 0; i < r->count; i++)
                if (slice_eq(r->points[i].path, path))
                        return;
        r->points[r->count++] = (struct law_point){ path, kind, is_directory };
}

/* A place to mount on leads to what is open; in a root of our own it needs no leave. */
static bool is_hidden(const struct reader *r, struct slice path)
{
        const struct law_point *deepest = NULL;
        if (r->is_whole || !r->has_pass)
                return r->is_whole;
        for (size_t i = 0; i < r->count; i++)
                if (path_is_within(path, r->points[i].path) &&
                    (!deepest || r->points[i].path.n > deepest->path.n))
                        deepest = &r->points[i];
        return deepest && (deepest->kind == LAW_PASS || deepest->kind == LAW_HIDE);
}

static int take(struct reader *r, const struct record *record, struct slice text)
{
        static const enum law_kind kinds[] = {
                [PLAN_READ] = LAW_READ, [PLAN_WRITE] = LAW_WRITE, [PLAN_PIN] = LAW_WRITE,
                [PLAN_HIDE] = LAW_HIDE, [PLAN_OPEN] = LAW_PASS,   [PLAN_COVER] = LAW_COVER,
        };
        switch (record->kind) {
        case PLAN_KINDS:
                r->patterns->depth = record->dev;
                return pattern_compile(r->arena, text, &r->patterns->list[r->patterns->count++], r->err);
        case PLAN_SEAL:
                return 0;
        case PLAN_DIRECTORY:
        case PLAN_FILE:
        case PLAN_LINK:
                if (is_hidden(r, text))
                        r->points[r->count++] = (struct law_point){ text, LAW_PASS, record->is_directory };
                return 0;
        default:
                must(record->kind < ARRAY_LEN(kinds));
                r->has_pass |= record->kind == PLAN_OPEN;
                r->points[r->count++] = (struct law_point){ text, kinds[record->kind], record->is_directory };
                return 0;
        }
}

/* What a view has of its own, and the names of the filer itself. */
static void add_private(struct reader *r, bool is_alone)
{
        static const char *const devices[] = { "/dev/null",   "/dev/zero",    "/dev/full",
                                               "/dev/random", "/dev/urandom", "/dev/tty" };
        for (size_t i = 0; i < ARRAY_LEN(devices); i++)
                add(r, slice_from_str(devices[i]), LAW_WRITE, false);
        if (is_alone)
                add(r, S("/dev"), LAW_PASS, true); /* the machine's: nothing else in it */
        else
                add(r, S("/dev/shm"), LAW_WRITE, true);
        add(r, S("/proc/self"), LAW_HIDE, true);
        add(r, S("/proc/thread-self"), LAW_HIDE, true);
}

#define PRIVATE_MAX 16

/* Of a place and what is mounted on it, that one. They are sorted. */
static void drop_places(struct reader *r)
{
        size_t kept = 0;
        for (size_t i = 0; i < r->count; i++) {
                struct law_point *last = kept > 0 ? &r->points[kept - 1] : NULL;
                if (!last || !slice_eq(last->path, r->points[i].path))
                        r->points[kept++] = r->points[i];
                else if (last->kind == LAW_PASS)
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

int filer_law_read(struct arena *a, struct slice bytes, bool is_alone, struct law *ret, struct err *err)
{
        struct reader r = { .arena = a, .err = err, .patterns = arena_new(a, struct patterns) };
        struct record record;
        struct slice text, rest = bytes;
        size_t count = 0;
        enum plan_root root = PLAN_ROOT_EMPTY;
        while (next(&rest, &record, &text)) {
                count++;
                root = (enum plan_root)record.root;
        }
        r.is_whole = is_alone && root == PLAN_ROOT_EMPTY;
        r.points = arena_alloc(a, (count + PRIVATE_MAX) * sizeof(*r.points));
        r.patterns->list = arena_alloc(a, (count + 1) * sizeof(*r.patterns->list));
        for (rest = bytes; next(&rest, &record, &text);) {
                int e = take(&r, &record, text);
                if (e < 0)
                        return e;
        }
        add_private(&r, is_alone);
        if (r.is_whole)
                add(&r, S("/"), LAW_PASS, true);
        law_sort(r.points, r.count);
        drop_places(&r);
        *ret = (struct law){
                /* In a root of our own there is only what may be seen. */
                .root = root == PLAN_ROOT_WRITE ? LAW_WRITE
                        : r.is_whole            ? LAW_HIDE
                                                : LAW_READ,
                .points = r.points,
                .count = r.count,
                .is_denied = is_denied,
                .arg = r.patterns,
        };
        return 0;
}
