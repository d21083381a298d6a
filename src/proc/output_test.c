/* Tests of the retained output of one process. */
#include "proc/output.h"

#include "base/buf.h"
#include "base/limits.h"
#include "unit.h"

/* Returns the chunks kept after `after`, as "2:bbbb 3:cccc". Checks that the list is sound in both directions. */
static const char *show(const struct output *o, uint64_t after)
{
        static struct buf text = { .p = buf_empty, .cap = 64 * KIB };
        buf_truncate(&text, 0);
        const struct chunk *before = NULL;
        for (const struct chunk *c = output_after(o, after); c; before = c, c = c->next) {
                ok(!before || (c->prev == before && before->seq < c->seq));
                ok(c->next || c == o->last);
                ok(buf_printf(&text, "%s%llu:%.*s", before ? " " : "", (unsigned long long)c->seq,
                              SLICE(chunk_slice(c))) == 0);
        }
        return text.p;
}

static void append(struct output *o, uint64_t seq, const char *text)
{
        output_append(o, STREAM_STDOUT, seq, slice_from_str(text));
}

static uint64_t heads_of(const struct output *o)
{
        uint64_t n = 0;
        for (size_t i = 0; i < STREAMS; i++)
                n += o->streams[i].head_len;
        return n;
}

/* Returns the bytes that an output adds to the total: its chunks with their headers, and the kept beginnings. */
static uint64_t memory_of(const struct output *o)
{
        return o->bytes + o->count * sizeof(struct chunk) + heads_of(o);
}

TEST(streams_have_the_names_of_the_wire)
{
        eq_str(stream_name(STREAM_STDOUT), "stdout");
        eq_str(stream_name(STREAM_STDERR), "stderr");
        eq_str(stream_name(STREAM_PTY), "pty");
}

TEST(an_empty_output_has_nothing)
{
        uint64_t total = 7;
        struct output o;
        output_init(&o, 100, &total);

        ok(output_after(&o, 0) == NULL);
        ok(output_after(&o, UINT64_MAX) == NULL);
        ok(!output_drop_oldest(&o));
        eq_u64(o.dropped_bytes, 0);
        output_release(&o);
        eq_u64(total, 7);
}

TEST(chunks_keep_their_bytes_stream_and_number)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 100, &total);

        char bytes[] = { 'a', 0, (char)0xff };
        output_append(&o, STREAM_STDERR, 5, slice_from(bytes, sizeof(bytes)));
        memset(bytes, 'x', sizeof(bytes)); /* output_append has made a copy */
        output_append(&o, STREAM_PTY, 9, S("tty"));

        const struct chunk *c = output_after(&o, 0);
        eq_u64(c->seq, 5);
        eq_int(c->stream, STREAM_STDERR);
        eq_slice(chunk_slice(c), slice_from("a\0\xff", 3));
        c = c->next;
        eq_u64(c->seq, 9);
        eq_int(c->stream, STREAM_PTY);
        eq_slice(chunk_slice(c), S("tty"));
        ok(c->next == NULL);
        eq_u64(o.bytes, 6);
        eq_u64(o.count, 2);
        output_release(&o);
}

TEST(oldest_chunks_go_first_when_the_cap_is_passed)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 8, &total);

        append(&o, 1, "aaaa");
        append(&o, 2, "bbbb");
        eq_str(show(&o, 0), "1:aaaa 2:bbbb"); /* exactly the cap is allowed */
        eq_u64(o.dropped_bytes, 0);
        eq_u64(o.dropped_seq, 0);
        append(&o, 3, "c");
        eq_str(show(&o, 0), "2:bbbb 3:c");
        eq_u64(o.dropped_bytes, 4);
        eq_u64(o.dropped_seq, 1);
        append(&o, 4, "dddddddd"); /* two chunks are dropped to make room */
        eq_str(show(&o, 0), "4:dddddddd");
        eq_u64(o.dropped_bytes, 9);
        eq_u64(o.dropped_seq, 3);
        eq_u64(o.bytes, 8);
        eq_u64(o.count, 1);
        eq_u64(total, memory_of(&o));
        output_release(&o);
}

