/* parse: the text of a patch, line by line.
 *
 * A state says what the lines before were: the head of the patch, or the hunk of one of the three kinds. A line is first offered to the
 * hunk that it may belong to; what the hunk does not take must be a header, or the end of the patch. */
#include "hunk/parse.h"

#include "base/limits.h"
#include "hunk/text.h"

#include <errno.h>

#define BEGIN_MARK "*** Begin Patch"
#define END_MARK "*** End Patch"
#define ENVIRONMENT_MARK "*** Environment ID:"
#define ADD_MARK "*** Add File: "
#define DELETE_MARK "*** Delete File: "
#define UPDATE_MARK "*** Update File: "
#define MOVE_MARK "*** Move to: "
#define END_OF_FILE_MARK "*** End of File"

enum state { STATE_HEAD, STATE_ADD, STATE_DELETE, STATE_UPDATE, STATE_END };

struct parser {
        struct arena *arena;
        struct patch *patch;
        struct patch_error *error;
        enum state state;
        struct slice line; /* the line at hand, without its end */
        size_t number;     /* of that line */
        size_t hunk_room, chunk_room, line_room, added_room;
};

/* ---- Errors */

static int fail(struct parser *p, enum patch_error_kind kind, size_t line, const char *before,
                struct slice text, const char *after)
{
        size_t head = strlen(before), tail = strlen(after);
        char *message = arena_alloc(p->arena, head + text.n + tail + 1);

        memcpy(message, before, head);
        if (text.n)
                memcpy(message + head, text.p, text.n);
        memcpy(message + head + text.n, after, tail + 1);
        *p->error = (struct patch_error){ kind, line, slice_from(message, head + text.n + tail) };
        return -EINVAL;
}

static int fail_text(struct parser *p, const char *message)
{
        return fail(p, PATCH_ERROR_TEXT, 0, message, S(""), "");
}

static int fail_header(struct parser *p)
{
        return fail(p, PATCH_ERROR_HUNK, p->number, "'", text_trim(p->line),
                    "' is not a valid hunk header. Valid hunk headers: '" ADD_MARK "{path}', '" DELETE_MARK
                    "{path}', '" UPDATE_MARK "{path}'");
}

static int fail_unexpected(struct parser *p)
{
        return fail(p, PATCH_ERROR_HUNK, p->number, "Unexpected line found in update hunk: '", p->line,
                    "'. Every line should start with ' ' (context line), '+' (added line), or '-' (removed "
                    "line)");
}

static int fail_expected_context(struct parser *p)
{
        return fail(p, PATCH_ERROR_HUNK, p->number,
                    "Expected update hunk to start with a @@ context marker, got: '", p->line, "'");
}

static int fail_empty_update(struct parser *p, const struct hunk *h)
{
        return fail(p, PATCH_ERROR_HUNK, h->line, "Update file hunk for path '", h->path, "' is empty");
}

static int fail_empty_chunk(struct parser *p)
{
        return fail(p, PATCH_ERROR_HUNK, p->number, "Update hunk does not contain any lines", S(""), "");
}

/* ---- Headers */

static struct hunk *last_hunk(const struct parser *p)
{
        return &p->patch->hunks[p->patch->hunk_count - 1];
}

static struct patch_chunk *last_chunk(const struct hunk *h)
{
        return h->chunk_count ? &h->chunks[h->chunk_count - 1] : NULL;
}

/* Does the line begin with the mark, and is there something behind it? */
static bool has_value(struct slice line, struct slice mark, struct slice *ret)
{
        if (line.n <= mark.n || !slice_starts(line, mark))
                return false;
        *ret = slice_from(line.p + mark.n, line.n - mark.n);
        return true;
}

static void begin_hunk(struct parser *p, enum hunk_kind kind, struct slice path)
{
        struct patch *patch = p->patch;

        patch->hunks =
                arena_room(p->arena, patch->hunks, patch->hunk_count, &p->hunk_room, sizeof(*patch->hunks));
        patch->hunks[patch->hunk_count++] = (struct hunk){ .kind = kind, .path = path, .line = p->number };
        p->chunk_room = p->line_room = p->added_room = 0;
}

/* Takes a line that ends the hunk before it: a header, or the end of the patch. Returns 1; 0: the line is neither. */
static int take_header(struct parser *p, struct slice line)
{
        struct slice path;

        if (slice_eq(line, S(END_MARK))) {
                p->state = STATE_END;
        } else if (has_value(line, S(ADD_MARK), &path)) {
                begin_hunk(p, HUNK_ADD, path);
                p->state = STATE_ADD;
        } else if (has_value(line, S(DELETE_MARK), &path)) {
                begin_hunk(p, HUNK_DELETE, path);
                p->state = STATE_DELETE;
        } else if (has_value(line, S(UPDATE_MARK), &path)) {
                begin_hunk(p, HUNK_UPDATE, path);
                p->state = STATE_UPDATE;
        } else {
                return 0;
        }
        return 1;
}

