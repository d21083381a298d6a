/* parse_test: the grammar of patches beside the vectors: details, every truncation, the limits. */
#include "hunk/parse.h"

#include "base/limits.h"
#include "base/mem.h"

#include "unit.h"

#include <errno.h>

#define BEGIN "*** Begin Patch\n"
#define END "*** End Patch\n"
#define UPDATE "*** Update File: f\n"

static const struct patch *parse(struct arena *a, struct slice text)
{
        struct patch *patch = arena_new(a, struct patch);
        struct patch_error error;

        if (patch_parse(a, text, patch, &error) < 0)
                fail_msg("%s", patch_error_text(a, &error));
        return patch;
}

TEST(all_kinds_of_hunks_are_read)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct patch *p =
                parse(&a, S(BEGIN
                            "*** Environment ID: box one \n"
                            "*** Add File: dir/a b\n+one\n+\n"
                            "*** Delete File: gone\n"
                            "*** Update File: f\n*** Move to: g\n@@ int main\n a\n-b\n+c\n\n*** End of File\n"
                            "@@\n+z\n" END));

        eq_slice(p->environment_id, S("box one"));
        eq_u64(p->hunk_count, 3);
        eq_int(p->hunks[0].kind, HUNK_ADD);
        eq_slice(p->hunks[0].path, S("dir/a b"));
        eq_slice(hunk_added_text(&a, &p->hunks[0]), S("one\n\n"));
        eq_int(p->hunks[1].kind, HUNK_DELETE);
        eq_slice(p->hunks[1].path, S("gone"));
        eq_u64(p->hunks[1].line, 6);
        const struct hunk *h = &p->hunks[2];
        eq_slice(h->move_to, S("g"));
        eq_u64(h->chunk_count, 2);
        eq_slice(h->chunks[0].context, S("int main"));
        eq_u64(h->chunks[0].line_count, 4);
        eq_u64(h->chunks[0].old_count, 3);
        ok(h->chunks[0].is_end_of_file && !h->chunks[1].is_end_of_file && !h->chunks[1].context.p);
        static const enum patch_line_kind kinds[] = { PATCH_LINE_CONTEXT, PATCH_LINE_REMOVED,
                                                      PATCH_LINE_ADDED, PATCH_LINE_CONTEXT };
        static const char *const texts[] = { "a", "b", "c", "" };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                eq_int(h->chunks[0].lines[i].kind, kinds[i]);
                eq_slice(h->chunks[0].lines[i].text, slice_from_str(texts[i]));
        }
}

