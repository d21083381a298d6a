/* fuzz_patch_parse: the parser makes of any bytes either a patch, whose texts lie in these bytes, or an error. The patch is printed and
 * parsed again; that must give the same patch. The bytes are also tried as a shell command. */
#include "base/buf.h"
#include "base/fatal.h"
#include "hunk/parse.h"
#include "hunk/shell.h"

/* The parser drops two CRs before an LF: with this end a line that ends in a CR keeps that CR. */
#define LINE_END "\r\r\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(struct buf *out, struct slice s)
{
        must(buf_append(out, s) == 0);
}

static void put_line(struct buf *out, struct slice mark, struct slice text)
{
        put(out, mark);
        put(out, text);
        put(out, S(LINE_END));
}

static void print_update(struct buf *out, const struct hunk *h)
{
        static const struct slice signs[] = { { " ", 1 }, { "-", 1 }, { "+", 1 } };

        if (h->move_to.p)
                put_line(out, S("*** Move to: "), h->move_to);
        for (size_t i = 0; i < h->chunk_count; i++) {
                const struct patch_chunk *c = &h->chunks[i];
                put_line(out, c->context.p ? S("@@ ") : S("@@"), c->context);
                for (size_t k = 0; k < c->line_count; k++)
                        put_line(out, signs[c->lines[k].kind], c->lines[k].text);
                if (c->is_end_of_file)
                        put_line(out, S("*** End of File"), S(""));
        }
}

static void print_patch(struct buf *out, const struct patch *p)
{
        put_line(out, S("*** Begin Patch"), S(""));
        if (p->environment_id.p)
                put_line(out, S("*** Environment ID: "), p->environment_id);
        for (size_t i = 0; i < p->hunk_count; i++) {
                const struct hunk *h = &p->hunks[i];
                put_line(out,
                         h->kind == HUNK_ADD      ? S("*** Add File: ")
                         : h->kind == HUNK_DELETE ? S("*** Delete File: ")
                                                  : S("*** Update File: "),
                         h->path);
                for (size_t k = 0; k < h->added_count; k++)
                        put_line(out, S("+"), h->added[k]);
                print_update(out, h);
        }
        put(out, S("*** End Patch"));
}

static void check_inside(struct slice text, struct slice part)
{
        must(!part.n || (part.p >= text.p && part.p + part.n <= text.p + text.n));
        must(!part.n || !memchr(part.p, '\n', part.n));
}

static void check_hunk(struct slice text, const struct hunk *h)
{
        check_inside(text, h->path);
        check_inside(text, h->move_to);
        must(h->path.n && (!h->move_to.p || h->move_to.n) && h->line > 1);
        must((h->kind == HUNK_UPDATE) == (h->chunk_count > 0));
        for (size_t i = 0; i < h->added_count; i++)
                check_inside(text, h->added[i]);
        for (size_t i = 0; i < h->chunk_count; i++) {
                const struct patch_chunk *c = &h->chunks[i];
                size_t old_count = 0;
                check_inside(text, c->context);
                must(c->line_count > 0 && (!c->context.p || c->context.n));
                for (size_t k = 0; k < c->line_count; k++) {
                        check_inside(text, c->lines[k].text);
                        old_count += c->lines[k].kind != PATCH_LINE_ADDED;
                }
                must(old_count == c->old_count);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf printed = BUF_INIT(64 << 20), again = BUF_INIT(64 << 20);
        struct slice text = slice_from(data, size);
        struct patch patch, copy;
        struct patch_error error;
        struct shell_call call;

        if (shell_find_patch_in_script(&a, text, &call) == SHELL_PATCH_CALL)
                must(call.patch.p >= text.p && call.patch.p + call.patch.n <= text.p + text.n);
        if (patch_parse(&a, text, &patch, &error) < 0) {
                must(error.message.n > 0 && error.message.p[error.message.n] == 0);
                must(strlen(patch_error_text(&a, &error)) > 0 &&
                     strlen(patch_error_tool_text(&a, &error)) > 0);
                return 0;
        }
        for (size_t i = 0; i < patch.hunk_count; i++)
                check_hunk(text, &patch.hunks[i]);
        print_patch(&printed, &patch);
        must(patch_parse(&a, buf_slice(&printed), &copy, &error) == 0);
        print_patch(&again, &copy);
        must(slice_eq(buf_slice(&printed), buf_slice(&again)));
        return 0;
}
