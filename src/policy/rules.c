/* rules: resolves the entries of a profile to sorted lists of absolute paths and patterns.
 *
 * This works on names only: nothing here knows whether a path exists or is a symbolic link. A joined path is cleaned again.
 * The directory in front of a relative pattern is quoted, so that a `[` in its name stays a `[`.
 */
#include "policy/rules.h"

#include "base/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

ACCESS_COMPARED(3);

#define ROOTS_PATTERN \
        "codex-project-roots://" /* in front of a pattern that is relative to each workspace root */

const char *const rules_protected_names[] = { ".git", ".agents", ".codex", ".aws", NULL };

const char *const rules_platform_roots[] = {
        "/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw", NULL,
};

struct builder {
        struct arena *arena;
        const struct place *place;
        struct rules *rules;
        size_t list_allocated, globs_allocated;
        size_t bytes; /* the bytes of all paths and patterns so far */
        struct err *err;
};

/* --- paths -------------------------------------------------------------------------------------------------------- */

static bool subpath_stays_below(struct slice subpath)
{
        size_t depth = 0;

        if (slice_starts(subpath, S("/")))
                return false;
        while (subpath.p) {
                struct slice part = slice_split(&subpath, '/');
                if (part.n == 0 || slice_eq(part, S(".")))
                        continue;
                if (!slice_eq(part, S("..")))
                        depth++;
                else if (depth-- == 0)
                        return false;
        }
        return true;
}

/* Counts the bytes of a path before the path is built, and refuses too many: a few entries and many long workspace roots can make
 * a very large list. */
static int charge(struct builder *b, size_t bytes)
{
        if (bytes > RULES_PATH_MAX)
                return err_set(b->err, 0, -ENAMETOOLONG, "a permission path has at most %d bytes",
                               RULES_PATH_MAX);
        if (b->rules->count + b->rules->glob_count >= RULES_MAX)
                return err_set(b->err, 0, -E2BIG, "a permission profile has at most %d rules", RULES_MAX);
        b->bytes += bytes;
        if (b->bytes > RULES_BYTES_MAX)
                return err_set(b->err, 0, -E2BIG, "the paths of a permission profile have at most %d bytes",
                               RULES_BYTES_MAX);
        return 0;
}

/* --- adding a rule ------------------------------------------------------------------------------------------------ */

static void add_rule(struct builder *b, struct slice path, enum access access)
{
        struct rules *r = b->rules;

        r->list = arena_room(b->arena, r->list, r->count, &b->list_allocated, sizeof(*r->list));
        r->list[r->count++] = (struct rule){ path, access };
}

/* Adds a rule for the entry's subpath below `path`. */
static int add_below(struct builder *b, struct slice path, const struct profile_entry *e)
{
        struct slice sub = e->subpath, clean;
        bool is_absolute = slice_starts(sub, S("/"));

        if (sub.p && !subpath_stays_below(sub) && e->access != ACCESS_DENY)
                return 0;
        int r = charge(b, is_absolute ? sub.n : path.n + (sub.p ? 1 + sub.n : 0));
        if (r < 0)
                return r;
        if (!sub.p) {
                add_rule(b, path, e->access);
                return 0;
        }

        char *joined = is_absolute ? arena_dup(b->arena, sub)
                                   : arena_printf(b->arena, "%.*s/%.*s", SLICE(path), SLICE(sub));
        if (slice_has_nul(sub) || uri_to_path(b->arena, slice_from_str(joined), &clean, NULL) != URI_OK)
                return err_set(b->err, 0, -EINVAL, "a permission subpath is malformed");
        add_rule(b, clean, e->access);
        return 0;
}

/* --- adding a pattern --------------------------------------------------------------------------------------------- */

static int refuse_pattern(struct builder *b, struct slice text, const char *why)
{
        return err_set(b->err, 0, -EINVAL, "invalid deny-read glob pattern `%.*s`: %s", SLICE(text), why);
}

/* Writes a pattern that matches only this path; returns the length of the pattern. `out` has room for twice the path. */
static size_t quote(char *out, struct slice path)
{
        size_t n = 0;

        for (size_t i = 0; i < path.n; i++) {
                if (memchr("*?[]{},\\", path.p[i], 8))
                        out[n++] = '\\';
                out[n++] = path.p[i];
        }
        return n;
}

/* Copies a pattern without empty components and `.`, so that two spellings give one rule, unless the slashes around
 * these might be inside of a class. A `..` stays: policy/pattern resolves it, or refuses the pattern. Returns the length. */
