/* draft: applies the hunks of a patch to the files in staging. */
#include "patch/draft.h"

#include "base/printable.h"
#include "base/uri.h"
#include "hunk/place.h"

#include <errno.h>
#include <limits.h>

/* How much of files is kept in memory: of one file, and of all together. Larger files are read as streams, as often as needed. */
#define FILE_MAX STATE_DIGEST_MAX
#define MEMORY_MAX ((uint64_t)64 * 1024 * 1024)
/* A server without blocks and renames is sent whole files. */
#define WHOLE_MAX ((uint64_t)64 * 1024 * 1024)
#define WHOLE_MEMORY_MAX ((uint64_t)256 * 1024 * 1024)
/* How much of files that hunks have changed is kept in memory to be shown. What is more is made again from the edits. */
#define KEPT_MAX ((uint64_t)256 * 1024 * 1024)

void draft_begin(struct draft *d, struct asks *asks)
{
        bool has_control = asks_has(asks, "fsControlV1");
        *d = (struct draft){ 0 };
        names_begin(&d->names, asks, has_control ? FILE_MAX : WHOLE_MAX,
                    has_control ? MEMORY_MAX : WHOLE_MEMORY_MAX);
        staging_begin(&d->staging, &d->names);
        map_init(&d->used);
        map_init(&d->allowed);
}

void draft_bind(struct draft *d, const char *const *real_paths)
{
        d->is_bound = true;
        d->staging.reads_real_paths = true;
        for (; *real_paths; real_paths++)
                if (!map_find(&d->allowed, slice_from_str(*real_paths)))
                        map_put(&d->allowed, slice_from_str(*real_paths), d);
}

void draft_only_look(struct draft *d)
{
        d->is_look = true;
}

void draft_keep_contents(struct draft *d)
{
        d->keeps_contents = true;
        d->contents_left = KEPT_MAX;
}

void draft_release(struct draft *d)
{
        for (size_t i = 0; i < d->begun; i++)
                arena_release(&d->list[i].text);
        map_release(&d->used);
        map_release(&d->allowed);
        staging_release(&d->staging);
        names_release(&d->names);
}

const char *draft_path(struct arena *a, const char *cwd, struct slice path)
{
        struct slice whole = path, ret;
        if (path.n == 0 || path.p[0] != '/') {
                char *joined = arena_alloc(a, strlen(cwd) + 1 + path.n);
                size_t n = strlen(cwd);
                memcpy(joined, cwd, n);
                joined[n] = '/';
                memcpy(joined + n + 1, path.p, path.n);
                whole = slice_from(joined, n + 1 + path.n);
        }
        return uri_to_path(a, whole, &ret, NULL) == URI_OK ? ret.p : NULL;
}

/* ---- failing ---- */

static int fail(struct draft *d, const char *path, const struct failure *failure, const char *error)
{
        d->error = error;
        d->failure = failure;
        d->failed_path = path;
        return -EINVAL;
}

static int fail_write(struct draft *d, const char *path, const struct failure *failure)
{
        return fail(d, path, failure, arena_printf(d->names.arena, "Failed to write file %s", path));
}

static int fail_read(struct draft *d, const char *path, const struct failure *failure, const char *reason)
{
        bool is_denied =
                failure && failure->denial; /* work_fail adds what the profile says, in place of a reason */
        return fail(d, path, failure,
                    arena_printf(d->names.arena, "Failed to read file to update %s%s%s", path,
                                 is_denied ? "" : ": ", is_denied ? "" : reason));
}

/* ---- real paths ---- */

static void add_real_path(struct draft *d, const char *path)
{
        d->real_paths = arena_room(d->names.arena, d->real_paths, d->real_path_count + 1, &d->real_path_room,
                                   sizeof(*d->real_paths));
        d->real_paths[d->real_path_count++] = path;
        d->real_paths[d->real_path_count] = NULL;
        map_put(&d->used, slice_from_str(path), d);
}

