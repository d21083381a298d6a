/* edits_test: the new text in reads of every size, stacked edits, the way back, unified diffs. */
#include "hunk/edits.h"

#include "hunk/text_rig.h"

#include "unit.h"

#include <errno.h>

static const struct edits *edits_of(struct arena *a, struct slice text, const char *chunks)
{
        struct text_reader t;
        struct reader reader = reader_from_text(&t, text);
        struct edits *edits = arena_new(a, struct edits);
        struct patch_error error;
        struct err err = ERR_INIT;

        if (place_find(a, rig_update(a, chunks), S("/f"), &reader, edits, &error, &err) < 0)
                fail_msg("%s", error.message.p);
        return edits;
}

TEST(the_new_text_is_read_in_pieces_of_any_size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice text = S("one\ntwo\nthree\nfour");
        const struct edits *edits = edits_of(&a, text, "@@\n-one\n@@\n two\n+2.5\n-three\n four\n+five\n");

        eq_u64(edits->removed_lines, 2);
        eq_u64(edits->added_lines, 2);
        eq_u64(edits->old_lines, 4);
        eq_u64(edits->new_lines, 4);
        for (size_t step = 1; step < 32; step++) {
                struct drip d = { .text = text, .step = 1 + step / 2 };
                struct reader old = drip_reader(&d);
                struct edits_reader e;
                struct err err = ERR_INIT;
                struct reader fresh = edits_read(&e, edits, &old);
                eq_slice(rig_read_all(&a, &fresh, step), S("two\n2.5\nfour\nfive\n"));
                eq_int(reader_rewind(&fresh, &err), 0);
                eq_slice(rig_read_all(&a, &fresh, step), S("two\n2.5\nfour\nfive\n"));
        }
}

TEST(edits_stack_on_edits)
{
        _arena_ struct arena a = ARENA_INIT;
        struct text_reader t;
        struct reader old = reader_from_text(&t, S("a\nb\nc\n"));
        const struct edits *first = edits_of(&a, S("a\nb\nc\n"), "@@\n-b\n+B\n+BB\n");
        struct edits second;
        struct edits_reader e1, e2;
        struct patch_error error;
        struct err err = ERR_INIT;
        struct reader middle = edits_read(&e1, first, &old);

        eq_int(place_find(&a, rig_update(&a, "@@\n BB\n-c\n"), S("/f"), &middle, &second, &error, &err), 0);
        struct reader fresh = edits_read(&e2, &second, &middle);
        eq_slice(rig_read_all(&a, &fresh, 2), S("a\nB\nBB\n"));
}

TEST(an_old_text_of_another_size_is_an_error)
{
        static const struct slice others[] = {
                { "a\nb\nc", 5 }, { "a\nb\nc\nd\n", 8 }, { "a\n", 2 }, { "", 0 }
        };
        _arena_ struct arena a = ARENA_INIT;
        const struct edits *edits = edits_of(&a, S("a\nb\nc\n"), "@@\n-b\n+B\n");

        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
                struct text_reader t;
                struct reader old = reader_from_text(&t, others[i]);
                struct edits_reader e;
                struct err err = ERR_INIT;
                struct reader fresh = edits_read(&e, edits, &old);
                char piece[4];
                ssize_t n;
                while ((n = reader_read(&fresh, piece, sizeof(piece), &err)) > 0)
                        ;
                eq_int(n, -ESTALE);
        }
}

TEST(a_reader_that_fails_fails_the_new_text)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct edits *edits = edits_of(&a, S("a\nb\nc\n"), "@@\n-b\n+B\n");
        struct drip d = { .text = S("a\nb\nc\n"), .step = 1, .fail_at = 3 };
        struct reader old = drip_reader(&d);
        struct edits_reader e;
        struct edits back;
        struct err err = ERR_INIT;
        _buf_ struct buf out = BUF_INIT(4096);
        struct reader fresh = edits_read(&e, edits, &old);
        char piece[4];
        ssize_t n;

        while ((n = reader_read(&fresh, piece, sizeof(piece), &err)) > 0)
                ;
        eq_int(n, -5);
        d.fail_at = 2;
        eq_int(edits_reverse(&a, edits, &old, 100, &back, &err), -5);
        eq_int(edits_diff(edits, &old, 1, &(struct edits_sink){ rig_sink_write, &out }, &err), -5);
}

