/* fuzz_sequence: the order of events against a model that keeps every event in a table by its number. Each two bytes of the input
 * are one operation: put an event, take all that is due, or lay the answer to process/read over what is known. */
#include "base/mem.h"
#include "client/sequence.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NUMBERS 600

struct model {
        bool has[NUMBERS];
        enum event_kind kind[NUMBERS];
        char byte[NUMBERS];
        size_t last, count, bytes;
        bool has_exited;
};

static void model_add(struct model *m, size_t seq, enum event_kind kind, char byte)
{
        m->has[seq] = true;
        m->kind[seq] = kind;
        m->byte[seq] = byte;
        m->count++;
        m->bytes += kind == EVENT_OUTPUT;
        m->has_exited |= kind == EVENT_EXITED;
}

/* Puts an event into the sequence and the model. Returns false when the sequence is full, and refuses the event. */
static bool put(struct sequence *s, struct model *m, size_t seq, enum event_kind kind, char byte)
{
        struct err err = ERR_INIT;
        struct event event = { .seq = seq, .kind = kind, .bytes = &byte, .n = kind == EVENT_OUTPUT };
        int r = sequence_put(s, &event, &err);
        bool is_known = seq <= m->last || m->has[seq];
        bool is_refused = !is_known && seq != m->last + 1 && m->count >= SEQUENCE_EVENTS_MAX;
        must(r == (is_refused ? -ENOBUFS : 0));
        if (!is_known && !is_refused)
                model_add(m, seq, kind, byte);
        return !is_refused;
}

static void take_all(struct sequence *s, struct model *m)
{
        for (;;) {
                struct event *event = sequence_take(s);
                must(!event == !(m->last + 1 < NUMBERS && m->has[m->last + 1]));
                if (!event)
                        break;
                size_t seq = ++m->last;
                must(event->seq == seq && event->kind == m->kind[seq]);
                if (event->kind == EVENT_GAP) {
                        while (m->last + 1 < NUMBERS && m->has[m->last + 1] &&
                               m->kind[m->last + 1] == EVENT_GAP)
                                m->last++;
                        must(event->last_seq == m->last);
                }
                must(event->kind != EVENT_OUTPUT || (event->n == 1 && event->bytes[0] == m->byte[seq]));
                m->count--;
                m->bytes -= event->kind == EVENT_OUTPUT;
                event_free(event);
        }
        must(s->last == m->last && s->count == m->count && s->bytes == m->bytes);
}

/* Marks every hole below `next`; an exit that is lost in them has the last number of all. */
static void model_lose(struct model *m, size_t next, bool has_exited)
{
        bool wants_exit = has_exited && !m->has_exited;
        for (size_t i = next; i-- > m->last + 1;) {
                if (m->has[i])
                        continue;
                enum event_kind kind = wants_exit ? EVENT_EXITED : EVENT_GAP;
                bool is_joined =
                        kind == EVENT_GAP && i + 1 < next && m->has[i + 1] && m->kind[i + 1] == EVENT_GAP;
                wants_exit = false;
                model_add(m, i, kind, 0);
                m->count -= is_joined; /* a gap is one event */
        }
}

/* Lays the answer to a process/read over the sequence and the model. Returns false when the sequence refuses it, because events are
 * lost. */
static bool fill(struct sequence *s, struct model *m, size_t next, bool has_exited, bool is_closed,
                 bool may_lose)
{
        struct err err = ERR_INIT;
        struct sequence_state state = {
                .next_seq = next, .has_exited = has_exited, .is_closed = is_closed, .may_lose = may_lose
        };
        int r = sequence_fill(s, &state, &err);
        if (next == 0 || next - 1 < m->last) {
                must(r == 0);
                return true;
        }
        size_t missing = 0, hole = 0;
        if (is_closed && next - 1 > m->last && !m->has[next - 1])
                model_add(m, next - 1, EVENT_CLOSED, 0);
        for (size_t i = m->last + 1; i < next; i++)
                if (!m->has[i] && missing++ == 0)
                        hole = i;
        if (missing == 1 && has_exited && !m->has_exited) {
                model_add(m, hole, EVENT_EXITED, 0);
                missing = 0;
        }
        if (missing > 0 && may_lose) {
                model_lose(m, next, has_exited);
                missing = 0;
        }
        must(r == (missing > 0 ? -ENODATA : 0));
        return missing == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _free_ struct model *m = mem_new(struct model);
        struct sequence s;
        sequence_init(&s, 0);
        bool is_whole = true;
        for (size_t i = 0; i + 1 < size && is_whole; i += 2) {
                size_t seq = ((size_t)(data[i] & 7) * 256 + data[i + 1]) % NUMBERS;
                switch (data[i] >> 3 & 7) {
                case 0:
                        take_all(&s, m);
                        break;
                case 1:
                        is_whole = fill(&s, m, seq, data[i] & 64, data[i] & 128, false);
                        break;
                case 4: /* a gap is told at once */
                        is_whole = fill(&s, m, seq, data[i] & 64, data[i] & 128, true);
                        take_all(&s, m);
                        break;
                case 2:
                        is_whole = put(&s, m, seq, EVENT_EXITED, 0);
                        break;
                case 3:
                        is_whole = put(&s, m, seq, EVENT_CLOSED, 0);
                        break;
                default: /* an event near the one that is due */
                        is_whole = put(&s, m, MIN(m->last + 1 + data[i + 1] % 8, (size_t)NUMBERS - 1),
                                       EVENT_OUTPUT, (char)data[i]);
                        break;
                }
        }
        if (is_whole)
                take_all(&s, m);
        sequence_release(&s);
        return 0;
}
