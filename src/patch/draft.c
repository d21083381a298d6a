/* plan: applies the hunks of a patch to the overlay. */
#include "patch/plan.h"

#include "base/printable.h"
#include "base/uri.h"
#include "hunk/place.h"

#include <errno.h>
#include <limits.h>

/* What is kept of files in memory. Larger files are read as streams, as often as needed. */
#define FILE_MAX STATE_DIGEST_MAX
#define MEMORY_MAX ((uint64_t)64 * 1024 * 1024)
/* A server without blocks and renames is sent whole files. */
#define WHOLE_MAX ((uint64_t)64 * 1024 * 1024)
#define WHOLE_MEMORY_MAX ((uint64_t)256 * 1024 * 1024)

void plan_begin(struct plan *p, struct asks *asks)
{
        bool has_control = asks_has(asks, "fsControlV1");
        *p = (struct plan){ 0 };
        names_begin(&p->names, asks, has_control ? FILE_MAX : WHOLE_MAX,
                    has_control ? MEMORY_MAX : WHOLE_MEMORY_MAX);
        overlay_begin(&p->overlay, &p->names);
        map_init(&p->used);
        map_init(&p->allowed);
}

void plan_bind(struct plan *p, const char *const *places)
{
        p->is_bound = true;
        p->overlay.reads_real_paths = true;
        for (; *places; places++)
                if (!map_find(&p->allowed, slice_from_str(*places)))
                        map_put(&p->allowed, slice_from_str(*places), p);
}

void plan_only_look(struct plan *p)
{
        p->is_look = true;
}

void plan_release(struct plan *p)
{
        map_release(&p->used);
        map_release(&p->allowed);
        overlay_release(&p->overlay);
        names_release(&p->names);
}

const char *plan_path(struct arena *a, const char *cwd, struct slice path)
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

static int fail(struct plan *p, const char *path, const struct failure *failure, const char *error)
{
        p->error = error;
        p->failure = failure;
        p->failed_path = path;
        return -EINVAL;
}

static int fail_write(struct plan *p, const char *path, const struct failure *failure)
{
        return fail(p, path, failure, arena_printf(p->names.arena, "Failed to write file %s", path));
}

static int fail_read(struct plan *p, const char *path, const struct failure *failure, const char *reason)
{
        bool is_denied =
                failure && failure->denial; /* what the profile says is added by whoever reports it */
        return fail(p, path, failure,
                    arena_printf(p->names.arena, "Failed to read file to update %s%s%s", path,
                                 is_denied ? "" : ": ", is_denied ? "" : reason));
}

/* ---- places ---- */

static void add_place(struct plan *p, const char *path)
{
        p->places =
                arena_room(p->names.arena, p->places, p->place_count + 1, &p->place_room, sizeof(*p->places));
        p->places[p->place_count++] = path;
        p->places[p->place_count] = NULL;
        map_put(&p->used, slice_from_str(path), p);
}

/* Notes that a hunk reads or changes what lies at the real path of an entry. An entry that the server could not tell about is not used:
 * its hunk fails. */
static int use(struct plan *p, const struct entry *e, const char *shown)
{
        struct arena *a = p->names.arena;
        if (!e || e->failure)
                return 0;
        if (p->is_bound && !map_find(&p->allowed, slice_from_str(e->path))) {
                p->is_elsewhere = true;
                return fail(p, shown, NULL,
                            arena_printf(a, "%s leads to %s now, which the approval does not cover",
                                         printable_str(a, shown), printable_str(a, e->path)));
        }
        if (!map_find(&p->used, slice_from_str(e->path)))
                add_place(p, e->path);
        return 0;
}

/* ---- hunks ---- */

/* Makes a file of this content, or gives an existing one this content. */
static int put_file(struct plan *p, struct entry *e, const char *shown, const struct content *content)
{
        if (!e || e->failure)
                return fail_write(p, shown, e ? e->failure : NULL);
        if ((e->kind != FILE_ABSENT && e->kind != FILE_REGULAR) || !overlay_make_parents(e, shown))
                return fail_write(p, shown, NULL);
        e->kind = FILE_REGULAR;
        e->content = content;
        e->step = STEP_WRITE;
        e->order = ++p->overlay.steps;
        e->shown = shown;
        return 0;
}