TEST(reversed_edits_lead_back)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice text = S("a\r\n b \nc");
        const struct edits *edits = edits_of(&a, text, "@@\n-a\n+A\n@@\n-b\n c\n+d\n");
        struct text_reader t, t2;
        struct reader old = reader_from_text(&t, text), fresh;
        struct edits_reader e, e2;
        struct edits back;
        struct err err = ERR_INIT;

        fresh = edits_read(&e, edits, &old);
        struct slice changed = rig_read_all(&a, &fresh, 9);
        eq_slice(changed, S("A\r\nc\r\nd\r\n"));
        eq_int(edits_reverse(&a, edits, &old, edits->removed_bytes - 1, &back, &err), -EFBIG);
        eq_int(edits_reverse(&a, edits, &old, edits->removed_bytes, &back, &err), 0);
        eq_u64(back.old_bytes, changed.n);
        eq_u64(back.new_bytes, text.n);
        fresh = reader_from_text(&t2, changed);
        old = edits_read(&e2, &back, &fresh);
        eq_slice(rig_read_all(&a, &old, 4), text);
        eq_str(rig_diff(&a, &back, changed, 0),
               "@@ -1,3 +1,3 @@\n-A\r\n+a\r\n+ b \n-c\r\n-d\r\n+c\n\\ No newline at end of file\n");
}

TEST(nothing_is_left_to_reverse_when_lines_are_replaced_by_themselves)
{
        _arena_ struct arena a = ARENA_INIT;
        struct text_reader t;
        struct reader old = reader_from_text(&t, S("a\nb\n"));
        const struct edits *edits = edits_of(&a, S("a\nb\n"), "@@\n-a\n+a\n");
        struct edits back;
        struct err err = ERR_INIT;

        eq_u64(edits->count, 1);
        eq_int(edits_reverse(&a, edits, &old, 100, &back, &err), 0);
        eq_u64(back.count, 0);
        eq_u64(edits_of(&a, S("a\nb\n"), "@@\n a\n b\n")->count, 0);
}

TEST(a_diff_shows_each_change_with_the_lines_around_it)
{
        static const struct {
                const char *text, *chunks;
                unsigned context;
                const char *diff;
        } cases[] = {
                { "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "@@\n-2\n+two\n@@\n-8\n", 2,
                  "@@ -1,4 +1,4 @@\n 1\n-2\n+two\n 3\n 4\n@@ -6,4 +6,3 @@\n 6\n 7\n-8\n 9\n" },
                { "1\n2\n3\n4\n5\n6\n7\n", "@@\n-2\n+two\n@@\n-5\n", 1,
                  "@@ -1,6 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n-5\n 6\n" },
                { "1\n2\n3\n4\n5\n6\n7\n", "@@\n-2\n+two\n@@\n-6\n", 1,
                  "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n@@ -5,3 +5,2 @@\n 5\n-6\n 7\n" },
                { "1\n2\n3\n", "@@\n 2\n+x\n", 0, "@@ -2,0 +3 @@\n+x\n" },
                { "1\n", "@@\n-1\n", 3, "@@ -1 +0,0 @@\n-1\n" },
                { "", "@@\n+a\n+b\n", 3, "@@ -0,0 +1,2 @@\n+a\n+b\n" },
                { "1\n2\n", "@@\n 1\n", 3, "" },
                { "1\n2", "@@\n-2\n+3\n", 1, "@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+3\n" },
                { "1\n2", "@@\n-1\n", 1, "@@ -1,2 +1 @@\n-1\n-2\n\\ No newline at end of file\n+2\n" },
                { "1\n2", "@@\n+3\n", 1, "@@ -1,2 +1,3 @@\n 1\n-2\n\\ No newline at end of file\n+2\n+3\n" },
                { "1\r\n2\r\n", "@@\n-2\n+3\n", 1, "@@ -1,2 +1,2 @@\n 1\r\n-2\r\n+3\r\n" },
                { "1\r2\r", "@@\n-2\n+3\n", 1, "@@ -1,2 +1,2 @@\n 1\r\n-2\r\n+3\r\n" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct slice text = slice_from_str(cases[i].text);
                eq_str(rig_diff(&a, edits_of(&a, text, cases[i].chunks), text, cases[i].context),
                       cases[i].diff);
        }
}

static int refuse(UNUSED void *arg, UNUSED struct slice piece, struct err *err)
{
        return err_set(err, 0, -ENOSPC, "full");
}

TEST(a_sink_that_refuses_ends_the_diff)
{
        _arena_ struct arena a = ARENA_INIT;
        struct text_reader t;
        struct reader old = reader_from_text(&t, S("a\n"));
        struct err err = ERR_INIT;

        eq_int(edits_diff(edits_of(&a, S("a\n"), "@@\n-a\n"), &old, 1, &(struct edits_sink){ refuse, NULL },
                          &err),
               -ENOSPC);
}