static size_t put_pattern(char *out, struct slice text)
{
        bool has_class = memchr(text.p, '[', text.n) != NULL;
        size_t n = 0;

        while (text.p) {
                struct slice part = slice_split(&text, '/');
                if (!has_class && (part.n == 0 || slice_eq(part, S("."))))
                        continue;
                out[n++] = '/';
                memcpy(out + n, part.p, part.n);
                n += part.n;
        }
        return n;
}

/* Adds the pattern `text` below `base`, which is "/" for an absolute pattern. */
static int add_glob(struct builder *b, struct slice base, struct slice text)
{
        struct rules *r = b->rules;
        int error = charge(b, base.n + 1 + text.n);

        if (error < 0)
                return error;
        char *out = arena_alloc(b->arena, base.n * 2 + text.n + 2);
        size_t n = base.n > 1 ? quote(out, base) : 0;
        n += put_pattern(out + n, text);
        if (n == 0)
                out[n++] = '/';

        r->globs = arena_room(b->arena, r->globs, r->glob_count, &b->globs_allocated, sizeof(*r->globs));
        r->globs[r->glob_count++] = slice_from(out, n);
        return 0;
}

/* Adds the patterns of an entry. Only patterns that deny have an effect. */
static int resolve_glob(struct builder *b, const struct profile_entry *e)
{
        const struct place *place = b->place;
        struct slice text = e->text;
        int r = 0;

        if (e->access != ACCESS_DENY)
                return 0;
        if (slice_has_nul(text))
                return refuse_pattern(b, S(""), "it holds a NUL");
        if (text.n == 0)
                return refuse_pattern(b, text, "it is empty");
        if (text.p[0] == '/')
                return add_glob(b, S("/"), slice_from(text.p + 1, text.n - 1));
        if (!slice_starts(text, S(ROOTS_PATTERN)))
                return add_glob(b, place->cwd, text);

        struct slice rest =
                slice_from(text.p + sizeof(ROOTS_PATTERN) - 1, text.n - (sizeof(ROOTS_PATTERN) - 1));
        if (rest.n == 0 || rest.p[0] == '/')
                return refuse_pattern(b, text, "it is not relative");
        for (size_t i = 0; i < place->root_count && r >= 0; i++)
                r = add_glob(b, place->roots[i], rest);
        return r;
}

/* --- resolving an entry ------------------------------------------------------------------------------------------- */

static int resolve_tmpdir(struct builder *b, const struct profile_entry *e)
{
        struct slice tmpdir = b->place->tmpdir, clean;

        if (tmpdir.n == 0 || tmpdir.p[0] != '/')
                return 0;
        if (tmpdir.n > RULES_PATH_MAX || uri_to_path(b->arena, tmpdir, &clean, NULL) != URI_OK)
                return err_set(b->err, 0, -EINVAL, "TMPDIR is malformed");
        return add_below(b, clean, e);
}

static int resolve_special(struct builder *b, const struct profile_entry *e)
{
        int r = 0;

        switch (e->special) {
        case SPECIAL_ROOT:
                return add_below(b, S("/"), e);
        case SPECIAL_SLASH_TMP:
                return add_below(b, S("/tmp"), e);
        case SPECIAL_TMPDIR:
                return resolve_tmpdir(b, e);
        case SPECIAL_PROJECT_ROOTS:
                for (size_t i = 0; i < b->place->root_count && r >= 0; i++)
                        r = add_below(b, b->place->roots[i], e);
                return r;
        case SPECIAL_MINIMAL:
                b->rules->has_platform |= e->access != ACCESS_DENY && !e->subpath.p;
                return 0;
        case SPECIAL_UNKNOWN:
                return 0;
        }
        return err_set(b->err, 0, -EINVAL, "an unknown special permission path");
}

static int resolve_entry(struct builder *b, const struct profile_entry *e)
{
        switch (e->kind) {
        case TARGET_PATH:
                if (profile_path_is_foreign(e->text))
                        return err_set(b->err, 0, -EINVAL,
                                       "invalid sandbox permission path: '%.*s' is invalid on 'linux'",
                                       SLICE(e->text));
                return add_below(b, e->text, e);
        case TARGET_GLOB:
                return resolve_glob(b, e);
        case TARGET_SPECIAL:
                return resolve_special(b, e);
        }
        return err_set(b->err, 0, -EINVAL, "an unknown permission target");
}

/* --- resolving a profile ------------------------------------------------------------------------------------------ */

