/* compose: collects changes, and joins those that touch to edits. */
#include "hunk/compose.h"

static void put_change(struct composer *c, struct line_changes *l, const struct line_change *change)
{
        l->list = arena_room(c->arena, l->list, l->count, &l->room, sizeof(*l->list));
        l->list[l->count++] = *change;
}

/* ---- Chunks without their last old line */

static const struct patch_line *last_old(const struct patch_chunk *c)
{
        size_t i = c->line_count - 1;

        while (c->lines[i].kind == PATCH_LINE_ADDED)
                i--;
        return &c->lines[i];
}

bool compose_ends_empty(const struct patch_chunk *c)
{
        return !last_old(c)->text.n;
}

static size_t drop(struct patch_line *lines, size_t count, size_t i)
{
        memmove(&lines[i], &lines[i + 1], (count - i - 1) * sizeof(*lines));
        return count - 1;
}

const struct patch_line *compose_shorten(struct arena *a, const struct patch_chunk *c, size_t *ret_count)
{
        size_t count = c->line_count, i = (size_t)(last_old(c) - c->lines);
        struct patch_line *lines = arena_alloc(a, count * sizeof(*lines));

        memcpy(lines, c->lines, count * sizeof(*lines));
        if (lines[i].kind == PATCH_LINE_CONTEXT)
                lines[i].kind = PATCH_LINE_ADDED;
        else
                count = drop(lines, count, i);
        for (i = count; i > 0 && lines[i - 1].kind == PATCH_LINE_REMOVED;)
                i--;
        if (i > 0 && !lines[i - 1].text.n) {
                if (lines[i - 1].kind == PATCH_LINE_CONTEXT)
                        lines[i - 1].kind = PATCH_LINE_REMOVED;
                else
                        count = drop(lines, count, i - 1);
        }
        *ret_count = count;
        return lines;
}

/* ---- Changes */

void compose_block(struct composer *c, const struct patch_line *lines, size_t line_count, uint64_t first,
                   const uint64_t *offsets)
{
        size_t at = 0; /* how many old lines were passed so far */

        for (size_t i = 0; i < line_count;) {
                if (lines[i].kind == PATCH_LINE_CONTEXT) {
                        at++;
                        i++;
                        continue;
                }
                struct line_change change = { .offset = offsets[at], .line = first + at, .lines = &lines[i] };
                for (; i < line_count && lines[i].kind != PATCH_LINE_CONTEXT; i++) {
                        change.line_count++;
                        change.removed_lines += lines[i].kind == PATCH_LINE_REMOVED;
                }
                at += change.removed_lines;
                change.removed = offsets[at] - change.offset;
                put_change(c, change.line == c->file_lines ? &c->at_end : &c->inside, &change);
        }
}

/* Counts the lines of a text that ends with a line's end. A CR inside of an added line ends a line, too. */
static uint64_t count_lines(struct slice text)
{
        uint64_t n = 0;

        for (size_t i = 0; i < text.n; i++)
                n += text.p[i] == '\n' || (text.p[i] == '\r' && (i + 1 == text.n || text.p[i + 1] != '\n'));
        return n;
}

/* Returns the added lines of some changes, each with the terminator. */
static struct slice added_text(struct arena *a, const struct line_change *changes, size_t count,
                               struct slice terminator)
{
        size_t n = 0;

        for (size_t k = 0; k < count; k++)
                for (size_t i = 0; i < changes[k].line_count; i++)
                        if (changes[k].lines[i].kind == PATCH_LINE_ADDED)
                                n += changes[k].lines[i].text.n + terminator.n;
        char *text = arena_alloc(a, n + 1), *to = text;
        for (size_t k = 0; k < count; k++) {
                for (size_t i = 0; i < changes[k].line_count; i++) {
                        const struct patch_line *line = &changes[k].lines[i];
                        if (line->kind == PATCH_LINE_ADDED) {
                                to = mempcpy(to, line->text.p, line->text.n);
                                to = mempcpy(to, terminator.p, terminator.n);
                        }
                }
        }
        *to = 0;
        return slice_from(text, n);
}

static void add_edit(struct edits *e, const struct edit *edit)
{
        e->list[e->count++] = *edit;
        e->new_bytes += edit->added.n - edit->removed;
        e->new_lines += edit->added_lines - edit->removed_lines;
        e->removed_bytes += edit->removed;
        e->removed_lines += edit->removed_lines;
        e->added_lines += edit->added_lines;
}

/* Joins changes that touch. */
static void add_edits(struct arena *a, const struct line_changes *l, struct slice terminator,
                      struct edits *ret)
{
        for (size_t i = 0, n; i < l->count; i += n) {
                const struct line_change *c = &l->list[i];
                struct edit edit = { .offset = c->offset, .line = c->line };
                for (n = 0; i + n < l->count && c[n].line == edit.line + edit.removed_lines; n++) {
                        edit.removed += c[n].removed;
                        edit.removed_lines += c[n].removed_lines;
                }
                edit.added = added_text(a, c, n, terminator);
                edit.added_lines = count_lines(edit.added);
                add_edit(ret, &edit);
        }
}

/* Is the last line of the file among the removed ones? */
static bool is_last_removed(const struct composer *c)
{
        const struct line_change *last = c->inside.count ? &c->inside.list[c->inside.count - 1] : NULL;

        return last && last->line + last->removed_lines == c->file_lines;
}

void compose_end(struct composer *c, struct arena *a, const struct file_shape *file, struct edits *ret)
{
        struct slice terminator = file->terminator.p ? file->terminator : S("\n");
        struct edits e = { .old_bytes = file->bytes,
                           .new_bytes = file->bytes,
                           .old_lines = file->lines,
                           .new_lines = file->lines };

        e.list = arena_alloc(a, (c->inside.count + c->at_end.count + 1) * sizeof(*e.list));
        if (is_last_removed(c)) {
                /* Lines that are added at the end touch the last line, which is removed: both make one edit. */
                for (size_t i = 0; i < c->at_end.count; i++)
                        put_change(c, &c->inside, &c->at_end.list[i]);
                add_edits(a, &c->inside, terminator, &e);
        } else {
                add_edits(a, &c->inside, terminator, &e);
                if (file->is_open)
                        add_edit(&e, &(struct edit){ .offset = file->bytes,
                                                     .added = terminator,
                                                     .line = file->lines - 1,
                                                     .is_terminator = true });
                add_edits(a, &c->at_end, terminator, &e);
        }
        *ret = e;
}