static void take_file(struct plan *p, struct entry *e, enum entry_step step, const char *shown)
{
        e->kind = FILE_ABSENT;
        e->content = NULL;
        e->has_mode = false;
        e->step = step;
        e->order = ++p->overlay.steps;
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

static int plan_add(struct plan *p, const struct hunk *h, struct planned *done, bool needs_old)
{
        struct arena *a = p->names.arena;
        struct entry *e = overlay_find(&p->overlay, done->path, true);
        if (use(p, e, done->path) < 0)
                return -EINVAL;
        if (e && !e->failure && e->kind == FILE_REGULAR) {
                if (needs_old)
                        overlay_keep(&p->overlay, e);
                done->was_there = true;
                done->old = e->content ? e->content : e->old;
        }
        done->fresh = content_from_text(a, hunk_added_text(a, h));
        done->added_lines = h->added_count;
        done->removed_lines = count_lines(done->old);
        return put_file(p, e, done->path, done->fresh);
}

static int plan_delete(struct plan *p, struct planned *done, bool needs_old)
{
        struct entry *e = overlay_find(&p->overlay, done->path, false);
        struct entry *meant = overlay_find(&p->overlay, done->path, true);
        bool can = meant && !meant->failure && (meant->kind == FILE_REGULAR || meant->kind == FILE_OTHER);
        if (!can)
                return fail(p, done->path, meant ? meant->failure : NULL,
                            arena_printf(p->names.arena, "Failed to delete file %s", done->path));
        if (use(p, e, done->path) < 0)
                return -EINVAL;
        done->was_there = true;
        if (e->kind == FILE_LINK && !e->before.target)
                e->before.target = name_link(e->name);
        if (e->kind == FILE_REGULAR) {
                if (needs_old)
                        overlay_keep(&p->overlay, e);
                done->old = e->content ? e->content : e->old;
        }
        done->removed_lines = count_lines(done->old);
        take_file(p, e, STEP_DELETE, done->path);
        return 0;
}

/* Makes the new text of an updated file: in memory when the old one is there, else as edits over it. */
static const struct content *edit(struct plan *p, const struct content *old, const struct edits *edits)
{
        struct arena *a = p->names.arena;
        const struct content *fresh = content_edited(a, old, edits);
        struct slice text;
        struct err err = ERR_INIT;
        if (old->kind != CONTENT_TEXT || fresh->size > p->names.file_max ||
            content_load(a, p->names.asks, fresh, fresh->size, &text, &err) < 0)
                return fresh;
        return content_from_text(a, text);
}

static int find_places(struct plan *p, const struct hunk *h, struct planned *done, const char *path)
{
        struct arena *a = p->names.arena;
        struct edits *edits = arena_new(a, struct edits);
        struct patch_error error;
        struct err err = ERR_INIT;
        struct reader reader;
        struct content_reader *r = content_open(p->names.asks, done->old, &reader);
        int result = place_find(a, h, slice_from_str(path), &reader, edits, &error, &err);
        r = content_close(r);
        if (result < 0 && error.kind == PATCH_ERROR_READ)
                return fail_read(p, path, NULL, arena_dup(a, slice_from_str(err.text)));
        if (result < 0)
                return fail(p, path, NULL, arena_dup(a, error.message));
        if (done->old->layers == CONTENT_LAYERS_MAX)
                return fail(p, path, NULL,
                            arena_printf(a, "Failed to write file %s: the patch updates it too often", path));
        done->edits = edits;
        done->added_lines = edits->added_lines;
        done->removed_lines = edits->removed_lines;
        done->fresh = edit(p, done->old, edits);
        return 0;
}

/* Reads the file that a hunk updates, and makes its new content. */
static int edit_file(struct plan *p, const struct hunk *h, struct planned *done, struct entry *e,
                     const char *path)
{
        const struct failure *failure = NULL;
        if (p->is_look) {
                done->fresh = content_from_text(p->names.arena, S(""));
                return 0;
        }
        done->old = overlay_content(&p->overlay, e, &failure);
        return done->old ? find_places(p, h, done, path) : fail_read(p, path, failure, failure->text);
}

static int plan_update(struct plan *p, const struct hunk *h, struct planned *done, bool needs_old)
{
        struct arena *a = p->names.arena;
        const char *path = done->from ? done->from : done->path;
        struct entry *e = overlay_find(&p->overlay, path, true);
        if (!e || (!e->failure && e->kind == FILE_ABSENT))
                return fail_read(p, path, NULL, "No such file or directory (os error 2)");
        if (e->failure)
                return fail_read(p, path, e->failure, e->failure->text);
        if (e->kind != FILE_REGULAR)
                return fail_read(p, path, NULL, arena_printf(a, "path `%s` is not a file", path));
        done->was_there = true;
        if (use(p, e, path) < 0)
                return -EINVAL;
        int r = edit_file(p, h, done, e, path);
        if (r < 0)
                return r;
        struct entry *to = done->from ? overlay_find(&p->overlay, done->path, true) : e;
        if (to == e)
                return put_file(p, e, done->path, done->fresh);
        struct entry *source = overlay_find(&p->overlay, path, false);
        if (use(p, source, path) < 0 || use(p, to, done->path) < 0)
                return -EINVAL;
        if (to && needs_old && to->kind == FILE_REGULAR)
                overlay_keep(&p->overlay, to);
        r = put_file(p, to, done->path, done->fresh);
        if (r < 0)
                return r;
        to->has_mode = e->has_mode || e->before.has_mode;
        to->mode = e->has_mode ? e->mode : e->before.mode;
        if (source->kind == FILE_LINK && !source->before.target)
                source->before.target = name_link(source->name);
        take_file(p, source, STEP_ORIGINAL, path);
        return 0;
}

/* ---- patches ---- */

/* No system has longer paths: nothing is asked about each of their directories. */
static bool is_too_long(const char *path)
{
        return strlen(path) >= PATH_MAX;
}

/* What is bound to real paths is not read before these are known. */
static void prefetch(struct plan *p, const struct patch *patch, const char *cwd, bool needs_old)
{
        bool reads = !p->is_look && !p->is_bound;
        struct arena *a = p->names.arena;
        struct wish *wishes = arena_alloc(a, 2 * patch->hunk_count * sizeof(*wishes) + 1);
        size_t count = 0;
        for (size_t i = 0; i < patch->hunk_count; i++) {
                const struct hunk *h = &patch->hunks[i];
                const char *path = plan_path(a, cwd, h->path);
                const char *to = h->move_to.p ? plan_path(a, cwd, h->move_to) : NULL;
                if (path && !is_too_long(path))
                        wishes[count++] =
                                (struct wish){ .path = path,
                                               .is_made = h->kind == HUNK_ADD,
                                               .is_read = reads && (needs_old || h->kind == HUNK_UPDATE) };
                if (to && !is_too_long(to))
                        wishes[count++] =
                                (struct wish){ .path = to, .is_made = true, .is_read = reads && needs_old };
        }
        names_prefetch(&p->names, wishes, count);
}

static int fail_too_long(struct plan *p, const struct planned *done)
{
        struct arena *a = p->names.arena;
        const char *path = done->from ? done->from : done->path;
        if (done->hunk->kind == HUNK_UPDATE && is_too_long(path))
                return fail_read(p, path, NULL,
                                 arena_printf(a, "%s (os error %d)", errno_text(ENAMETOOLONG), ENAMETOOLONG));
        return done->hunk->kind == HUNK_DELETE
                       ? fail(p, path, NULL, arena_printf(a, "Failed to delete file %s", path))
                       : fail_write(p, done->path, NULL);
}

static int plan_hunk(struct plan *p, const struct hunk *h, const char *cwd, bool needs_old)
{
        struct arena *a = p->names.arena;
        struct planned *done = &p->list[p->count];
        const char *path = plan_path(a, cwd, h->path);
        const char *to = h->move_to.p ? plan_path(a, cwd, h->move_to) : NULL;
        *done = (struct planned){ .hunk = h, .path = to ? to : path, .from = to ? path : NULL };
        if (!path || (h->move_to.p && !to))
                return fail(p, NULL, NULL,
                            arena_printf(a, "Failed to write file %.*s", SLICE(path ? h->move_to : h->path)));
        if (is_too_long(path) || (to && is_too_long(to)))
                return fail_too_long(p, done);
        switch (h->kind) {
        case HUNK_ADD:
                return plan_add(p, h, done, needs_old);
        case HUNK_DELETE:
                return plan_delete(p, done, needs_old);
        case HUNK_UPDATE:
                return plan_update(p, h, done, needs_old);
        }
        return -EINVAL;
}

void plan_patch(struct plan *p, const struct patch *patch, const char *cwd, bool needs_old)
{
        p->list = arena_alloc(p->names.arena, patch->hunk_count * sizeof(*p->list) + 1);
        prefetch(p, patch, cwd, needs_old);
        for (size_t i = 0; i < patch->hunk_count; i++) {
                if (plan_hunk(p, &patch->hunks[i], cwd, needs_old) < 0)
                        return;
                p->count++;
        }
}
