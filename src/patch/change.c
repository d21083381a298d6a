/* change: makes the list of changes from what the hunks have left in staging. */
#include "patch/change.h"

#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define REVERSE_MAX ((uint64_t)8 * 1024 * 1024) /* how much of a large file is kept to take edits back */

/* ---- names beside files ---- */

const char *change_temp_path(struct arena *a, const char *path)
{
        uint64_t random[2];
        random_bytes(random, sizeof(random));
        const char *name = arena_printf(a, CHANGE_TEMP_PREFIX "%016llx%016llx", (unsigned long long)random[0],
                                        (unsigned long long)random[1]);
        return names_join(a, names_directory(a, path), name);
}

bool change_is_temp_path(const char *temp, const char *path)
{
        size_t directory = (size_t)(names_last(path) - path);
        const char *name = names_last(temp);
        size_t prefix = sizeof(CHANGE_TEMP_PREFIX) - 1;
        return (size_t)(name - temp) == directory && memcmp(temp, path, directory) == 0 &&
               strlen(name) == prefix + CHANGE_TEMP_RANDOM && memcmp(name, CHANGE_TEMP_PREFIX, prefix) == 0 &&
               strspn(name + prefix, "0123456789abcdef") == CHANGE_TEMP_RANDOM;
}

/* ---- taking large files back ---- */

/* Makes the content from which the edits of `c` were made, over the file that has `c` as its content in the end. Returns NULL when
 * that takes too much memory, or the file cannot be read. */
static const struct content *reverse(struct arena *a, struct asks *s, const struct content *c,
                                     const char *path)
{
        const struct content *back = content_from_file(a, path, c->size);
        for (; c->kind == CONTENT_EDITS; c = c->below) {
                struct edits *edits = arena_new(a, struct edits);
                struct err err = ERR_INIT;
                struct reader reader;
                struct content_reader *r = content_open(s, c->below, &reader);
                int result = edits_reverse(a, c->edits, &reader, REVERSE_MAX, edits, &err);
                r = content_close(r);
                if (result < 0)
                        return NULL;
                back = content_edited(a, back, edits);
        }
        return c->kind == CONTENT_FILE ? back : NULL;
}

/* Returns the file below the edits of a content, or the content itself when it is a file; NULL: all of it is in memory. */
static const struct content *base_of(const struct content *c)
{
        while (c && c->kind == CONTENT_EDITS)
                c = c->below;
        return c && c->kind == CONTENT_FILE ? c : NULL;
}

/* The old content of a large file is not in memory. It is the new content with the edits reversed, at the same path or, after a move, at
 * another one. */
static void keep_old_of_large(struct changes *ret, struct draft *d)
{
        struct arena *a = d->names.arena;
        for (size_t i = 0; i < ret->count; i++) {
                struct change *c = &ret->list[i];
                const struct content *base = base_of(c->fresh);
                for (size_t k = 0; base && k < ret->count; k++) {
                        struct change *source = &ret->list[k];
                        if (strcmp(source->path, base->path) == 0 && !source->old &&
                            source->before.kind == FILE_REGULAR)
                                source->old = reverse(a, d->names.asks, c->fresh, c->path);
                }
        }
}

/* ---- making the list ---- */

static void add_change(struct changes *ret, const struct entry *e)
{
        struct change *c = &ret->list[ret->count++];
        *c = (struct change){
                .path = e->path, .shown = e->shown, .step = e->step, .order = e->order, .before = e->before
        };
        c->old = e->old && e->old->kind == CONTENT_TEXT ? e->old : NULL;
        c->after.kind = e->kind;
        if (e->kind != FILE_REGULAR)
                return;
        c->fresh = e->content;
        c->after.size = e->content->size;
        if (e->content->kind == CONTENT_TEXT)
                state_set_content(&c->after, e->content->text);
        c->after.has_mode = e->has_mode || e->before.has_mode;
        c->after.mode = e->has_mode ? e->mode : e->before.mode;
        if (e->before.kind != FILE_REGULAR)
                c->after.has_mode = e->has_mode;
}

