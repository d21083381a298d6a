/* patch_model: what an update does to a text, done slowly and plainly: the file as a list of lines, every line compared with
 * every other, character by character. fuzz_patch_place compares it with what src/patch does in two walks.
 *
 * Shares nothing with src/patch but the structs of a hunk. */
#pragma once

#include "base/buf.h"
#include "base/fatal.h"
#include "base/utf8.h"
#include "hunk/parse.h"

struct model_line {
        struct slice text, end;
};

struct model_file {
        struct model_line *lines;
        size_t count;
        struct slice end; /* the first end of a line */
};

/* One change: at line `at`, `removed` lines give way to lines of the patch. */
struct model_change {
        size_t at, removed;
        struct slice *added;
        size_t added_count;
};

struct model {
        struct arena *arena;
        struct model_file file;
        struct model_change *changes;
        size_t count, room;
        size_t position;
};

enum model_result { MODEL_DONE, MODEL_NO_CONTEXT, MODEL_NO_LINES };

static inline void model_split(struct arena *a, struct slice text, struct model_file *ret)
{
        *ret = (struct model_file){ .lines = arena_alloc(a, (text.n + 1) * sizeof(*ret->lines)),
                                    .end = S("\n") };
        for (size_t at = 0; at < text.n;) {
                size_t n = 0, end;
                while (at + n < text.n && text.p[at + n] != '\n' && text.p[at + n] != '\r')
                        n++;
                end = at + n == text.n                                                              ? 0
                      : text.p[at + n] == '\r' && at + n + 1 < text.n && text.p[at + n + 1] == '\n' ? 2
                                                                                                    : 1;
                struct model_line line = { { text.p + at, n }, { text.p + at + n, end } };
                if (!ret->count && end)
                        ret->end = line.end;
                ret->lines[ret->count++] = line;
                at += n + end;
        }
}

/* Decodes the next character; a byte that is not UTF-8 becomes a number above all characters. */
static inline uint32_t model_char(struct slice *s)
{
        size_t n = utf8_sequence(s->p, s->n);
        uint32_t c = (unsigned char)s->p[0];

        if (n > 1) {
                c &= 0xffu >> (n + 1);
                for (size_t i = 1; i < n; i++)
                        c = c << 6 | ((unsigned char)s->p[i] & 0x3f);
        } else if (!n) {
                c += 0x110000;
                n = 1;
        }
        *s = slice_from(s->p + n, s->n - n);
        return c;
}

