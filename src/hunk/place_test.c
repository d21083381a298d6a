/* place_test: places beside the vectors: levels, files that are not UTF-8, long lines, large files in little memory. */
#include "hunk/place_internal.h"

#include "base/mem.h"
#include "hunk/lines.h"
#include "hunk/text_rig.h"

#include "unit.h"

#include <errno.h>
#include <stdio.h>

/* Returns the new text, or the error. */
static struct slice update(struct arena *a, struct slice text, const char *chunks)
{
        struct drip d = { .text = text, .step = 3 };
        struct reader reader = drip_reader(&d);
        struct edits edits;
        struct edits_reader e;
        struct patch_error error;
        struct err err = ERR_INIT;

        if (place_find(a, rig_update(a, chunks), S("/f"), &reader, &edits, &error, &err) < 0)
                return error.message;
        ok(d.rewinds <= 2);
        struct reader fresh = edits_read(&e, &edits, &reader);
        return rig_read_all(a, &fresh, 7);
}

#define NO_LINES "Failed to find expected lines in /f:\n"

TEST(chunks_go_where_the_reference_program_puts_them)
{
        static const struct {
                const char *text, *chunks, *result;
        } cases[] = {
                /* Lines added at the end stay in the order of the patch, also those behind a context line. */
                { "a\nb\n", "@@\n+1\n@@\n b\n+2\n@@\n+3\n", "a\nb\n1\n2\n3\n" },
                { "a\nb\n", "@@\n+1\n@@\n-b\n+2\n", "a\n2\n1\n" },
                { "a\nb", "@@\n-b\n@@\n+x\n", "a\nx\n" },
                /* An empty last line that the file does not have is left out, with an empty new one. */
                { "a\nb\n", "@@\n a\n \n+x\n", "a\n\nx\nb\n" },
                { "a\nb\n", "@@\n a\n-\n+\n", "a\nb\n" },
                { "x\n\ny\n", "@@\n x\n \n-\n", "x\ny\n" },
                { "x\n\ny\n", "@@\n x\n-\n \n+q\n", "x\n\nq\ny\n" },
                { "a\nb\n", " \n+x\n", "\nx\na\nb\n" },
                { "a\nb\n", "@@ a\n \n+x\n", "a\n\nx\nb\n" },
                { "b\na\nb\n", "@@ b\n \n+q\n*** End of File\n", "b\n\nq\na\nb\n" },
                /* The strictest level wins wherever it is, but not before the last place. */
                { " v\nv \nv\n", "@@\n-v\n+w\n", " v\nv \nw\n" },
                { "v\nk\n v\nv \n", "@@ k\n-v\n+w\n", "v\nk\n v\nw\n" },
                { "v\nv\n", "@@ v\n-v\n+w\n", "v\nw\n" },
                { "a\nb\na\nb \na\nc\n", "@@\n a\n-c\n", "a\nb\na\nb \na\n" },
                /* At the end of the file the loosest level will do. */
                { "v\n v \n", "@@\n-v\n*** End of File\n", "v\n" },
                { "a\nb\n", "@@ b\n-b\n*** End of File\n", NO_LINES "b" },
                { "a\nb\nb\n", "@@ b\n-b\n-b\n*** End of File\n", NO_LINES "b\nb" },
                { "b\na\n", "@@ zz\n a\n", "Failed to find context 'zz' in /f" },
                /* Patterns that are the end of others. */
                { "x\na\nb\na\nb\nc\n", "@@\n a\n b\n-c\n@@\n+d\n", "x\na\nb\na\nb\nd\n" },
                { "a\na\na\nb\n", "@@\n a\n a\n-b\n", "a\na\na\n" },
                /* The first terminator of the file is that of new lines. */
                { "a\rb\n\nc", "@@\n b\n+x\n", "a\rb\nx\r\nc\r" },
                { "a\r\nb", "@@\n-a\n", "b\r\n" },
                { "", "@@\n-\n", "" },
                { "\n", "@@\n-\n", "" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_slice(update(&a, slice_from_str(cases[i].text), cases[i].chunks),
                         slice_from_str(cases[i].result));
        }
}

TEST(bytes_that_are_not_utf8_are_kept_and_compared_as_they_are)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_slice(update(&a, S("\xff\xfe\nb\n\x00\xe2\x80\n"), "@@\n-b\n+c\n"),
                 S("\xff\xfe\nc\n\x00\xe2\x80\n"));
        eq_slice(update(&a, S("a\xff \nb\n"), "@@\n-a\xff\n"), S("b\n"));
        eq_slice(update(&a, S("a\xff\nb\n"), "@@\n-a\xfe\n"), S(NO_LINES "a\xfe"));
        eq_slice(update(&a, S("a\xe2\x80\nb\n"), "@@\n-a\n"), S(NO_LINES "a"));
}

