/* sequence_test: events that come in every order, twice, in too large a number, and with some missing. */
#include "client/sequence.h"

#include "unit.h"

#include <errno.h>
#include <stdio.h>

static struct event output(uint64_t seq, const char *text)
{
        return (struct event){
                .seq = seq, .kind = EVENT_OUTPUT, .bytes = (char *)(uintptr_t)text, .n = strlen(text)
        };
}

static int put(struct sequence *s, uint64_t seq, const char *text)
{
        struct err err = ERR_INIT;
        struct event event = output(seq, text);
        return sequence_put(s, &event, &err);
}

/* Takes all events whose turn has come. Returns them as text: output as it is, E for the exit, C for the close, G for a gap. */
static const char *taken(struct sequence *s)
{
        static char text[4096];
        size_t n = 0;
        struct event *event;
        while ((event = sequence_take(s))) {
                if (event->kind == EVENT_OUTPUT) {
                        memcpy(text + n, event->bytes, event->n);
                        n += event->n;
                } else {
                        text[n++] = "?ECG"[event->kind];
                }
                event_free(event);
        }
        text[n] = '\0';
        return text;
}

TEST(events_come_out_in_order_whatever_their_arrival)
{
        static const int orders[6][3] = { { 1, 2, 3 }, { 1, 3, 2 }, { 2, 1, 3 },
                                          { 2, 3, 1 }, { 3, 1, 2 }, { 3, 2, 1 } };
        for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
                struct sequence s;
                char all[16] = "";
                sequence_init(&s, 0);
                for (int k = 0; k < 3; k++) {
                        eq_int(put(&s, (uint64_t)orders[i][k],
                                   (const char *[]){ "a", "b", "c" }[orders[i][k] - 1]),
                               0);
                        (void)snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s", taken(&s));
                }
                eq_str(all, "abc");
                eq_u64(s.last, 3);
                eq_u64(s.bytes, 0);
                sequence_release(&s);
        }
}

TEST(what_is_known_is_dropped)
{
        struct sequence s;
        sequence_init(&s, 0);
        eq_int(put(&s, 1, "a"), 0);
        eq_int(put(&s, 1, "x"), 0);
        eq_str(taken(&s), "a");
        eq_int(put(&s, 1, "x"), 0);
        eq_int(put(&s, 3, "c"), 0);
        eq_int(put(&s, 3, "x"), 0);
        eq_int(put(&s, 2, "b"), 0);
        eq_str(taken(&s), "bc");
        sequence_release(&s);
}

TEST(too_many_early_events_are_refused_and_the_one_that_closes_the_gap_is_not)
{
        struct sequence s;
        struct err err = ERR_INIT;
        sequence_init(&s, 0);
        for (uint64_t i = 2; i < 2 + SEQUENCE_EVENTS_MAX; i++)
                eq_int(put(&s, i, "x"), 0);
        struct event one_more = output(5000, "x");
        eq_int(sequence_put(&s, &one_more, &err), -ENOBUFS);
        eq_str(err.text, "process event reorder buffer exceeds 256 entries");
        eq_int(put(&s, 1, "a"), 0);
        eq_u64(strlen(taken(&s)), 1 + SEQUENCE_EVENTS_MAX);
        sequence_release(&s);
}

TEST(too_many_early_bytes_are_refused)
{
        static char big[SEQUENCE_BYTES_MAX + 2];
        struct sequence s;
        struct err err = ERR_INIT;
        memset(big, 'x', sizeof(big) - 1);
        sequence_init(&s, 0);
        struct event event = output(2, big);
        eq_int(sequence_put(&s, &event, &err), -EMSGSIZE);
        eq_str(err.text, "process event exceeds 1048576 bytes");
        event.n = SEQUENCE_BYTES_MAX;
        eq_int(sequence_put(&s, &event, &err), 0);
        struct event small = output(3, "x");
        eq_int(sequence_put(&s, &small, &err), -ENOBUFS);
        eq_str(err.text, "process event reorder buffer exceeds 1048576 bytes");
        event = output(1, big);
        eq_int(sequence_put(&s, &event, &err), 0);
        sequence_release(&s);
}

TEST(the_exit_is_the_one_number_that_is_missing)
{
        struct err err = ERR_INIT;
        /* There are four chunks, an exit, and then the close. The exit has each of the numbers 1 to 5 in turn. */
        for (uint64_t exit = 1; exit <= 5; exit++) {
                struct sequence s;
                sequence_init(&s, 0);
                for (uint64_t i = 1; i <= 5; i++)
                        if (i != exit)
                                eq_int(put(&s, i, "o"), 0);
                struct sequence_state told = { .next_seq = 7, .has_exited = true, .is_closed = true };
                eq_int(sequence_fill(&s, &told, &err), 0);
                char want[] = "ooooooC";
                want[5] = 'C';
                want[6] = '\0';
                want[exit - 1] = 'E';
                eq_str(taken(&s), want);
                sequence_release(&s);
        }
}

