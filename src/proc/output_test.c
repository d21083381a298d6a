/* Tests of the retained output of one process. */
#include "proc/output.h"

#include "base/buf.h"
#include "base/limits.h"
#include "unit.h"

/* What is kept behind `after`, as "2:bbbb 3:cccc", walking `next`; and the list is sound in both directions. */
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

/* What an output adds to the total: its bytes and what it costs to keep them apart. */
static uint64_t memory_of(const struct output *o)
{
        return o->bytes + o->count * sizeof(struct chunk);
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
        memset(bytes, 'x', sizeof(bytes)); /* it made a copy */
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
        eq_str(show(&o, 0), "1:aaaa 2:bbbb"); /* the cap itself is not beyond it */
        eq_u64(o.dropped_bytes, 0);
        eq_u64(o.dropped_seq, 0);
        append(&o, 3, "c");
        eq_str(show(&o, 0), "2:bbbb 3:c");
        eq_u64(o.dropped_bytes, 4);
        eq_u64(o.dropped_seq, 1);
        append(&o, 4, "dddddddd"); /* two have to go for it */
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
        append(&o, 7, "g"); /* numbers rise, but need not follow each other */
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
        eq_u64(total, 0);
        eq_u64(o.count, 0);
        ok(!output_drop_oldest(&o));

        append(&o, 3, "c"); /* and it goes on as before */
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
        append(&a, 2, "aaa"); /* passes its cap: the first goes */
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
