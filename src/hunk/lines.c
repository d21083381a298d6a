/* lines: finds the ends of lines in a buffer that moves over a file. */
#include "hunk/lines.h"

#include "hunk/text.h"

#define FIRST 1

int lines_begin(struct lines *l, struct arena *a, const struct reader *r, size_t longest, size_t room,
                struct err *err)
{
        size_t size =
                FIRST + 2 * longest +
                room; /* twice, so that make_room finds white space to forget, or a line that is too long */

        *l = (struct lines){ .reader = r, .buffer = arena_alloc(a, size), .size = size, .longest = longest };
        return lines_rewind(l, err);
}

int lines_rewind(struct lines *l, struct err *err)
{
        int r = reader_rewind(l->reader, err);

        if (r < 0)
                return r;
        *l = (struct lines){ .reader = l->reader,
                             .terminator = l->terminator,
                             .buffer = l->buffer,
                             .size = l->size,
                             .longest = l->longest,
                             .start = FIRST,
                             .scan = FIRST,
                             .end = FIRST };
        return 0;
}

static struct slice pending(const struct lines *l)
{
        return slice_from(l->buffer + l->start, l->end - l->start);
}

/* Keeps the part `keep` of the line at `start`, moved to the front of the buffer. */
static void keep_only(struct lines *l, struct slice keep)
{
        l->cut += (l->end - l->start) - keep.n;
        if (keep.n)
                memmove(l->buffer + FIRST, keep.p, keep.n);
        l->start = FIRST;
        l->end = l->scan = FIRST + keep.n;
}

/* Moves the line at `start` to the front of the buffer. */
static void move_to_front(struct lines *l)
{
        size_t n = l->end - l->start, scanned = l->scan - l->start;

        if (n && l->start > FIRST)
                memmove(l->buffer + FIRST, l->buffer + l->start, n);
        l->start = FIRST;
        l->scan = FIRST + scanned;
        l->end = FIRST + n;
}

/* Returns how many bytes at the end of the text are a character of white space that may not have come completely. */
static size_t unfinished(struct slice s)
{
        for (size_t n = 1; n <= 2 && n <= s.n; n++)
                if ((unsigned char)s.p[s.n - n] >= 0xc0)
                        return n;
        return 0;
}

/* The line fills the buffer, and goes on: makes room by forgetting white space that cannot matter, or the whole line. */
static void make_room(struct lines *l)
{
        struct slice line = pending(l), text = text_trim_start(line);
        size_t rest = unfinished(line);
        struct slice content = text_trim_end(slice_from(line.p, line.n - rest));

        if (l->is_too_long || (l->is_tail_cut && content.n != l->content)) {
                l->is_too_long = true;
                keep_only(l, S(""));
        } else if (content.n && content.n <= l->longest) {
                /* White space fills the rest of the buffer. If anything else comes behind it, the line is too long. */
                l->is_tail_cut = true;
                l->content = content.n;
                memmove(l->buffer + l->start + content.n, line.p + line.n - rest, rest);
                keep_only(l, slice_from(line.p, content.n + rest));
        } else if (text.n < line.n) {
                l->is_head_cut = true;
                keep_only(l, text);
        } else {
                l->is_too_long = true;
                keep_only(l, S(""));
        }
}

/* Reads more behind what is in the buffer. */
static int fill(struct lines *l, struct err *err)
{
        move_to_front(l);
        /* Whether a CR at the end of the buffer ends the line alone is known from the byte behind it, for which the last byte is kept. */
        size_t limit = l->scan < l->end ? l->size : l->size - 1;
        if (l->end == limit)
                make_room(l);
        ssize_t n = reader_read(l->reader, l->buffer + l->end, limit - l->end, err);
        if (n < 0)
                return (int)n;
        l->end += (size_t)n;
        l->is_end = n == 0;
        l->lf = l->cr = 0;
        return 0;
}

/* Returns the position of the first `c` at or behind `scan`, or `end`. *known keeps the result, so that no byte is searched twice. */
static size_t find(struct lines *l, char c, size_t *known)
{
        if (*known < l->scan) {
                const char *p = memchr(l->buffer + l->scan, c, l->end - l->scan);
                *known = p ? (size_t)(p - l->buffer) : l->end;
        }
        return *known;
}

/* Hands out the line that ends at `end`, with an end of n bytes. */
static int hand_out(struct lines *l, size_t end, size_t n, struct line *ret)
{
        struct slice text = slice_from(l->buffer + l->start, end - l->start);

        *ret = (struct line){ .offset = l->offset, .next = l->offset + l->cut + text.n + n, .text = text };
        if (l->cut) {
                if (l->is_tail_cut)
                        ret->text = text_trim_end(text);
                /* The white space of a line that has nothing else counts as white space at its end. */
                bool is_blank = text_trim(text).n == 0;
                ret->cut = l->is_head_cut && !is_blank ? 2 : 1;
                if (is_blank)
                        ret->text = S("");
                if (l->is_too_long || (l->is_tail_cut && ret->text.n != l->content)) {
                        ret->cut = LINE_TOO_LONG;
                        ret->text = S("");
                }
                l->is_head_cut = l->is_tail_cut = l->is_too_long = false;
                l->cut = 0;
        }
        if (n && !l->terminator.p)
                l->terminator = n == 2 ? S("\r\n") : l->buffer[end] == '\r' ? S("\r") : S("\n");
        l->is_open = n == 0;
        l->offset = ret->next;
        l->start = l->scan = end + n;
        return 1;
}

int lines_next(struct lines *l, struct line *ret, struct err *err)
{
        for (;;) {
                size_t lf = find(l, '\n', &l->lf), cr = find(l, '\r', &l->cr);
                if (lf < cr)
                        return hand_out(l, lf, 1, ret);
                if (cr + 1 < l->end)
                        return hand_out(l, cr, lf == cr + 1 ? 2 : 1, ret);
                if (l->is_end && cr < l->end)
                        return hand_out(l, cr, 1, ret);
                if (l->is_end)
                        return l->start < l->end || l->cut ? hand_out(l, l->end, 0, ret) : 0;
                l->scan = cr;
                int r = fill(l, err);
                if (r < 0)
                        return r;
        }
}