static int take_header_or_fail(struct parser *p)
{
        return take_header(p, text_trim(p->line)) ? 0 : fail_header(p);
}

static int take_head(struct parser *p)
{
        struct slice line = text_trim(p->line);

        if (!slice_starts(line, S(ENVIRONMENT_MARK)))
                return take_header_or_fail(p);
        if (p->patch->environment_id.p)
                return fail_text(p, "apply_patch environment_id cannot be specified more than once");
        size_t n = sizeof(ENVIRONMENT_MARK) - 1;
        struct slice id = text_trim(slice_from(line.p + n, line.n - n));
        if (!id.n)
                return fail_text(p, "apply_patch environment_id cannot be empty");
        p->patch->environment_id = id;
        return 0;
}

static int take_added(struct parser *p)
{
        struct hunk *h = last_hunk(p);

        if (!p->line.n || p->line.p[0] != '+')
                return take_header_or_fail(p);
        h->added = arena_room(p->arena, h->added, h->added_count, &p->added_room, sizeof(*h->added));
        h->added[h->added_count++] = slice_from(p->line.p + 1, p->line.n - 1);
        return 0;
}

/* ---- Updates */

static struct patch_chunk *begin_chunk(struct parser *p, struct hunk *h)
{
        h->chunks = arena_room(p->arena, h->chunks, h->chunk_count, &p->chunk_room, sizeof(*h->chunks));
        h->chunks[h->chunk_count] = (struct patch_chunk){ .line = p->number };
        p->line_room = 0;
        return &h->chunks[h->chunk_count++];
}

/* Takes a line of a chunk. Returns 1, or 0 when it does not look like one. */
static int take_chunk_line(struct parser *p, struct hunk *h)
{
        enum patch_line_kind kind =
                PATCH_LINE_CONTEXT; /* also for an empty line: editors remove the blank that stood there alone */
        char sign = p->line.n ? p->line.p[0] : ' ';

        if (sign != ' ' && sign != '+' && sign != '-')
                return 0;
        if (sign == '+')
                kind = PATCH_LINE_ADDED;
        else if (sign == '-')
                kind = PATCH_LINE_REMOVED;
        struct patch_chunk *c = last_chunk(h) ?: begin_chunk(p, h);
        c->lines = arena_room(p->arena, c->lines, c->line_count, &p->line_room, sizeof(*c->lines));
        size_t skip = p->line.n ? 1 : 0;
        c->lines[c->line_count++] =
                (struct patch_line){ kind, slice_from(p->line.p + skip, p->line.n - skip) };
        c->old_count += kind != PATCH_LINE_ADDED;
        return 1;
}

/* Takes "@@" or "@@ text". Returns 1, or 0 when the line is neither. */
static int take_chunk_start(struct parser *p, struct hunk *h, struct slice line)
{
        struct slice context = { 0 };

        if (!slice_eq(line, S("@@")) && !has_value(line, S("@@ "), &context))
                return 0;
        begin_chunk(p, h)->context = context;
        return 1;
}

static int take_end_of_file(struct parser *p, struct hunk *h)
{
        struct patch_chunk *c = last_chunk(h);

        if (!c)
                return 0; /* in front of the first chunk the mark has no effect */
        if (!c->line_count)
                return fail_empty_chunk(p);
        c->is_end_of_file = true;
        return 0;
}

/* May a header stand here, or the end of the patch? */
static int end_update(struct parser *p, struct hunk *h, bool is_end)
{
        struct patch_chunk *c = last_chunk(h);

        if (!c)
                return fail_empty_update(p, h);
        if (!c->line_count)
                return is_end ? fail_empty_chunk(p) : fail_unexpected(p);
        return 0;
}

static bool is_header(struct slice line)
{
        struct slice path;

        return has_value(line, S(ADD_MARK), &path) || has_value(line, S(DELETE_MARK), &path) ||
               has_value(line, S(UPDATE_MARK), &path);
}

static int take_update(struct parser *p)
{
        struct hunk *h = last_hunk(p);
        struct patch_chunk *c = last_chunk(h);
        struct slice line = text_trim_end(p->line); /* not at its start: an indented mark is a context line */
        bool is_end = slice_eq(line, S(END_MARK));

        if (is_end || is_header(line)) {
                p->line = line; /* as messages show it */
                int r = end_update(p, h, is_end);
                if (r < 0)
                        return r;
                (void)take_header(p, line);
                return 0;
        }
        if (!c && !h->move_to.p && has_value(line, S(MOVE_MARK), &h->move_to))
                return 0;
        bool is_over = c && c->is_end_of_file;
        if (slice_eq(line, S(END_OF_FILE_MARK)) && !is_over)
                return take_end_of_file(p, h);
        if ((!c || c->line_count) && take_chunk_start(p, h, line))
                return 0;
        if (is_over ? !line.n : take_chunk_line(p, h))
                return 0;
        return c && c->line_count ? fail_expected_context(p) : fail_unexpected(p);
}