/* Notes that a hunk reads or changes what lies at the real path of an entry. Fails when the draft is bound to other real paths. An entry
 * that the server could not tell about is left out, because its hunk fails. */
static int use(struct draft *d, const struct entry *e, const char *shown)
{
        struct arena *a = d->names.arena;
        if (!e || e->failure)
                return 0;
        if (d->is_bound && !map_find(&d->allowed, slice_from_str(e->path))) {
                d->is_elsewhere = true;
                return fail(d, shown, NULL,
                            arena_printf(a, "%s leads to %s now, which the approval does not cover",
                                         printable_str(a, shown), printable_str(a, e->path)));
        }
        if (!map_find(&d->used, slice_from_str(e->path)))
                add_real_path(d, e->path);
        return 0;
}

/* ---- hunks ---- */

/* Frees the bytes that a hunk has given an entry, because a later hunk gives the entry other bytes. */
static void drop_text(const struct draft *d, struct entry *e)
{
        if (e->text && !d->keeps_contents)
                arena_release(e->text);
        e->text = NULL;
}

/* Makes a file of this content, or gives an existing one this content. `text` holds the bytes of the content and nothing else; NULL: they
 * lie in the arena of the draft. */
static int put_file(struct draft *d, struct entry *e, const char *shown, const struct content *content,
                    struct arena *text)
{
        if (!e || e->failure)
                return fail_write(d, shown, e ? e->failure : NULL);
        if ((e->kind != FILE_ABSENT && e->kind != FILE_REGULAR) || !staging_make_parents(e, shown))
                return fail_write(d, shown, NULL);
        drop_text(d, e);
        e->kind = FILE_REGULAR;
        e->content = content;
        e->text = text;
        e->step = STEP_WRITE;
        e->order = ++d->staging.steps;
        e->shown = shown;
        return 0;
}

static void take_file(struct draft *d, struct entry *e, enum entry_step step, const char *shown)
{
        drop_text(d, e);
        e->kind = FILE_ABSENT;
        e->content = NULL;
        e->has_mode = false;
        e->step = step;
        e->order = ++d->staging.steps;
        e->shown = shown;
}

static uint64_t count_lines(const struct content *c)
{
        uint64_t lines = 0;
        if (!c || c->kind != CONTENT_TEXT || c->text.n == 0)
                return 0;
        const char *end = c->text.p + c->text.n;
        for (const char *at = c->text.p; at && at < end; lines++) {
                at = memchr(at, '\n', (size_t)(end - at));
                at = at ? at + 1 : NULL;
        }
        return lines;
}

static int draft_add(struct draft *d, const struct hunk *h, struct drafted *done, bool needs_old)
{
        struct arena *a = d->names.arena;
        struct entry *e = staging_find(&d->staging, done->path, true);
        if (use(d, e, done->path) < 0)
                return -EINVAL;
        if (e && !e->failure && e->kind == FILE_REGULAR) {
                if (needs_old)
                        staging_keep(&d->staging, e);
                done->was_there = true;
                done->old = e->content ? e->content : e->old;
        }
        done->fresh = content_from_text(a, hunk_added_text(a, h));
        done->added_lines = h->added_count;
        done->removed_lines = count_lines(done->old);
        return put_file(d, e, done->path, done->fresh, NULL);
}

static int draft_delete(struct draft *d, struct drafted *done, bool needs_old)
{
        struct entry *e = staging_find(&d->staging, done->path, false);
        struct entry *meant = staging_find(&d->staging, done->path, true);
        bool can = meant && !meant->failure && (meant->kind == FILE_REGULAR || meant->kind == FILE_OTHER);
        if (!can)
                return fail(d, done->path, meant ? meant->failure : NULL,
                            arena_printf(d->names.arena, "Failed to delete file %s", done->path));
        if (use(d, e, done->path) < 0)
                return -EINVAL;
        done->was_there = true;
        if (e->kind == FILE_LINK && !e->before.target)
                e->before.target = name_link(e->name);
        if (e->kind == FILE_REGULAR) {
                if (needs_old)
                        staging_keep(&d->staging, e);
                done->old = e->content ? e->content : e->old;
        }
        done->removed_lines = count_lines(done->old);
        take_file(d, e, STEP_DELETE, done->path);
        return 0;
}