TEST(lines_of_one_chunk_that_are_not_found_are_named_all)
{
        _arena_ struct arena a = ARENA_INIT;
        struct drip d = { .text = S("a\n"), .step = 1 };
        struct reader reader = drip_reader(&d);
        struct edits edits;
        struct patch_error error;
        struct err err = ERR_INIT;

        eq_int(place_find(&a, rig_update(&a, "@@\n a\n@@\n x\n-y\n+z\n"), S("/d/f"), &reader, &edits, &error,
                          &err),
               -ENOENT);
        eq_int(error.kind, PATCH_ERROR_LINES);
        eq_u64(error.line, 5);
        eq_str(patch_error_text(&a, &error), "Failed to find expected lines in /d/f:\nx\ny");
}

TEST(a_reader_that_fails_is_told_from_a_place_that_is_not_found)
{
        for (size_t at = 1; at < 6; at++) {
                _arena_ struct arena a = ARENA_INIT;
                struct drip d = { .text = S("a\nb\nc\n"), .step = 1, .fail_at = at };
                struct reader reader = drip_reader(&d);
                struct edits edits;
                struct patch_error error;
                struct err err = ERR_INIT;
                eq_int(place_find(&a, rig_update(&a, "@@\n-b\n"), S("/f"), &reader, &edits, &error, &err),
                       -5);
                eq_int(error.kind, PATCH_ERROR_READ);
                eq_str(err.text, "dripped out");
                eq_str(patch_error_text(&a, &error), "dripped out");
        }
}

static int shrink(void *arg, UNUSED struct err *err)
{
        struct drip *d = arg;

        d->position = 0;
        if (d->rewinds++)
                d->text.n -= 2;
        return 0;
}

TEST(a_file_that_shrinks_between_the_reads_is_noticed)
{
        _arena_ struct arena a = ARENA_INIT;
        struct drip d = { .text = S("a\nb\n"), .step = 1 };
        struct reader reader = { shrink, drip_read, &d };
        struct edits edits;
        struct patch_error error;
        struct err err = ERR_INIT;

        eq_int(place_find(&a, rig_update(&a, "@@\n-b\n"), S("/f"), &reader, &edits, &error, &err), -ESTALE);
        eq_int(error.kind, PATCH_ERROR_READ);
}

/* ---- Large files, made as they are read */

struct generator {
        uint64_t size, position;
        uint64_t mark;    /* the line of this number is "needle" */
        bool is_one_line; /* no line ends before the last two */
};

#define RECORD_BYTES 32

/* The file consists of records of 32 bytes, each one line. */
static void make_record(const struct generator *g, uint64_t number, char ret[static RECORD_BYTES + 1])
{
        uint64_t last = g->size / RECORD_BYTES - 1;

        if (number == g->mark)
                (void)snprintf(ret, RECORD_BYTES + 1, "%-31s\n", "needle");
        else
                (void)snprintf(ret, RECORD_BYTES + 1, "        line %018llu\n", (unsigned long long)number);
        if (g->is_one_line && number + 2 < last && number + 1 != g->mark && number != g->mark)
                ret[RECORD_BYTES - 1] = 'x';
}

static int generator_rewind(void *arg, UNUSED struct err *err)
{
        ((struct generator *)arg)->position = 0;
        return 0;
}

