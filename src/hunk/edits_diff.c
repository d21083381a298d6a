/* edits_diff: edits as a unified diff.
 *
 * The edits say beforehand which lines a part of the diff has, so that the old text can be copied as it is read, and no line is kept.
 */
#include "hunk/edits.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

#define BUFFER_BYTES ((size_t)64 * 1024)
#define NO_NEWLINE "\n\\ No newline at end of file\n"

struct differ {
        const struct edits *edits;
        const struct reader *old;
        const struct edits_sink *sink;
        unsigned context;
        struct err *err;
        char *buffer;
        size_t start, end; /* the bytes of `buffer` that were read and not used yet */
        bool is_end, is_lf_known;
        size_t lf;             /* the first LF behind `start`, or `end` */
        uint64_t offset, line; /* of `start` in the old text */
};

static int put(struct differ *d, struct slice piece)
{
        return piece.n ? d->sink->write(d->sink->arg, piece, d->err) : 0;
}

static int put_sign(struct differ *d, char sign)
{
        return sign ? put(d, slice_from(&sign, 1)) : 0;
}

/* ---- The old text */

/* Reads more when less than two bytes are left: a CR is judged by what follows. */
static int fill(struct differ *d)
{
        if (d->is_end || d->end - d->start > 1)
                return 0;
        if (d->start < d->end)
                d->buffer[0] = d->buffer[d->start];
        d->end -= d->start;
        d->start = 0;
        while (!d->is_end && d->end < 2) {
                ssize_t n = reader_read(d->old, d->buffer + d->end, BUFFER_BYTES - d->end, d->err);
                if (n < 0)
                        return (int)n;
                d->is_end = n == 0;
                d->end += (size_t)n;
        }
        d->is_lf_known = false;
        return 0;
}

/* Returns how many bytes the line at `start` has before its end; when its end was not read yet, how many bytes of it were read. */
static size_t line_bytes(struct differ *d)
{
        const char *start = d->buffer + d->start;

        if (!d->is_lf_known || d->lf < d->start) {
                const char *lf = memchr(start, '\n', d->end - d->start);
                d->lf = lf ? (size_t)(lf - d->buffer) : d->end;
                d->is_lf_known = true;
        }
        const char *cr = memchr(start, '\r', d->lf - d->start);
        return cr ? (size_t)(cr - start) : d->lf - d->start;
}

/* Returns how many bytes of the end of a line are at the beginning of the text. Returns 0 when there are none, and when the text is a CR
 * behind which an LF may follow (`is_all`: nothing follows). */
static size_t end_bytes(struct slice text, bool is_all)
{
        if (!text.n || (text.p[0] != '\r' && text.p[0] != '\n'))
                return 0;
        if (text.p[0] == '\n' || (text.n == 1 && is_all))
                return 1;
        return text.n == 1 ? 0 : text.p[1] == '\n' ? 2 : 1;
}

/* Writes the end that a line has in its file. A lone CR gets an LF behind it, because the lines of a diff end in LF. */
static int put_end(struct differ *d, struct slice end)
{
        int r = end.n ? put(d, end) : put(d, S(NO_NEWLINE));

        return r < 0 || !slice_eq(end, S("\r")) ? r : put(d, S("\n"));
}

/* Copies the next line of the old text with a sign before it; without a sign it is passed over. */
static int copy_line(struct differ *d, char sign)
{
        int r = fill(d);

        if (!r && d->start == d->end)
                r = reader_fail_changed(d->err);
        if (!r)
                r = put_sign(d, sign);
        for (bool is_over = false; !r && !is_over; r = r ? r : fill(d)) {
                size_t n = line_bytes(d);
                struct slice text = slice_from(d->buffer + d->start, n);
                struct slice rest = slice_from(text.p + n, d->end - d->start - n);
                rest.n = end_bytes(rest, d->is_end);
                d->start += n + rest.n;
                d->offset += n + rest.n;
                is_over = rest.n || (d->is_end && d->start == d->end);
                if (sign)
                        r = put(d, text);
                if (sign && !r && is_over)
                        r = put_end(d, rest);
        }
        d->line++;
        return r;
}

/* Copies the lines before the line `line`, and stops at `offset` in any case. The offset is needed for reversed edits: when edits have
 * put an LF behind a lone CR, two lines have become one, and the line number of an edit behind them is one too large. */
static int copy_lines(struct differ *d, uint64_t line, uint64_t offset, char sign)
{
        int r = 0;

        while (!r && d->line < line && d->offset < offset)
                r = copy_line(d, sign);
        return r;
}

/* Copies the lines up to an offset. */
static int copy_until(struct differ *d, uint64_t offset, char sign)
{
        int r = 0;

        while (!r && d->offset < offset)
                r = copy_line(d, sign);
        return r;
}

/* ---- Parts: edits with the lines around them */

static uint64_t edit_end(const struct edit *e)
{
        return e->line + (e->is_terminator ? 1 : e->removed_lines);
}

struct part {
        size_t first, count; /* edits */
        uint64_t start, end; /* lines of the old text */
        uint64_t new_start;  /* the line of the new text that `start` has become */
        uint64_t new_count;
};

