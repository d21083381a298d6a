/* preview: shows what a patch would change, as a unified diff. */
#include "patch/access.h"
#include "patch/apply.h"
#include "patch/work.h"

#include "base/mem.h"
#include "base/printable.h"

#include <errno.h>

#define CONTEXT_LINES 3
#define PIECE_BYTES ((size_t)64 * 1024)

/* Where the diff goes, and whether that went well. */
struct output {
        const struct edits_sink *sink;
        struct asks *asks;
        struct arena *arena;
        struct err err;
        int result;
};

static void put(struct output *o, struct slice text)
{
        if (o->result == 0 && text.n > 0)
                o->result = o->sink->write(o->sink->arg, text, &o->err);
}

static void put_str(struct output *o, const char *text)
{
        put(o, slice_from_str(text));
}

/* Writes all lines of a content with a sign in front, as one part of a diff. A byte that is NUL makes it binary, as for diff. */
static void put_whole(struct output *o, const struct content *c, char sign, uint64_t lines)
{
        struct reader reader;
        _free_ char *piece = mem_alloc(PIECE_BYTES);
        bool is_line_start = true;
        ssize_t got;
        if (c->size == 0)
                return;
        const char *range = lines == 1 ? "1" : arena_printf(o->arena, "1,%ju", (uintmax_t)lines);
        put_str(o, sign == '+' ? arena_printf(o->arena, "@@ -0,0 +%s @@\n", range)
                               : arena_printf(o->arena, "@@ -%s +0,0 @@\n", range));
        struct content_reader *r = content_open(o->asks, c, &reader);
        while (o->result == 0 && (got = reader_read(&reader, piece, PIECE_BYTES, &o->err)) != 0) {
                if (got < 0) {
                        o->result = (int)got;
                        break;
                }
                struct slice rest = slice_from(piece, (size_t)got);
                while (rest.n > 0) {
                        const char *end = memchr(rest.p, '\n', rest.n);
                        size_t n = end ? (size_t)(end - rest.p) + 1 : rest.n;
                        if (is_line_start)
                                put(o, slice_from(&sign, 1));
                        put(o, slice_from(rest.p, n));
                        is_line_start = end != NULL;
                        rest = slice_from(rest.p + n, rest.n - n);
                }
        }
        r = content_close(r);
        if (!is_line_start)
                put_str(o, "\n\\ No newline at end of file\n");
}

static bool is_binary(const struct content *c)
{
        return c && c->kind == CONTENT_TEXT && slice_has_nul(c->text);
}

static void put_header(struct output *o, const char *old, const char *fresh)
{
        put_str(o, arena_printf(o->arena, "--- %s\n", printable_str(o->arena, old)));
        put_str(o, arena_printf(o->arena, "+++ %s\n", printable_str(o->arena, fresh)));
}

static const char *spelled(struct arena *a, struct slice path)
{
        return arena_dup(a, path);
}

static void show_hunk(struct output *o, const struct drafted *p)
{
        struct arena *a = o->arena;
        const struct hunk *h = p->hunk;
        const char *path = spelled(a, h->path), *to = h->move_to.p ? spelled(a, h->move_to) : path;
        struct reader reader;
        if (h->kind == HUNK_UPDATE) {
                put_header(o, path, to);
                struct content_reader *r = content_open(o->asks, p->old, &reader);
                if (o->result == 0)
                        o->result = edits_diff(p->edits, &reader, CONTEXT_LINES, o->sink, &o->err);
                r = content_close(r);
                return;
        }
        if (is_binary(p->old) || (h->kind == HUNK_DELETE && !p->old)) {
                put_str(o,
                        arena_printf(a, "%s %s\n", h->kind == HUNK_DELETE ? "Deleted file" : "Replaced file",
                                     printable_str(a, path)));
        } else if (p->old) {
                put_header(o, path, "/dev/null");
                put_whole(o, p->old, '-', p->removed_lines);
        }
        if (h->kind == HUNK_ADD) {
                put_header(o, "/dev/null", path);
                put_whole(o, p->fresh, '+', p->added_lines);
        }
}

int patch_preview(struct farhand *f, const struct patch *p, const struct patch_options *o,
                  const struct edits_sink *sink, struct patch_result *ret)
{
        struct patch_options without = *o;
        struct work w;
        struct draft draft;
        struct access_check access = { 0 };
        without.state_dir = NULL;
        work_begin(&w, f, &without, false, ret);
        struct output out = { .sink = sink, .asks = &w.asks, .arena = w.arena, .err = ERR_INIT };
        draft_begin(&draft, &w.asks);
        draft_keep_contents(&draft);
        if (p->hunk_count == 0)
                ret->error = "No files were modified.\n";
        else if (ret->error[0] == '\0') {
                access_send(&w.asks, &access, p, o->cwd);
                draft_patch(&draft, p, o->cwd, true);
        }
        for (size_t i = 0; i < draft.count; i++)
                show_hunk(&out, &draft.list[i]);
        work_set_done(&w, &draft);
        if (access_is_denied(&access))
                work_fail_denied(&w, arena_printf(w.arena, "%s %s", access.message, access.path),
                                 access.denial);
        else if (draft.error)
                work_fail(&w, draft.error, draft.failure);
        else if (out.result < 0)
                work_fail(&w, arena_dup(w.arena, slice_from_str(out.err.text)), NULL);
        else if (ret->error[0] == '\0')
                ret->exit_code = 0;
        draft_release(&draft);
        return work_end(&w);
}