static inline bool model_is_space(uint32_t c)
{
        return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
               (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
               c == 0x3000;
}

static inline uint32_t model_map(uint32_t c)
{
        if ((c >= 0x2010 && c <= 0x2015) || c == 0x2212)
                return '-';
        if (c >= 0x2018 && c <= 0x201b)
                return '\'';
        if (c >= 0x201c && c <= 0x201f)
                return '"';
        if (c == 0xa0 || (c >= 0x2002 && c <= 0x200a) || c == 0x202f || c == 0x205f || c == 0x3000)
                return ' ';
        return c;
}

/* Returns the characters of a line as a level sees them, behind their number. */
static inline const uint32_t *model_seen(struct arena *a, struct slice s, int level)
{
        uint32_t *chars = arena_alloc(a, (s.n + 1) * sizeof(*chars));
        size_t n = 0, start = 0;

        while (s.n)
                chars[1 + n++] = model_char(&s);
        while (level >= 1 && n && model_is_space(chars[n]))
                n--;
        while (level >= 2 && start < n && model_is_space(chars[1 + start]))
                start++;
        for (size_t i = start; i < n; i++)
                chars[1 + i - start] = level >= 3 ? model_map(chars[1 + i]) : chars[1 + i];
        chars[0] = (uint32_t)(n - start);
        return chars;
}

static inline bool model_is_equal(struct arena *a, struct slice x, struct slice y, int level)
{
        const uint32_t *p = model_seen(a, x, level), *q = model_seen(a, y, level);

        return p[0] == q[0] && memcmp(p, q, (p[0] + 1) * sizeof(*p)) == 0;
}

/* Finds a block of lines at or behind the position. */
static inline bool model_seek(struct model *m, const struct slice *lines, size_t count, bool is_end_of_file,
                              size_t *ret)
{
        size_t first = m->position;

        if (!count) {
                *ret = first;
                return true;
        }
        if (count > m->file.count)
                return false;
        if (is_end_of_file)
                first = MAX(first, m->file.count - count);
        for (int level = 0; level < 4; level++) {
                for (size_t at = first; at + count <= m->file.count; at++) {
                        size_t n = 0;
                        while (n < count &&
                               model_is_equal(m->arena, m->file.lines[at + n].text, lines[n], level))
                                n++;
                        if (n == count) {
                                *ret = at;
                                return true;
                        }
                }
        }
        return false;
}

static inline struct model_change *model_change_at(struct model *m, size_t at, size_t lines)
{
        m->changes = arena_room(m->arena, m->changes, m->count, &m->room, sizeof(*m->changes));
        struct model_change *c = &m->changes[m->count++];
        *c = (struct model_change){ .at = at,
                                    .added = arena_alloc(m->arena, (lines + 1) * sizeof(*c->added)) };
        return c;
}

/* Notes the changes of lines whose old ones are found at a line: each run between context lines is one. */
static inline void model_note(struct model *m, const struct patch_line *lines, size_t count, size_t at)
{
        struct model_change *c = NULL;

        for (size_t i = 0; i < count; i++) {
                if (lines[i].kind == PATCH_LINE_CONTEXT) {
                        c = NULL;
                        at++;
                        continue;
                }
                if (!c)
                        c = model_change_at(m, at, count);
                if (lines[i].kind == PATCH_LINE_ADDED) {
                        c->added[c->added_count++] = lines[i].text;
                } else {
                        c->removed++;
                        at++;
                }
        }
}

/* Takes the last old line away, and the last new one when it is empty. */
static inline size_t model_shorten(struct patch_line *lines, size_t count)
{
        for (int half = 0; half < 2; half++) {
                enum patch_line_kind gone = half ? PATCH_LINE_ADDED : PATCH_LINE_REMOVED;
                enum patch_line_kind other = half ? PATCH_LINE_REMOVED : PATCH_LINE_ADDED;
                for (size_t i = count; i > 0; i--) {
                        struct patch_line *line = &lines[i - 1];
                        if (line->kind == other)
                                continue;
                        if (half && line->text.n)
                                return count;
                        if (line->kind == PATCH_LINE_CONTEXT) {
                                line->kind = other;
                        } else {
                                must(line->kind == gone);
                                memmove(line, line + 1, (count - i) * sizeof(*line));
                                count--;
                        }
                        break;
                }
        }
        return count;
}

static inline bool model_chunk(struct model *m, const struct patch_chunk *c)
{
        struct slice *old = arena_alloc(m->arena, (c->line_count + 1) * sizeof(*old));
        struct patch_line *lines = arena_alloc(m->arena, (c->line_count + 1) * sizeof(*lines));
        size_t count = 0, line_count = c->line_count, at;

        memcpy(lines, c->lines, line_count * sizeof(*lines));
        for (size_t i = 0; i < line_count; i++)
                if (lines[i].kind != PATCH_LINE_ADDED)
                        old[count++] = lines[i].text;
        if (!count) {
                model_note(m, lines, line_count, m->file.count);
                return true;
        }
        bool is_found = model_seek(m, old, count, c->is_end_of_file, &at);
        if (!is_found && !old[count - 1].n) {
                count--;
                line_count = model_shorten(lines, line_count);
                is_found = model_seek(m, old, count, c->is_end_of_file, &at);
        }
        if (!is_found)
                return false;
        model_note(m, lines, line_count, at);
        m->position = at + count;
        return true;
}

static inline void model_put(struct buf *out, struct slice text, struct slice end)
{
        must(buf_append(out, text) == 0 && buf_append(out, end) == 0);
}

/* Writes the new text. Changes at one line are made in the order of the patch. */
static inline void model_write(struct model *m, struct buf *out)
{
        for (size_t at = 0; at <= m->file.count;) {
                size_t removed = 0;
                for (size_t i = 0; i < m->count; i++) {
                        if (m->changes[i].at != at)
                                continue;
                        for (size_t k = 0; k < m->changes[i].added_count; k++)
                                model_put(out, m->changes[i].added[k], m->file.end);
                        removed += m->changes[i].removed;
                }
                if (!removed && at < m->file.count) {
                        const struct model_line *line = &m->file.lines[at];
                        model_put(out, line->text, line->end.n ? line->end : m->file.end);
                }
                at += MAX(removed, (size_t)1);
        }
}

/* Applies an update to a text. The new one is appended to `out`; *ret_chunk is the chunk that has no place. */
static inline enum model_result model_update(struct arena *a, const struct hunk *h, struct slice text,
                                             struct buf *out, size_t *ret_chunk)
{
        struct model m = { .arena = a };

        model_split(a, text, &m.file);
        for (size_t i = 0; i < h->chunk_count; i++) {
                const struct patch_chunk *c = &h->chunks[i];
                size_t at;
                *ret_chunk = i;
                if (c->context.p) {
                        if (!model_seek(&m, &c->context, 1, false, &at))
                                return MODEL_NO_CONTEXT;
                        m.position = at + 1;
                }
                if (!model_chunk(&m, c))
                        return MODEL_NO_LINES;
        }
        model_write(&m, out);
        return MODEL_DONE;
}