/* Makes the new text of an updated file: in memory when the old one is there, else as edits over it. */
static const struct content *edit(struct draft *d, struct drafted *done)
{
        struct arena *a = d->names.arena;
        const struct content *fresh = content_edited(a, done->old, done->edits);
        struct slice text;
        struct err err = ERR_INIT;
        if (done->old->kind != CONTENT_TEXT || fresh->size > d->names.file_max ||
            (d->keeps_contents && fresh->size > d->contents_left) ||
            content_load(&done->text, d->names.asks, fresh, fresh->size, &text, &err) < 0)
                return fresh;
        if (d->keeps_contents)
                d->contents_left -= fresh->size;
        return content_from_text(a, text);
}

static int find_places(struct draft *d, const struct hunk *h, struct drafted *done, const char *path)
{
        struct arena *a = d->names.arena;
        struct edits *edits = arena_new(a, struct edits);
        struct patch_error error;
        struct err err = ERR_INIT;
        struct reader reader;
        struct content_reader *r = content_open(d->names.asks, done->old, &reader);
        int result = place_find(a, h, slice_from_str(path), &reader, edits, &error, &err);
        r = content_close(r);
        if (result < 0 && error.kind == PATCH_ERROR_READ)
                return fail_read(d, path, NULL, arena_dup(a, slice_from_str(err.text)));
        if (result < 0)
                return fail(d, path, NULL, arena_dup(a, error.message));
        if (done->old->layers == CONTENT_LAYERS_MAX)
                return fail(d, path, NULL,
                            arena_printf(a, "Failed to write file %s: the patch updates it too often", path));
        done->edits = edits;
        done->added_lines = edits->added_lines;
        done->removed_lines = edits->removed_lines;
        done->fresh = edit(d, done);
        return 0;
}

/* Reads the file that a hunk updates, and makes its new content. */
static int edit_file(struct draft *d, const struct hunk *h, struct drafted *done, struct entry *e,
                     const char *path)
{
        const struct failure *failure = NULL;
        if (d->is_look) {
                done->fresh = content_from_text(d->names.arena, S(""));
                return 0;
        }
        done->old = staging_content(&d->staging, e, &failure);
        int r = done->old ? find_places(d, h, done, path) : fail_read(d, path, failure, failure->text);
        if (r == 0 && done->fresh->kind == CONTENT_EDITS)
                e->text = NULL; /* the edits lie over it, so it stays until the end */
        return r;
}

static int draft_update(struct draft *d, const struct hunk *h, struct drafted *done, bool needs_old)
{
        struct arena *a = d->names.arena;
        const char *path = done->from ? done->from : done->path;
        struct entry *e = staging_find(&d->staging, path, true);
        if (!e || (!e->failure && e->kind == FILE_ABSENT))
                return fail_read(d, path, NULL, "No such file or directory (os error 2)");
        if (e->failure)
                return fail_read(d, path, e->failure, e->failure->text);
        if (e->kind != FILE_REGULAR)
                return fail_read(d, path, NULL, arena_printf(a, "path `%s` is not a file", path));
        done->was_there = true;
        if (use(d, e, path) < 0)
                return -EINVAL;
        int r = edit_file(d, h, done, e, path);
        if (r < 0)
                return r;
        struct entry *to = done->from ? staging_find(&d->staging, done->path, true) : e;
        if (to == e)
                return put_file(d, e, done->path, done->fresh, &done->text);
        struct entry *source = staging_find(&d->staging, path, false);
        if (use(d, source, path) < 0 || use(d, to, done->path) < 0)
                return -EINVAL;
        if (to && needs_old && to->kind == FILE_REGULAR)
                staging_keep(&d->staging, to);
        r = put_file(d, to, done->path, done->fresh, &done->text);
        if (r < 0)
                return r;
        to->has_mode = e->has_mode || e->before.has_mode;
        to->mode = e->has_mode ? e->mode : e->before.mode;
        if (source->kind == FILE_LINK && !source->before.target)
                source->before.target = name_link(source->name);
        take_file(d, source, STEP_ORIGINAL, path);
        return 0;
}