TEST(a_single_chunk_larger_than_the_cap_stays_until_the_next)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 4, &total);

        append(&o, 1, "aa");
        append(&o, 2, "bbbbbbbbbb");
        eq_str(show(&o, 0), "2:bbbbbbbbbb");
        eq_u64(o.bytes, 10);
        eq_u64(total, memory_of(&o));
        eq_u64(o.dropped_seq, 1);
        append(&o, 3, "c");
        eq_str(show(&o, 0), "3:c");
        eq_u64(o.dropped_bytes, 12);
        eq_u64(o.dropped_seq, 2);
        eq_u64(total, memory_of(&o));
        output_release(&o);
}

TEST(with_a_cap_of_nothing_the_newest_chunk_is_kept)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 0, &total);

        append(&o, 1, "a");
        append(&o, 2, "b");
        eq_str(show(&o, 0), "2:b");
        eq_u64(o.dropped_bytes, 1);
        output_release(&o);
        eq_u64(total, 0);
}

TEST(oldest_chunks_go_first_when_there_are_too_many)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, UINT64_MAX, &total);

        for (uint64_t seq = 1; seq <= LIMIT_RETAINED_CHUNKS; seq++)
                append(&o, seq, "x");
        eq_u64(o.count, LIMIT_RETAINED_CHUNKS);
        eq_u64(o.first->seq, 1);
        eq_u64(o.dropped_bytes, 0);

        for (uint64_t seq = LIMIT_RETAINED_CHUNKS + 1; seq <= LIMIT_RETAINED_CHUNKS + 3; seq++)
                append(&o, seq, "xx");
        eq_u64(o.count, LIMIT_RETAINED_CHUNKS);
        eq_u64(o.first->seq, 4);
        eq_u64(o.dropped_bytes, 3);
        eq_u64(o.dropped_seq, 3);
        eq_u64(total, memory_of(&o));
        output_release(&o);
        eq_u64(total, 0);
}

TEST(a_reader_gets_what_is_behind_its_number_wherever_that_is)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 100, &total);
        append(&o, 3, "c");
        append(&o, 4, "d");
        append(&o, 7, "g"); /* numbers rise, but may leave gaps */
        append(&o, 9, "i");

        eq_str(show(&o, 0), "3:c 4:d 7:g 9:i");
        eq_str(show(&o, 2), "3:c 4:d 7:g 9:i");
        eq_str(show(&o, 3), "4:d 7:g 9:i");
        eq_str(show(&o, 4), "7:g 9:i");
        eq_str(show(&o, 5), "7:g 9:i");
        eq_str(show(&o, 6), "7:g 9:i");
        eq_str(show(&o, 7), "9:i");
        eq_str(show(&o, 8), "9:i");
        eq_str(show(&o, 9), "");
        eq_str(show(&o, 10), "");
        eq_str(show(&o, UINT64_MAX), "");
        output_release(&o);
}

TEST(a_reader_behind_what_was_dropped_gets_what_is_left)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 2, &total);
        for (uint64_t seq = 1; seq <= 5; seq++)
                append(&o, seq, "x");

        for (uint64_t after = 0; after <= 3; after++)
                eq_str(show(&o, after), "4:x 5:x");
        eq_str(show(&o, 4), "5:x");
        eq_str(show(&o, 5), "");
        output_release(&o);
}