/* Each text, and the error of the reference program about it; "": the text is a patch. */
TEST(errors_are_those_of_the_reference_program)
{
#define HEADER(line)                                                                                      \
        "'" line "' is not a valid hunk header. Valid hunk headers: '*** Add File: {path}', '*** Delete " \
        "File: {path}', '*** Update File: {path}'"
#define UNEXPECTED(line)                               \
        "Unexpected line found in update hunk: '" line \
        "'. Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)"
#define EXPECTED(line) "Expected update hunk to start with a @@ context marker, got: '" line "'"
#define LAST "Invalid patch: The last line of the patch must be '*** End Patch'"
#define ON_LINE(n) "Invalid patch hunk on line " #n ": "
        static const struct {
                const char *text, *error;
        } cases[] = {
                { BEGIN END END, "" },
                { BEGIN END "\n  \n" END, "" },
                { BEGIN END END END, LAST },
                { BEGIN "*** Delete File: f\n*** End Patch\njunk\n" END, LAST },
                { BEGIN "\n" END, ON_LINE(2) HEADER("") },
                { BEGIN BEGIN END, ON_LINE(2) HEADER("*** Begin Patch") },
                { BEGIN "*** Environment ID:x\n" END, "" },
                { BEGIN "*** Environment ID: a\n*** Environment ID:\n" END,
                  "Invalid patch: apply_patch environment_id cannot be specified more than once" },
                { BEGIN UPDATE "-a\n  *** End Patch\n", "" },
                { BEGIN UPDATE "\n" END, "" },
                { BEGIN UPDATE "\t\n" END, ON_LINE(3) UNEXPECTED("\t") },
                { BEGIN UPDATE "@@foo\n" END, ON_LINE(3) UNEXPECTED("@@foo") },
                { BEGIN UPDATE "-a\n@@foo\n" END, ON_LINE(4) EXPECTED("@@foo") },
                { BEGIN UPDATE "-a\n@@ c\n" END, ON_LINE(5) "Update hunk does not contain any lines" },
                { BEGIN UPDATE "-a\n*** End of File\n\n d\n" END, ON_LINE(6) EXPECTED(" d") },
                { BEGIN UPDATE "-a\n*** End of File\n*** End of File\n" END,
                  ON_LINE(5) EXPECTED("*** End of File") },
                { BEGIN UPDATE "*** End of File\n" END, ON_LINE(2) "Update file hunk for path 'f' is empty" },
                { BEGIN UPDATE "*** End of File\n a\n" END, "" },
                { BEGIN UPDATE UPDATE "-a\n" END, ON_LINE(2) "Update file hunk for path 'f' is empty" },
                { BEGIN UPDATE "@@ c\n*** Update File: g \n-a\n" END,
                  ON_LINE(4) UNEXPECTED("*** Update File: g") },
                { BEGIN UPDATE "*** Move to: \n-a\n" END, ON_LINE(3) UNEXPECTED("*** Move to: ") },
                { BEGIN UPDATE "-a\n*** Add File: \n" END, ON_LINE(4) EXPECTED("*** Add File: ") },
                { BEGIN "*** Add File:\tx\n" END, ON_LINE(2) HEADER("*** Add File:\tx") },
                { "\xef\xbb\xbf" BEGIN END,
                  "Invalid patch: The first line of the patch must be '*** Begin Patch'" },
                { "<<EOF\n" BEGIN "EOF",
                  "Invalid patch: The first line of the patch must be '*** Begin Patch'" },
                { "<<EOF\n" BEGIN END "*** Add",
                  "Invalid patch: The first line of the patch must be '*** Begin Patch'" },
                { "<<EOF\n" BEGIN "zz\nEOF", LAST },
                { "<<\"EOF\"\n" BEGIN "zz\n" END "no EOF", ON_LINE(2) HEADER("zz") },
                { "\xc2\xa0" BEGIN "\xe3\x80\x80*** Add File: x\n" END "\xe3\x80\x80", "" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct patch patch;
                struct patch_error error;
                int r = patch_parse(&a, slice_from_str(cases[i].text), &patch, &error);
                eq_str(r < 0 ? patch_error_text(&a, &error) : "", cases[i].error);
        }
}

TEST(the_tool_has_other_error_texts_than_the_command)
{
        _arena_ struct arena a = ARENA_INIT;
        struct patch patch;
        struct patch_error error;

        eq_int(patch_parse(&a, S(BEGIN UPDATE END), &patch, &error), -EINVAL);
        eq_str(patch_error_tool_text(&a, &error),
               "invalid hunk at line 2, Update file hunk for path 'f' is empty");
        eq_int(patch_parse(&a, S("x"), &patch, &error), -EINVAL);
        eq_str(patch_error_tool_text(&a, &error),
               "invalid patch: The first line of the patch must be '*** Begin Patch'");
}

TEST(two_crs_before_an_lf_belong_to_the_end_of_a_line)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct patch *p = parse(&a, S("*** Begin Patch\r\n*** Add File: "
                                            "n\r\r\n+x\r\n+y\r\r\n+z\r\r\r\n+v\rw\n*** End Patch\r\n"));

        eq_slice(p->hunks[0].path, S("n"));
        eq_slice(hunk_added_text(&a, &p->hunks[0]), S("x\ny\nz\r\nv\rw\n"));
}

/* A patch that ends early is an error: its last line is missing. Each beginning is copied, so that sanitizers see a read behind it. */
TEST(every_truncation_is_an_error)
{
        struct slice whole = S(
                "<<'EOF'\n" BEGIN "*** Environment ID: e\n*** Add File: a\n+x\n" UPDATE
                "*** Move to: g\n@@ c\n a\n-b\n+c\n*** End of File\n*** Delete File: d\n*** End Patch\nEOF");

        _arena_ struct arena scratch = ARENA_INIT;
        struct patch none;
        struct patch_error why;
        eq_int(patch_parse(&scratch, (struct slice){ 0 }, &none, &why), -EINVAL);
        for (size_t n = 0; n < whole.n; n++) {
                _arena_ struct arena a = ARENA_INIT;
                _free_ char *text = slice_dup(slice_from(whole.p, n));
                struct patch patch;
                struct patch_error error;
                eq_int(patch_parse(&a, slice_from(text, n), &patch, &error), -EINVAL);
                ok(error.message.n > 0);
        }
}

TEST(a_patch_of_too_many_bytes_or_lines_is_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        struct patch patch;
        struct patch_error error;
        size_t n = (size_t)LIMIT_PATCH_BYTES + 1;
        _free_ char *text = mem_alloc(n);

        memset(text, ' ', n);
        eq_int(patch_parse(&a, slice_from(text, n), &patch, &error), -EINVAL);
        eq_str(patch_error_text(&a, &error), "Invalid patch: The patch is too large");
        eq_int(patch_parse(&a, slice_from(text, n - 1), &patch, &error), -EINVAL);

        size_t at = (size_t)(stpcpy(text, BEGIN "*** Add File: f\n") - text);
        for (size_t i = 0; i < LIMIT_PATCH_LINES; i++) {
                memcpy(text + at, "+\n", 2);
                at += 2;
        }
        memcpy(text + at, END, sizeof(END));
        eq_int(patch_parse(&a, slice_from_str(text), &patch, &error), -EINVAL);
        eq_str(patch_error_text(&a, &error), "Invalid patch: The patch has too many lines");
}