TEST(a_process_that_still_runs_misses_no_event)
{
        struct sequence s;
        struct err err = ERR_INIT;
        sequence_init(&s, 4);
        eq_int(sequence_fill(&s, &(struct sequence_state){ .next_seq = 5 }, &err), 0);
        eq_int(put(&s, 5, "a"), 0);
        eq_int(put(&s, 6, "b"), 0);
        eq_int(sequence_fill(&s, &(struct sequence_state){ .next_seq = 7 }, &err), 0);
        eq_str(taken(&s), "ab");
        sequence_release(&s);
}

TEST(an_exit_that_was_told_already_is_not_told_again)
{
        struct sequence s;
        struct err err = ERR_INIT;
        sequence_init(&s, 0);
        eq_int(sequence_put(&s, &(struct event){ .seq = 1, .kind = EVENT_EXITED }, &err), 0);
        eq_str(taken(&s), "E");
        eq_int(sequence_fill(&s,
                             &(struct sequence_state){ .next_seq = 3, .has_exited = true, .is_closed = true },
                             &err),
               0);
        eq_str(taken(&s), "C");
        sequence_release(&s);
}

TEST(holes_that_nothing_explains_are_losses)
{
        struct sequence s;
        struct err err = ERR_INIT;
        sequence_init(&s, 0);
        eq_int(put(&s, 3, "c"), 0);
        eq_int(sequence_fill(&s, &(struct sequence_state){ .next_seq = 4, .has_exited = true }, &err),
               -ENODATA);
        eq_str(err.text, "process events are no longer retained while recovering through sequence 3");
        sequence_release(&s);

        sequence_init(&s, 0);
        eq_int(sequence_fill(&s, &(struct sequence_state){ .next_seq = 2 }, &err),
               -ENODATA); /* the process has not exited, so the missing event is no exit */
        sequence_init(&s, 9);
        eq_int(sequence_fill(&s, &(struct sequence_state){ .next_seq = UINT64_MAX, .has_exited = true },
                             &err),
               -ENODATA);
        sequence_release(&s);
}

TEST(an_answer_that_events_have_overtaken_tells_nothing_new)
{
        struct sequence s;
        struct err err = ERR_INIT;
        sequence_init(&s, 0);
        for (uint64_t i = 1; i <= 3; i++)
                eq_int(put(&s, i, "a"), 0);
        eq_str(taken(&s), "aaa");
        for (uint64_t next = 0; next <= 4; next++)
                eq_int(sequence_fill(&s, &(struct sequence_state){ .next_seq = next }, &err), 0);
        eq_str(taken(&s), "");
        eq_u64(s.last, 3);
        sequence_release(&s);
}

TEST(what_is_lost_becomes_gaps_when_that_is_wanted)
{
        static const struct {
                uint64_t early[3];
                struct sequence_state state;
                const char *want;
                uint64_t last;
        } rows[] = {
                { { 4 }, { .next_seq = 5 }, "Gx", 4 },
                { { 1, 4, 6 }, { .next_seq = 7 }, "xGxGx", 6 },
                { { 1 }, { .next_seq = 5 }, "xG", 4 },
                { { 1 }, { .next_seq = 5, .is_closed = true }, "xGC", 4 },
                { { 1 }, { .next_seq = 5, .is_closed = true, .has_exited = true }, "xGEC", 4 },
                { { 2, 4 },
                  { .next_seq = 5, .has_exited = true },
                  "GxEx",
                  4 },                                     /* one of the two missing events is the exit */
                { { 2, 9 }, { .next_seq = 4 }, "GxG", 3 }, /* event 9 has overtaken the answer */
                { { 0 }, { .next_seq = UINT64_MAX }, "G", UINT64_MAX - 1 },
                { { 0 }, { .next_seq = 0 }, "", 0 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct sequence s;
                struct err err = ERR_INIT;
                struct sequence_state told = rows[i].state;
                sequence_init(&s, 0);
                for (size_t k = 0; k < 3 && rows[i].early[k]; k++)
                        eq_int(put(&s, rows[i].early[k], "x"), 0);
                told.may_lose = true;
                eq_int(sequence_fill(&s, &told, &err), 0);
                eq_str(taken(&s), rows[i].want);
                eq_u64(s.last, rows[i].last);
                sequence_release(&s);
        }
}