static ssize_t generator_read(void *arg, char *buf, size_t n, UNUSED struct err *err)
{
        struct generator *g = arg;
        size_t done = 0;

        while (done < n && g->position < g->size) {
                char record[RECORD_BYTES + 1];
                make_record(g, g->position / RECORD_BYTES, record);
                size_t skip = g->position % RECORD_BYTES, take = MIN(RECORD_BYTES - skip, n - done);
                memcpy(buf + done, record + skip, take);
                done += take;
                g->position += take;
        }
        return (ssize_t)done;
}

/* Finds the needle in a large file, and checks that little memory was used for it. */
static void find_needle(struct generator *g, const char *chunks, size_t memory)
{
        _arena_ struct arena a = ARENA_INIT, scratch = ARENA_INIT;
        struct reader reader = { generator_rewind, generator_read, g };
        struct edits edits;
        struct patch_error error;
        struct err err = ERR_INIT;

        eq_int(place_find_in(&scratch, LINES_ROOM, &a, rig_update(&a, chunks), S("/f"), &reader, &edits,
                             &error, &err),
               0);
        eq_u64(edits.count, 1);
        eq_u64(edits.list[0].offset, g->mark * RECORD_BYTES);
        eq_u64(edits.list[0].removed, RECORD_BYTES);
        eq_u64(edits.old_bytes, g->size);
        eq_u64(edits.new_bytes, g->size - RECORD_BYTES + 3);
        ok(scratch.bytes < memory);
        ok(a.bytes < 16384);
}

TEST(memory_does_not_grow_with_the_file)
{
        struct generator g = { .size = (unit_is_valgrind() ? 1ULL : 64ULL) << 20, .mark = 31000 };

        find_needle(&g, "@@\n line 000000000000030999\n-needle\n+ab\n line 000000000000031001\n", 512 * 1024);
}

TEST(memory_does_not_grow_with_a_line)
{
        struct generator g = { .size = (unit_is_valgrind() ? 2ULL : 64ULL) << 20,
                               .mark = 60000,
                               .is_one_line = true };

        find_needle(&g, "@@\n-needle\n+ab\n", 512 * 1024);
}

TEST(white_space_longer_than_the_buffer_is_trimmed)
{
        _arena_ struct arena a = ARENA_INIT;
        size_t n = 3 * LINES_ROOM;
        _free_ char *text = mem_alloc(n + 3);

        memset(text, ' ', n);
        memcpy(text + n / 2, "\xe2\x80\x99x", 4);
        memcpy(text + n, "\nb\n", 3);
        struct text_reader t;
        struct reader reader = reader_from_text(&t, slice_from(text, n + 3));
        struct edits edits;
        struct patch_error error;
        struct err err = ERR_INIT;
        eq_int(place_find(&a, rig_update(&a, "@@\n-  'x\n+y\n"), S("/f"), &reader, &edits, &error, &err), 0);
        eq_u64(edits.count, 1);
        eq_u64(edits.list[0].removed, n + 1);
        eq_slice(edits.list[0].added, S("y\n"));
}

/* Every chunk holds the lines that all chunks hold, so that a search for each of them alone would take minutes. */
TEST(a_thousand_chunks_are_found_in_one_walk)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(64 << 20), chunks = BUF_INIT(64 << 20);
        unsigned count = unit_is_valgrind() ? 50 : 1000;

        for (unsigned i = 0; i < count; i++) {
                must(buf_printf(&text, "{\n\n}\n{\n\n  name %u\n}\n", i) == 0);
                must(buf_printf(&chunks, "@@\n {\n \n-name %u\n+  other\n }\n", i) == 0);
        }
        struct slice fresh = update(&a, buf_slice(&text), arena_dup(&a, buf_slice(&chunks)));
        for (unsigned i = 0; i < count; i++) {
                struct slice want = S("{\n\n}\n{\n\n  other\n}\n");
                ok(slice_starts(fresh, want));
                fresh = slice_from(fresh.p + want.n, fresh.n - want.n);
        }
        eq_u64(fresh.n, 0);
}