/* ---- patches ---- */

/* No system has longer paths: nothing is asked about each of their directories. */
static bool is_too_long(const char *path)
{
        return strlen(path) >= PATH_MAX;
}

/* Asks about the paths of all hunks in few round trips. A draft that is bound to real paths reads no file here: each real path must be
 * known first. */
static void prefetch(struct draft *d, const struct patch *patch, const char *cwd, bool needs_old)
{
        bool reads = !d->is_look && !d->is_bound;
        struct arena *a = d->names.arena;
        struct wish *wishes = arena_alloc(a, 2 * patch->hunk_count * sizeof(*wishes) + 1);
        size_t count = 0;
        for (size_t i = 0; i < patch->hunk_count; i++) {
                const struct hunk *h = &patch->hunks[i];
                const char *path = draft_path(a, cwd, h->path);
                const char *to = h->move_to.p ? draft_path(a, cwd, h->move_to) : NULL;
                if (path && !is_too_long(path))
                        wishes[count++] =
                                (struct wish){ .path = path,
                                               .is_made = h->kind == HUNK_ADD,
                                               .is_read = reads && (needs_old || h->kind == HUNK_UPDATE) };
                if (to && !is_too_long(to))
                        wishes[count++] =
                                (struct wish){ .path = to, .is_made = true, .is_read = reads && needs_old };
        }
        names_prefetch(&d->names, wishes, count);
}

static int fail_too_long(struct draft *d, const struct drafted *done)
{
        struct arena *a = d->names.arena;
        const char *path = done->from ? done->from : done->path;
        if (done->hunk->kind == HUNK_UPDATE && is_too_long(path))
                return fail_read(d, path, NULL,
                                 arena_printf(a, "%s (os error %d)", errno_text(ENAMETOOLONG), ENAMETOOLONG));
        return done->hunk->kind == HUNK_DELETE
                       ? fail(d, path, NULL, arena_printf(a, "Failed to delete file %s", path))
                       : fail_write(d, done->path, NULL);
}

static int draft_hunk(struct draft *d, const struct hunk *h, const char *cwd, bool needs_old)
{
        struct arena *a = d->names.arena;
        struct drafted *done = &d->list[d->count];
        const char *path = draft_path(a, cwd, h->path);
        const char *to = h->move_to.p ? draft_path(a, cwd, h->move_to) : NULL;
        *done = (struct drafted){ .hunk = h, .path = to ? to : path, .from = to ? path : NULL };
        if (!path || (h->move_to.p && !to))
                return fail(d, NULL, NULL,
                            arena_printf(a, "Failed to write file %.*s", SLICE(path ? h->move_to : h->path)));
        if (is_too_long(path) || (to && is_too_long(to)))
                return fail_too_long(d, done);
        switch (h->kind) {
        case HUNK_ADD:
                return draft_add(d, h, done, needs_old);
        case HUNK_DELETE:
                return draft_delete(d, done, needs_old);
        case HUNK_UPDATE:
                return draft_update(d, h, done, needs_old);
        }
        return -EINVAL;
}

void draft_patch(struct draft *d, const struct patch *patch, const char *cwd, bool needs_old)
{
        d->list = arena_alloc(d->names.arena, patch->hunk_count * sizeof(*d->list) + 1);
        prefetch(d, patch, cwd, needs_old);
        for (size_t i = 0; i < patch->hunk_count; i++) {
                d->begun = i + 1;
                if (draft_hunk(d, &patch->hunks[i], cwd, needs_old) < 0)
                        return;
                d->count++;
        }
}
