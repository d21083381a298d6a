/* edits: reads the new text of a file through its edits, and makes the edits that lead back to the old text. */
#include "hunk/edits.h"

#include <errno.h>

/* Reads up to `n` bytes of the old text, and at least one. */
static ssize_t read_old(struct edits_reader *e, char *buf, uint64_t n, struct err *err)
{
        ssize_t r = reader_read(e->old, buf, (size_t)MIN(n, (uint64_t)PTRDIFF_MAX), err);

        if (r > 0)
                e->offset += (uint64_t)r;
        return r ? r : reader_fail_changed(err);
}

/* Checks that the old text still ends where it ended when the places were found. Returns 0 or -ESTALE. */
static ssize_t check_end(struct edits_reader *e, char *buf, struct err *err)
{
        ssize_t r = reader_read(e->old, buf, 1, err);

        return r > 0 ? reader_fail_changed(err) : r;
}

static int edits_rewind(void *arg, struct err *err)
{
        struct edits_reader *e = arg;
        int r = reader_rewind(e->old, err);

        if (r < 0)
                return r;
        *e = (struct edits_reader){ .edits = e->edits, .old = e->old, .is_begun = true };
        return 0;
}

static ssize_t edits_read_some(void *arg, char *buf, size_t n, struct err *err)
{
        struct edits_reader *e = arg;
        ssize_t r = e->is_begun ? 0 : edits_rewind(e, err);

        if (r < 0 || n == 0)
                return r;
        for (;;) {
                const struct edit *edit = e->index < e->edits->count ? &e->edits->list[e->index] : NULL;
                uint64_t until = edit ? edit->offset : e->edits->old_bytes;
                if (e->offset < until)
                        return read_old(e, buf, MIN(n, until - e->offset), err);
                if (!edit)
                        return check_end(e, buf, err);
                if (e->given < edit->added.n) {
                        size_t take = MIN(n, edit->added.n - e->given);
                        memcpy(buf, edit->added.p + e->given, take);
                        e->given += take;
                        return (ssize_t)take;
                }
                for (until += edit->removed; e->offset < until;) {
                        r = read_old(e, buf, MIN(n, until - e->offset), err);
                        if (r < 0)
                                return r;
                }
                e->index++;
                e->given = 0;
        }
}

struct reader edits_read(struct edits_reader *e, const struct edits *edits, const struct reader *old)
{
        *e = (struct edits_reader){ .edits = edits, .old = old };
        return (struct reader){ edits_rewind, edits_read_some, e };
}

/* ---- The way back */

#define SKIP_BYTES ((size_t)64 * 1024)

/* Reads over the old text until `offset`. */
static int skip_to(struct edits_reader *e, uint64_t offset, char *scratch, struct err *err)
{
        while (e->offset < offset) {
                ssize_t r = read_old(e, scratch, MIN(SKIP_BYTES, offset - e->offset), err);
                if (r < 0)
                        return (int)r;
        }
        return 0;
}

/* Reads the next `n` bytes of the old text into the arena. */
static int keep(struct edits_reader *e, struct arena *a, uint64_t n, struct slice *ret, struct err *err)
{
        uint64_t end = e->offset + n;
        char *text = arena_alloc(a, n + 1), *to = text;

        while (e->offset < end) {
                ssize_t r = read_old(e, to, end - e->offset, err);
                if (r < 0)
                        return (int)r;
                to += r;
        }
        *to = 0;
        *ret = slice_from(text, n);
        return 0;
}

/* Adds the edit that takes `edit` back; `old` is what it removes. */
static void add_reverse(struct edits *ret, const struct edit *edit, struct slice old, uint64_t shift,
                        uint64_t line_shift)
{
        ret->list[ret->count++] = (struct edit){
                .offset = edit->offset + shift,
                .removed = edit->added.n,
                .added = old,
                .line = edit->line + line_shift,
                .removed_lines = edit->added_lines,
                .added_lines = edit->removed_lines,
                .is_terminator = edit->is_terminator,
        };
        ret->removed_bytes += edit->added.n;
        ret->removed_lines += edit->added_lines;
        ret->added_lines += edit->removed_lines;
}

int edits_reverse(struct arena *a, const struct edits *edits, const struct reader *old, uint64_t max,
                  struct edits *ret, struct err *err)
{
        struct edits_reader e = { .edits = edits, .old = old };
        struct edits back = { .old_bytes = edits->new_bytes,
                              .new_bytes = edits->old_bytes,
                              .old_lines = edits->new_lines,
                              .new_lines = edits->old_lines };
        uint64_t
                shift = 0,
                line_shift =
                        0; /* how many bytes and lines the new text has more, so far; when it has fewer, the numbers wrap */
        char scratch[SKIP_BYTES];

        if (edits->removed_bytes > max)
                return err_set(err, 0, -EFBIG, "the lines that the patch replaces are too long to be kept");
        int r = reader_rewind(old, err);
        if (r < 0)
                return r;
        back.list = arena_alloc(a, (edits->count + 1) * sizeof(*back.list));
        for (size_t i = 0; i < edits->count; i++) {
                const struct edit *edit = &edits->list[i];
                struct slice text = { 0 };
                r = skip_to(&e, edit->offset, scratch, err);
                if (!r)
                        r = keep(&e, a, edit->removed, &text, err);
                if (r < 0)
                        return r;
                if (!slice_eq(text, edit->added))
                        add_reverse(&back, edit, text, shift, line_shift);
                shift += edit->added.n - edit->removed;
                line_shift += edit->added_lines - edit->removed_lines;
        }
        *ret = back;
        return 0;
}