/* ---- The whole */

static int take_line(struct parser *p)
{
        switch (p->state) {
        case STATE_HEAD:
                return take_head(p);
        case STATE_ADD:
                return take_added(p);
        case STATE_DELETE:
                return take_header_or_fail(p);
        case STATE_UPDATE:
                return take_update(p);
        case STATE_END:
                break;
        }
        return text_trim(p->line).n ? fail_text(p, "The last line of the patch must be '" END_MARK "'") : 0;
}

/* Returns the first line, without the LF and up to `crs` CRs before it; *rest becomes what is behind it, p is NULL when there is
 * no LF. */
static struct slice next_line(struct slice *rest, int crs)
{
        struct slice line = slice_split(rest, '\n');

        for (; crs && line.n && line.p[line.n - 1] == '\r'; crs--)
                line.n--;
        return line;
}

/* Returns what is behind the last LF; *ret_before is what is before it (p is NULL when there is none). */
static struct slice last_line(struct slice text, struct slice *ret_before)
{
        const char *lf = text.n ? memrchr(text.p, '\n', text.n) : NULL;

        if (!lf) {
                *ret_before = (struct slice){ 0 };
                return text;
        }
        *ret_before = slice_from(text.p, (size_t)(lf - text.p));
        return slice_from(lf + 1, text.n - ret_before->n - 1);
}

/* Takes off the first and the last line of a here-document that models put around a patch. */
static bool cut_heredoc(struct slice *text)
{
        struct slice rest = *text, inner, word;
        struct slice first = next_line(&rest, 1);
        struct slice last = last_line(rest, &inner);

        if (!slice_eq(first, S("<<EOF")) && !slice_eq(first, S("<<'EOF'")) &&
            !slice_eq(first, S("<<\"EOF\"")))
                return false;
        /* With the two lines of the here-document there are at least four. */
        if (!inner.p || !memchr(inner.p, '\n', inner.n) || last.n < 3)
                return false;
        word = slice_from(last.p + last.n - 3, 3);
        if (!slice_eq(word, S("EOF")))
                return false;
        *text = inner;
        return true;
}

/* Finds the lines between the marks: *text becomes those, without the LF of the last; p is NULL when there are none. */
static int cut_marks(struct parser *p, struct slice *text)
{
        struct slice rest = *text, body;

        if (text->n && !slice_eq(text_trim(next_line(&rest, 1)), S(BEGIN_MARK)))
                return fail_text(p, "The first line of the patch must be '" BEGIN_MARK "'");
        if (!rest.p || !slice_eq(text_trim(last_line(rest, &body)), S(END_MARK)))
                return fail_text(p, "The last line of the patch must be '" END_MARK "'");
        *text = body;
        p->number = 2;
        return 0;
}

static int parse(struct parser *p, struct slice text)
{
        text = text_trim(text);
        (void)cut_heredoc(&text);
        int r = cut_marks(p, &text);
        if (r < 0)
                return r;
        for (; text.p; p->number++) {
                if (p->number > LIMIT_PATCH_LINES)
                        return fail_text(p, "The patch has too many lines");
                p->line = next_line(
                        &text,
                        2); /* up to two CRs: the reference program takes one off at each of two steps */
                r = take_line(p);
                if (r < 0)
                        return r;
        }
        /* The last line may be indented: it is the end wherever it stands. */
        p->line = S(END_MARK);
        return p->state == STATE_END ? 0 : take_line(p);
}

int patch_parse(struct arena *a, struct slice text, struct patch *ret, struct patch_error *ret_error)
{
        struct patch patch = { 0 };
        struct parser p = { .arena = a, .patch = &patch, .error = ret_error, .number = 1 };

        if (text.n > LIMIT_PATCH_BYTES)
                return fail_text(&p, "The patch is too large");
        int r = parse(&p, text);
        if (r < 0)
                return r;
        *ret = patch;
        return 0;
}

struct slice hunk_added_text(struct arena *a, const struct hunk *h)
{
        size_t n = 0;

        for (size_t i = 0; i < h->added_count; i++)
                n += h->added[i].n + 1;
        char *text = arena_alloc(a, n + 1), *to = text;
        for (size_t i = 0; i < h->added_count; i++) {
                to = mempcpy(to, h->added[i].p, h->added[i].n);
                *to++ = '\n';
        }
        *to = 0;
        return slice_from(text, n);
}