/* Finds the part that begins with the edit `first`. `shift` is how many lines more the new text has before this edit. */
static struct part part_from(const struct differ *d, size_t first, uint64_t shift)
{
        const struct edits *e = d->edits;
        const struct edit *edit = &e->list[first];
        struct part p = { .first = first, .start = edit->line - MIN(edit->line, d->context) };
        uint64_t end = edit->line, growth = 0;

        for (; first + p.count < e->count && edit->line <= end + 2 * (uint64_t)d->context;
             p.count++, edit++) {
                end = edit_end(edit);
                growth += edit->added_lines - edit->removed_lines;
        }
        p.end = MIN(end + d->context, MAX(e->old_lines, end));
        p.new_start = p.start + shift;
        p.new_count = p.end - p.start + growth;
        return p;
}

/* Writes the range of a part: "12,3", or "12" for a single line. "12,0" is the empty range behind line 12. */
static int put_range(struct differ *d, char sign, uint64_t start, uint64_t count)
{
        char text[64];
        int n = count == 1 ? snprintf(text, sizeof(text), "%c%" PRIu64, sign, start + 1)
                           : snprintf(text, sizeof(text), "%c%" PRIu64 ",%" PRIu64, sign,
                                      start + (count != 0), count);

        return put(d, slice_from(text, (size_t)n));
}

static int put_head(struct differ *d, const struct part *p)
{
        int r = put(d, S("@@ "));

        r = r ? r : put_range(d, '-', p->start, p->end - p->start);
        r = r ? r : put(d, S(" "));
        r = r ? r : put_range(d, '+', p->new_start, p->new_count);
        return r ? r : put(d, S(" @@\n"));
}

/* Writes the lines that an edit adds. */
static int put_added(struct differ *d, struct slice text)
{
        int r = 0;

        while (!r && text.n) {
                size_t n = 0;
                while (n < text.n && text.p[n] != '\n' && text.p[n] != '\r')
                        n++;
                struct slice end = slice_from(text.p + n, text.n - n);
                end.n = end_bytes(end, true);
                r = put_sign(d, '+');
                r = r ? r : put(d, slice_from(text.p, n));
                r = r ? r : put_end(d, end);
                text = slice_from(end.p + end.n, text.n - n - end.n);
        }
        return r;
}

/* Reads the old text again, and writes what is between two offsets, which has no end of a line in it. */
static int put_again(struct differ *d, uint64_t from, uint64_t to)
{
        uint64_t offset = 0;
        int r = reader_rewind(d->old, d->err);

        while (!r && offset < to) {
                ssize_t n = reader_read(d->old, d->buffer, (size_t)MIN(BUFFER_BYTES, to - offset), d->err);
                if (n <= 0)
                        return n < 0 ? (int)n : reader_fail_changed(d->err);
                uint64_t skip = from > offset ? MIN(from - offset, (uint64_t)n) : 0;
                r = put(d, slice_from(d->buffer + skip, (size_t)n - skip));
                offset += (uint64_t)n;
        }
        return r;
}

/* Writes the line that gets or loses its terminator, and the lines that are removed or added behind it. Nothing follows them, so that
 * the old text may be read from its beginning again. */
static int put_terminator(struct differ *d, const struct edit *e, const struct edit *next)
{
        uint64_t start = d->offset;
        int r = d->offset < d->edits->old_bytes ? copy_line(d, '-') : 0;

        if (next)
                r = r ? r : copy_until(d, next->offset + next->removed, '-');
        r = r ? r : put_sign(d, '+');
        r = r ? r : put_again(d, start, e->offset);
        r = r ? r : put_end(d, e->added);
        return r || !next ? r : put_added(d, next->added);
}

static int put_part(struct differ *d, const struct part *p)
{
        int r = put_head(d, p);

        for (size_t i = p->first; !r && i < p->first + p->count; i++) {
                const struct edit *e = &d->edits->list[i];
                r = e->is_terminator ? copy_lines(d, e->line, e->offset, ' ') : copy_until(d, e->offset, ' ');
                if (!r && e->is_terminator)
                        return put_terminator(d, e, i + 1 < d->edits->count ? e + 1 : NULL);
                r = r ? r : copy_until(d, e->offset + e->removed, '-');
                r = r ? r : put_added(d, e->added);
        }
        return r ? r : copy_lines(d, p->end, d->edits->old_bytes, ' ');
}

int edits_diff(const struct edits *edits, const struct reader *old, unsigned context,
               const struct edits_sink *sink, struct err *err)
{
        _free_ char *buffer = mem_alloc(BUFFER_BYTES);
        struct differ d = {
                .edits = edits, .old = old, .sink = sink, .context = context, .err = err, .buffer = buffer
        };
        uint64_t shift = 0;
        int r = edits->count ? reader_rewind(old, err) : 0;

        for (size_t i = 0; !r && i < edits->count;) {
                struct part p = part_from(&d, i, shift);
                r = copy_lines(&d, p.start, edits->list[i].offset, 0);
                r = r ? r : put_part(&d, &p);
                shift = p.new_start + p.new_count - p.end;
                i += p.count;
        }
        return r;
}
