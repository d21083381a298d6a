/* fuzz_patch_place: an update of a small file does what a slow model says (patch_model.h), however the file is cut into reads. The
 * edits lead back to the old text, and their unified diff leads to the new one.
 *
 * The lines come from a short list, so that they often match, often at some levels only. */
#include "patch_model.h"

#include "hunk/lines.h"
#include "hunk/place_internal.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX ((size_t)1 << 20)

static const char *const texts[] = {
        "a",
        "b",
        "",
        " ",
        "\t",
        "a ",
        " a",
        "a\xe2\x80\x99",
        "a'",
        "\xc2\xa0",
        "-",
        "\xe2\x80\x93",
        "b\xe3\x80\x80",
        "\xff",
        "a\xff",
        "\xe2\x80",
        "\xc2",
        "a\xc2",
        "\xa0",
        "a b",
        "a\302\240b",
        "\xc2\x85",
        "\xe2\x80\xa8",
        "a\r",
        "\r",
        "abcdefghijk",
        "abcdefghiijk",
        "  abcdefghijk\t",
        "\"",
        "\xe2\x80\x9d",
        "\xe1\x9a\x80",
        "\xe2\x81\x9f",
};

struct input {
        const uint8_t *data;
        size_t n;
};

static unsigned take(struct input *in, unsigned below)
{
        if (!in->n)
                return 0;
        in->n--;
        return *in->data++ % below;
}

/* In a file a CR ends the line; in a patch it is text. */
static struct slice take_text(struct input *in)
{
        return slice_from_str(texts[take(in, ARRAY_LEN(texts))]);
}

static void make_file(struct input *in, struct buf *out)
{
        static const char *const ends[] = { "\n", "\n", "\n", "\n", "\n", "\r\n", "\r" };
        unsigned count = take(in, 14);

        for (unsigned i = 0; i < count; i++) {
                /* A line of more than one text may be too long for the buffer. */
                for (unsigned n = take(in, 12) + 1; n > 0; n -= n > 8 ? 1 : n)
                        must(buf_append(out, take_text(in)) == 0);
                unsigned end = take(in, ARRAY_LEN(ends) + 1);
                if (end < ARRAY_LEN(ends))
                        must(buf_append(out, slice_from_str(ends[end])) == 0);
        }
}

static void make_chunk(struct arena *a, struct input *in, struct patch_chunk *c)
{
        unsigned flags = take(in, 8);

        *c = (struct patch_chunk){ .line_count = 1 + take(in, 6), .is_end_of_file = flags == 1 };
        if (flags == 2 || flags == 3)
                c->context = take_text(in);
        c->lines = arena_alloc(a, c->line_count * sizeof(*c->lines));
        for (size_t i = 0; i < c->line_count; i++) {
                c->lines[i] = (struct patch_line){ (enum patch_line_kind)take(in, 3), take_text(in) };
                c->old_count += c->lines[i].kind != PATCH_LINE_ADDED;
        }
}

static struct hunk make_hunk(struct arena *a, struct input *in)
{
        struct hunk h = { .kind = HUNK_UPDATE, .path = S("f"), .chunk_count = 1 + take(in, 4) };

        h.chunks = arena_alloc(a, h.chunk_count * sizeof(*h.chunks));
        for (size_t i = 0; i < h.chunk_count; i++)
                make_chunk(a, in, &h.chunks[i]);
        return h;
}

/* ---- A reader of few bytes at a time */

struct drip {
        struct slice text;
        size_t step, position;
};

static int drip_rewind(void *arg, UNUSED struct err *err)
{
        ((struct drip *)arg)->position = 0;
        return 0;
}

static ssize_t drip_read(void *arg, char *buf, size_t n, UNUSED struct err *err)
{
        struct drip *d = arg;
        size_t take_n = MIN(MIN(n, d->step), d->text.n - d->position);

        if (take_n)
                memcpy(buf, d->text.p + d->position, take_n);
        d->position += take_n;
        return (ssize_t)take_n;
}

static struct reader drip_reader(struct drip *d, struct slice text, size_t step)
{
        *d = (struct drip){ .text = text, .step = step };
        return (struct reader){ drip_rewind, drip_read, d };
}

static void check_reads(const struct edits *edits, const struct reader *old, struct slice want)
{
        _buf_ struct buf got = BUF_INIT(TEXT_MAX);
        struct edits_reader e;
        struct reader fresh = edits_read(&e, edits, old);
        struct err err = ERR_INIT;
        char piece[5];
        ssize_t n;

        while ((n = reader_read(&fresh, piece, sizeof(piece), &err)) > 0)
                must(buf_append(&got, slice_from(piece, (size_t)n)) == 0);
        must(n == 0 && slice_eq(buf_slice(&got), want));
        must(edits->new_bytes == want.n && edits->old_bytes + want.n >= edits->removed_bytes);
}

/* ---- Unified diffs */

static int sink_write(void *arg, struct slice piece, UNUSED struct err *err)
{
        must(buf_append(arg, piece) == 0);
        return 0;
}