TEST(dropping_takes_the_oldest_until_none_is_left)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 100, &total);
        append(&o, 1, "a");
        append(&o, 2, "bb");

        ok(output_drop_oldest(&o));
        eq_str(show(&o, 0), "2:bb");
        eq_u64(o.dropped_seq, 1);
        eq_u64(total, memory_of(&o));
        ok(output_drop_oldest(&o));
        eq_str(show(&o, 0), "");
        eq_u64(o.dropped_seq, 2);
        eq_u64(o.dropped_bytes, 3);
        eq_u64(o.count, 0);
        ok(!output_drop_oldest(&o));
        eq_u64(total, heads_of(&o)); /* the kept beginning counts separately */

        append(&o, 3, "c"); /* appending still works */
        eq_str(show(&o, 0), "3:c");
        eq_str(show(&o, 3), "");
        output_release(&o);
}

TEST(the_total_is_the_sum_over_all_outputs)
{
        uint64_t total = 0;
        struct output a, b;
        output_init(&a, 4, &total);
        output_init(&b, 100, &total);

        append(&a, 1, "aaa");
        append(&b, 1, "bbbbb");
        eq_u64(total, memory_of(&a) + memory_of(&b));
        append(&a, 2, "aaa"); /* exceeds its cap: the first chunk is dropped */
        eq_u64(total, memory_of(&a) + memory_of(&b));
        eq_u64(total, memory_of(&a) + memory_of(&b));
        ok(output_drop_oldest(&b));
        eq_u64(total, memory_of(&a) + memory_of(&b));
        append(&b, 2, "b");
        output_release(&a);
        eq_u64(total, memory_of(&a) + memory_of(&b));
        output_release(&b);
        eq_u64(total, 0);
}

TEST(a_released_output_may_be_used_again)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 3, &total);
        append(&o, 1, "a");
        append(&o, 2, "bbb");
        output_release(&o);

        eq_str(show(&o, 0), "");
        eq_u64(o.cap_bytes, 3);
        eq_u64(o.dropped_bytes, 0);
        append(&o, 3, "cc");
        append(&o, 4, "dd");
        eq_str(show(&o, 0), "4:dd");
        eq_u64(total, memory_of(&o));
        output_release(&o);
        output_release(&o);
        eq_u64(total, 0);
}

/* --- kept beginnings of streams ----------------------------------------------------------------------------------- */

static struct slice head_of(const struct output *o, enum stream stream)
{
        return slice_from(o->streams[stream].head, o->streams[stream].head_len);
}

TEST(the_beginning_of_each_stream_is_kept_up_to_half_the_cap)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 9, &total); /* half of the cap, rounded down, is 4 */

        append(&o, 1, "ab");
        output_append(&o, STREAM_STDERR, 2, S("123456"));
        eq_slice(head_of(&o, STREAM_STDOUT), S("ab"));
        eq_slice(head_of(&o, STREAM_STDERR), S("1234"));
        eq_u64(head_of(&o, STREAM_PTY).n, 0);
        append(&o, 3, "cdef"); /* the first half of this chunk belongs to the beginning */
        append(&o, 4, "g");
        eq_slice(head_of(&o, STREAM_STDOUT), S("abcd"));
        eq_u64(o.streams[STREAM_STDOUT].bytes, 7);
        eq_u64(o.streams[STREAM_STDERR].bytes, 6);
        eq_u64(total, memory_of(&o));
        output_release(&o);
        eq_u64(total, 0);
}

TEST(a_beginning_that_was_given_up_is_not_begun_again_in_the_middle)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 100, &total);
        ok(!output_drop_heads(&o));
        append(&o, 1, "abc");

        ok(output_drop_heads(&o));
        ok(!output_drop_heads(&o));
        eq_u64(total, memory_of(&o));
        append(&o, 2, "def");
        eq_u64(heads_of(&o), 0);
        eq_u64(o.streams[STREAM_STDOUT].bytes, 6);
        output_append(&o, STREAM_STDERR, 3, S("1")); /* the other stream still has its beginning */
        eq_slice(head_of(&o, STREAM_STDERR), S("1"));
        eq_str(show(&o, 0), "1:abc 2:def 3:1"); /* the chunks are unchanged */
        eq_u64(total, memory_of(&o));
        output_release(&o);
        eq_u64(total, 0);
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