static int by_path(const void *a, const void *b)
{
        const struct change *left = a, *right = b;
        bool is_left_gone = left->after.kind == FILE_ABSENT, is_right_gone = right->after.kind == FILE_ABSENT;
        return is_left_gone != is_right_gone ? is_left_gone - is_right_gone : strcmp(left->path, right->path);
}

static int by_order(const void *a, const void *b)
{
        const struct change *left = a, *right = b;
        return left->order < right->order ? -1 : left->order > right->order;
}

static int by_directory(const void *a, const void *b)
{
        const struct change_directory *left = a, *right = b;
        return strcmp(left->path, right->path);
}

void changes_choose_ways(struct arena *a, struct changes *all, bool has_control)
{
        for (size_t i = 0; i < all->count; i++) {
                struct change *c = &all->list[i];
                bool exists = c->before.kind != FILE_ABSENT;
                bool can_rewrite = c->before.kind == FILE_REGULAR && c->after.kind == FILE_REGULAR && c->old;
                c->is_in_place = !has_control || c->before.links > 1;
                if (!has_control)
                        continue;
                if (c->fresh && c->fresh->kind != CONTENT_TEXT)
                        c->temp = change_temp_path(a, c->path);
                if (exists && !can_rewrite)
                        c->aside = change_temp_path(a, c->path);
        }
}

void changes_from_draft(struct changes *ret, struct draft *d, const char *cwd, bool is_partial)
{
        struct arena *a = d->names.arena;
        size_t count = d->staging.count;
        *ret = (struct changes){ .list = arena_zalloc(a, count * sizeof(*ret->list) + 1),
                                 .directories = arena_alloc(a, count * sizeof(*ret->directories) + 1),
                                 .cwd = cwd };
        for (size_t i = 0; i < count; i++) {
                const struct entry *e = d->staging.list[i];
                if (e->kind == FILE_DIRECTORY && e->before.kind != FILE_DIRECTORY)
                        ret->directories[ret->directory_count++] =
                                (struct change_directory){ .path = e->path, .shown = e->shown };
                if (e->step != STEP_NONE && (e->kind != e->before.kind || e->kind == FILE_REGULAR) &&
                    (e->kind != FILE_DIRECTORY || e->before.kind != FILE_ABSENT))
                        add_change(ret, e);
        }
        qsort(ret->list, ret->count, sizeof(*ret->list), is_partial ? by_order : by_path);
        qsort(ret->directories, ret->directory_count, sizeof(*ret->directories), by_directory);
        if (d->names.has_control)
                keep_old_of_large(ret, d);
        changes_choose_ways(a, ret, d->names.has_control);
}

/* ---- taking changes back ---- */

int changes_reverse(struct arena *a, const struct changes *c, struct changes *ret, const char **ret_path)
{
        *ret = *c;
        ret->is_undo = !c->is_undo;
        ret->list = arena_zalloc(a, c->count * sizeof(*ret->list) + 1);
        for (size_t i = 0; i < c->count; i++) {
                const struct change *from = &c->list[i];
                struct change *to = &ret->list[i];
                *to = (struct change){ .path = from->path,
                                       .shown = from->path,
                                       .step = from->before.kind == FILE_ABSENT ? STEP_DELETE : STEP_WRITE,
                                       .before = from->after,
                                       .after = from->before,
                                       .fresh = from->old };
                to->before.links = from->before.links;
                if (from->before.kind == FILE_OTHER || from->after.kind == FILE_DIRECTORY ||
                    (from->before.kind == FILE_REGULAR && !from->old) ||
                    (from->before.kind == FILE_LINK && !from->before.target)) {
                        *ret_path = from->path;
                        return -ENOENT;
                }
        }
        qsort(ret->list, ret->count, sizeof(*ret->list), by_path);
        return 0;
}