static uint64_t take_number(struct slice *s)
{
        uint64_t n = 0;

        must(s->n && s->p[0] >= '0' && s->p[0] <= '9');
        for (; s->n && s->p[0] >= '0' && s->p[0] <= '9'; *s = slice_from(s->p + 1, s->n - 1))
                n = 10 * n + (uint64_t)(s->p[0] - '0');
        return n;
}

static void skip(struct slice *s, struct slice text)
{
        must(slice_starts(*s, text));
        *s = slice_from(s->p + text.n, s->n - text.n);
}

/* Takes "12,3" or "12"; returns the number of the first line, from 0. */
static uint64_t take_range(struct slice *s, uint64_t *ret_count)
{
        uint64_t start = take_number(s);

        *ret_count = 1;
        if (s->n && s->p[0] == ',') {
                skip(s, S(","));
                *ret_count = take_number(s);
        }
        return *ret_count ? start - 1 : start;
}

/* Takes a line of the diff, with its LF unless the diff says that there is none. */
static struct slice take_line(struct slice *diff)
{
        static const struct slice no_lf = { "\\ No newline at end of file\n", 28 };
        const char *lf = memchr(diff->p, '\n', diff->n);

        must(lf);
        struct slice line = slice_from(diff->p, (size_t)(lf + 1 - diff->p));
        skip(diff, line);
        if (slice_starts(*diff, no_lf)) {
                skip(diff, no_lf);
                line.n--;
        }
        return line;
}

/* Applies the diff to the old text, which has no other ends of lines than LF; each line of it must be right. */
static void check_diff(const struct edits *edits, const struct reader *old, struct slice text,
                       struct slice want)
{
        _buf_ struct buf written = BUF_INIT(TEXT_MAX), got = BUF_INIT(TEXT_MAX);
        struct err err = ERR_INIT;
        uint64_t line = 0, new_line = 0;
        unsigned context = (unsigned)text.n % 4;

        must(edits_diff(edits, old, context, &(struct edits_sink){ sink_write, &written }, &err) == 0);
        if (memchr(text.p, '\r', text.n) || memchr(want.p, '\r', want.n))
                return; /* such lines cannot be told from others in a diff */
        for (struct slice diff = buf_slice(&written); diff.n;) {
                uint64_t removed, added;
                skip(&diff, S("@@ -"));
                uint64_t start = take_range(&diff, &removed);
                skip(&diff, S(" +"));
                uint64_t new_start = take_range(&diff, &added);
                skip(&diff, S(" @@\n"));
                for (; line < start; line++, new_line++) {
                        struct slice kept = slice_split(&text, '\n');
                        must(text.p && buf_append(&got, kept) == 0 && buf_append_char(&got, '\n') == 0);
                }
                must(new_line == new_start);
                for (uint64_t end = line + removed, new_end = new_line + added;
                     line < end || new_line < new_end;) {
                        struct slice shown = take_line(&diff), body = slice_from(shown.p + 1, shown.n - 1);
                        if (shown.p[0] != '+') {
                                skip(&text, body);
                                line++;
                        }
                        if (shown.p[0] != '-') {
                                must(buf_append(&got, body) == 0);
                                new_line++;
                        }
                }
        }
        must(!text.n || buf_append(&got, text) == 0);
        must(slice_eq(buf_slice(&got), want));
}

/* Checks edits that make `fresh` of `text`, and the way back. */
static void check_edits(struct arena *a, const struct edits *edits, const struct reader *old,
                        struct slice text, struct slice fresh)
{
        struct edits back;
        struct err err = ERR_INIT;
        struct drip d;
        struct reader new_reader = drip_reader(&d, fresh, 3);

        check_reads(edits, old, fresh);
        check_diff(edits, old, text, fresh);
        must(edits_reverse(a, edits, old, TEXT_MAX, &back, &err) == 0);
        must(back.count || slice_eq(text, fresh));
        check_reads(&back, &new_reader, text);
        check_diff(&back, &new_reader, fresh, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT, scratch = ARENA_INIT;
        _buf_ struct buf file = BUF_INIT(TEXT_MAX), want = BUF_INIT(TEXT_MAX);
        struct input in = { data, size };
        struct patch_error error;
        struct err err = ERR_INIT;
        struct edits edits;
        struct drip d;
        size_t chunk = 0;

        size_t step = 1 + take(&in, 9), room = LINES_ROOM_MIN + take(&in, 40);
        make_file(&in, &file);
        struct hunk h = make_hunk(&a, &in);
        struct reader reader = drip_reader(&d, buf_slice(&file), step);
        enum model_result result = model_update(&a, &h, buf_slice(&file), &want, &chunk);
        int r = place_find_in(&scratch, room, &a, &h, S("/f"), &reader, &edits, &error, &err);
        must((r == 0) == (result == MODEL_DONE));
        if (r == 0) {
                check_edits(&a, &edits, &reader, buf_slice(&file), buf_slice(&want));
        } else {
                must(r == -ENOENT && error.line == h.chunks[chunk].line);
                must(error.kind == (result == MODEL_NO_CONTEXT ? PATCH_ERROR_CONTEXT : PATCH_ERROR_LINES));
        }
        return 0;
}