/* Returns a snapshot of stdout as "HEADTAIL-omitted". */
static const char *snapshot(const struct output *o, uint64_t max)
{
        static struct buf text = { .p = buf_empty, .cap = 64 * KIB };
        buf_truncate(&text, 0);
        uint64_t omitted = output_snapshot(o, STREAM_STDOUT, max, &text);
        ok(text.n <= max);
        eq_u64(text.n + omitted,
               o->streams[STREAM_STDOUT].bytes); /* no byte comes twice, and every missing byte is counted */
        ok(buf_printf(&text, "-%llu", (unsigned long long)omitted) == 0);
        return text.p;
}

TEST(a_snapshot_shows_everything_up_to_the_budget_and_both_ends_beyond)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 8, &total);
        eq_str(snapshot(&o, 8), "-0");

        append(&o, 1, "abc");
        eq_str(snapshot(&o, 8), "abc-0");
        append(&o, 2, "defgh");
        eq_str(snapshot(&o, 8), "abcdefgh-0"); /* as many bytes as the budget */
        append(&o, 3, "i");
        eq_str(show(&o, 0), "2:defgh 3:i");
        eq_str(snapshot(&o, 8), "abcdfghi-1");
        append(&o, 4, "jklmnop");
        eq_str(show(&o, 0), "3:i 4:jklmnop");
        eq_str(snapshot(&o, 8), "abcdmnop-8");
        output_release(&o);
}

TEST(a_snapshot_with_a_budget_takes_half_from_either_end)
{
        static const struct {
                uint64_t max;
                const char *want;
        } rows[] = {
                { 0, "-9" },      { 1, "i-8" },        { 2, "ai-7" },        { 3, "ahi-6" },
                { 5, "abghi-4" }, { 8, "abcdfghi-1" }, { 9, "abcdefghi-0" }, { 1000, "abcdefghi-0" },
        };
        uint64_t total = 0;
        struct output o;
        output_init(&o, 100, &total);
        append(&o, 1, "abcd");
        append(&o, 2, "e");
        append(&o, 3, "fghi");

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                eq_str(snapshot(&o, rows[i].max), rows[i].want);
        output_release(&o);
}

TEST(a_snapshot_joins_beginning_and_kept_chunks_without_a_seam)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 8, &total);
        append(&o, 1, "ab");
        append(&o, 2, "cd");
        output_append(&o, STREAM_STDERR, 3, S("12345"));
        /* "ab" was dropped to make room for the other stream, but the kept beginning has it. */
        eq_slice(chunk_slice(output_after(&o, 0)), S("cd"));
        eq_str(snapshot(&o, 8), "abcd-0");

        output_append(&o, STREAM_STDERR, 4, S("678"));
        append(&o, 5, "efgh");
        eq_str(show(&o, 0), "4:678 5:efgh");
        eq_str(snapshot(&o, 8), "abcdefgh-0"); /* the head ends where the first kept chunk begins */
        append(&o, 6, "ijklm");
        eq_str(show(&o, 0), "6:ijklm");
        eq_str(snapshot(&o, 8), "abcdjklm-5");
        output_release(&o);
}

TEST(a_snapshot_shows_what_is_left_when_the_beginnings_are_gone)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 8, &total);
        append(&o, 1, "abcd");
        append(&o, 2, "efgh");
        ok(output_drop_heads(&o));
        eq_str(snapshot(&o, 8), "abcdefgh-0"); /* the beginning is taken from the chunks */

        append(&o, 3, "ij");
        eq_str(snapshot(&o, 8), "efghij-4");
        eq_str(snapshot(&o, 4), "ghij-6");
        while (output_drop_oldest(&o))
                ;
        eq_str(snapshot(&o, 8), "-10");
        output_release(&o);
}

TEST(a_snapshot_of_a_chunk_larger_than_the_cap_keeps_to_the_budget)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 4, &total);
        append(&o, 1, "abcdefghij");
        eq_str(snapshot(&o, 4), "abij-6");
        eq_str(snapshot(&o, 3), "aij-7");
        output_release(&o);
}