/* Sorts by path. Of rules with equal paths the one that counts comes first. */
static int compare_rules(const void *left, const void *right)
{
        const struct rule *a = left, *b = right;
        int order = path_compare(a->path, b->path);

        return order != 0 ? order : access_strength(b->access) - access_strength(a->access);
}

static int compare_globs(const void *left, const void *right)
{
        return path_compare(*(const struct slice *)left, *(const struct slice *)right);
}

static void sort_rules(struct rules *r)
{
        size_t n = 0;

        if (r->count > 0)
                qsort(r->list, r->count, sizeof(*r->list), compare_rules);
        for (size_t i = 0; i < r->count; i++) {
                if (n == 0 || !slice_eq(r->list[n - 1].path, r->list[i].path))
                        r->list[n++] = r->list[i];
        }
        r->count = n;
}

static void sort_globs(struct rules *r)
{
        size_t n = 0;

        if (r->glob_count > 0)
                qsort(r->globs, r->glob_count, sizeof(*r->globs), compare_globs);
        for (size_t i = 0; i < r->glob_count; i++) {
                if (n == 0 || !slice_eq(r->globs[n - 1], r->globs[i]))
                        r->globs[n++] = r->globs[i];
        }
        r->glob_count = n;
}

/* Sets the members that are derived from the lists, not from the entries: an entry that has no effect in this place must not make
 * the results for two equal lists different. */
static void derive_members(struct rules *r, uint64_t glob_depth)
{
        const struct rule *root = rules_at(r, S("/"));
        bool has_root = root && root->access != ACCESS_DENY;

        r->reads_all = has_root && r->glob_count == 0;
        for (size_t i = 0; i < r->count && r->reads_all; i++)
                r->reads_all = r->list[i].access != ACCESS_DENY;
        r->has_platform &= !has_root;
        r->glob_depth = r->glob_count > 0 ? glob_depth : 0;
}

int rules_resolve(struct arena *a, const struct profile *p, const struct place *place, struct rules *ret,
                  struct err *err)
{
        struct rules rules = { .limits_files = profile_limits_files(p) };
        struct builder b = { .arena = a, .place = place, .rules = &rules, .err = err };

        if (!rules.limits_files) {
                *ret = (struct rules){ .reads_all = true };
                return 0;
        }
        if (!place->cwd.p && profile_needs_cwd(p))
                return err_set(err, 0, -EINVAL,
                               "file system sandbox context with dynamic permissions requires cwd");
        for (size_t i = 0; i < p->count; i++) {
                int r = resolve_entry(&b, &p->entries[i]);
                if (r < 0)
                        return r;
        }
        sort_rules(&rules);
        sort_globs(&rules);
        derive_members(&rules, p->glob_depth);
        *ret = rules;
        return 0;
}

/* --- asking the rules --------------------------------------------------------------------------------------------- */

const struct rule *rules_at(const struct rules *r, struct slice path)
{
        size_t low = 0, high = r->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = path_compare(r->list[middle].path, path);
                if (order == 0)
                        return &r->list[middle];
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

static char letter_of(enum access access)
{
        switch (access) {
        case ACCESS_DENY:
                return '-';
        case ACCESS_READ:
                return 'r';
        case ACCESS_WRITE:
                return 'w';
        }
        __builtin_trap();
}

struct slice rules_canonical(struct arena *a, const struct rules *r)
{
        char head[64];
        int head_bytes = snprintf(head, sizeof(head), "%s %s %s %llu",
                                  r->limits_files ? "limited" : "unlimited", r->reads_all ? "all" : "some",
                                  r->has_platform ? "platform" : "bare", (unsigned long long)r->glob_depth);
        size_t size = (size_t)head_bytes + 1;

        for (size_t i = 0; i < r->count; i++)
                size += r->list[i].path.n + 2;
        for (size_t i = 0; i < r->glob_count; i++)
                size += r->globs[i].n + 2;

        char *text = arena_zalloc(a, size), *at = text;
        memcpy(at, head, (size_t)head_bytes);
        at += head_bytes + 1;
        for (size_t i = 0; i < r->count; i++) {
                *at++ = letter_of(r->list[i].access);
                memcpy(at, r->list[i].path.p, r->list[i].path.n);
                at += r->list[i].path.n + 1;
        }
        for (size_t i = 0; i < r->glob_count; i++) {
                *at++ = 'g';
                memcpy(at, r->globs[i].p, r->globs[i].n);
                at += r->globs[i].n + 1;
        }
        return slice_from(text, size);
}