/* --- gaps --------------------------------------------------------------------------------------------------------- */

/* Returns the gap above `after` as "from-to:bytes"; "" when there is none. */
static const char *gap(const struct output *o, uint64_t after)
{
        static char text[64];
        struct output_gap g;
        text[0] = '\0';
        if (output_gap_after(o, after, &g))
                (void)snprintf(text, sizeof(text), "%llu-%llu:%llu", (unsigned long long)g.from_seq,
                               (unsigned long long)g.to_seq, (unsigned long long)g.bytes);
        return text;
}

TEST(a_gap_is_what_was_dropped_after_the_readers_number)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 6, &total);
        eq_str(gap(&o, 0), "");
        append(&o, 1, "a");
        append(&o, 2, "bb");
        eq_str(gap(&o, 0), "");

        append(&o, 4, "dddd"); /* number 3 was not a chunk */
        eq_str(gap(&o, 0), "1-1:1");
        eq_str(gap(&o, 1), "");
        output_append(&o, STREAM_STDERR, 5, S("eeeee"));
        append(&o, 6, "f");
        eq_str(show(&o, 0), "5:eeeee 6:f");
        eq_str(gap(&o, 0), "1-4:7");
        eq_str(gap(&o, 1), "2-4:6");
        eq_str(gap(&o, 2), "3-4:4");
        eq_str(gap(&o, 3), "4-4:4");
        eq_str(gap(&o, 4), "");
        eq_str(gap(&o, UINT64_MAX), "");
        output_release(&o);
        eq_str(gap(&o, 0), "");
}

/* A reader that reads now and then learns of every byte exactly once: it gets the byte, or the byte counts as dropped. */
TEST(what_is_kept_and_the_gap_are_all_that_was_written_behind_any_number)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 64, &total);
        static const char bytes[40] = { 0 };
        uint64_t upto[2 * OUTPUT_MARKS] = { 0 }; /* bytes up to and with that number */
        const uint64_t last = OUTPUT_MARKS;      /* so that all dropped chunks are remembered */
        for (uint64_t seq = 1; seq <= last; seq++) {
                size_t n = 1 + (size_t)(seq * 7919 % sizeof(bytes));
                output_append(&o, seq % 3 ? STREAM_STDOUT : STREAM_STDERR, seq, slice_from(bytes, n));
                upto[seq] = upto[seq - 1] + n;
        }
        for (uint64_t after = 0; after <= last; after++) {
                struct output_gap g = { 0 };
                bool has_gap = output_gap_after(&o, after, &g);
                uint64_t kept = 0;
                for (const struct chunk *c = output_after(&o, after); c; c = c->next)
                        kept += c->len;
                eq_u64(kept + g.bytes, upto[last] - upto[after]);
                ok(!has_gap || (g.from_seq == after + 1 && g.to_seq == o.first->seq - 1));
        }
        output_release(&o);
        eq_u64(total, 0);
}

TEST(a_gap_from_the_start_is_exact_however_long_it_is)
{
        uint64_t total = 0;
        struct output o;
        output_init(&o, 1, &total);
        for (uint64_t seq = 1; seq <= 3 * OUTPUT_MARKS + 1; seq++)
                append(&o, seq, "x");

        char want[64];
        (void)snprintf(want, sizeof(want), "1-%d:%d", 3 * OUTPUT_MARKS, 3 * OUTPUT_MARKS);
        eq_str(gap(&o, 0), want);
        /* The gap is also exact as far back as the marks reach. */
        (void)snprintf(want, sizeof(want), "%d-%d:%d", 2 * OUTPUT_MARKS + 2, 3 * OUTPUT_MARKS,
                       OUTPUT_MARKS - 1);
        eq_str(gap(&o, 2 * OUTPUT_MARKS + 1), want);
        output_release(&o);
}
