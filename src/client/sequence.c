/* sequence: puts the events of a process into order, and finds the events that are missing after a lost connection. */
#include "client/sequence.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>

void sequence_init(struct sequence *s, uint64_t last)
{
        *s = (struct sequence){ .last = last };
        list_init(&s->early);
}

void event_free(struct event *event)
{
        if (!event)
                return;
        free(event->bytes);
        free(event);
}

void sequence_release(struct sequence *s)
{
        struct event *event;
        list_each (event, &s->early, link) {
                list_remove(&event->link);
                event_free(event);
        }
        sequence_init(s, s->last);
}

/* Returns the link of the early event behind which an event with number `seq` belongs, or the head of the list when that event is
 * the first; NULL when there is an event with this number already. Events nearly always come in order, so the search begins at the
 * end. */
static struct list *place_of(struct sequence *s, uint64_t seq)
{
        struct list *at = s->early.prev;
        while (at != &s->early && list_entry(at, struct event, link)->seq > seq)
                at = at->prev;
        return at != &s->early && list_entry(at, struct event, link)->seq == seq ? NULL : at;
}

static void insert(struct sequence *s, struct list *behind, const struct event *event)
{
        struct event *copy = mem_new(struct event);
        *copy = *event;
        copy->bytes = NULL;
        if (event->n > 0) {
                copy->bytes = mem_alloc(event->n);
                memcpy(copy->bytes, event->bytes, event->n);
        }
        list_prepend(behind, &copy->link);
        s->count++;
        s->bytes += copy->n;
        s->has_exited |= copy->kind == EVENT_EXITED;
}

int sequence_put(struct sequence *s, const struct event *event, struct err *err)
{
        if (event->seq <= s->last)
                return 0;
        struct list *behind = place_of(s, event->seq);
        if (!behind)
                return 0;
        if (event->seq != s->last + 1 && !s->is_filling) {
                if (event->n > SEQUENCE_BYTES_MAX)
                        return err_set(err, 0, -EMSGSIZE, "process event exceeds %d bytes",
                                       SEQUENCE_BYTES_MAX);
                if (s->count >= SEQUENCE_EVENTS_MAX)
                        return err_set(err, 0, -ENOBUFS, "process event reorder buffer exceeds %d entries",
                                       SEQUENCE_EVENTS_MAX);
                if (s->bytes + event->n > SEQUENCE_BYTES_MAX)
                        return err_set(err, 0, -ENOBUFS, "process event reorder buffer exceeds %d bytes",
                                       SEQUENCE_BYTES_MAX);
        }
        insert(s, behind, event);
        return 0;
}

struct event *sequence_take(struct sequence *s)
{
        struct event *first = list_first(&s->early, struct event, link);
        if (!first || first->seq != s->last + 1)
                return NULL;
        list_remove(&first->link);
        s->last = first->kind == EVENT_GAP ? first->last_seq : first->seq;
        s->count--;
        s->bytes -= first->n;
        return first;
}

/* Finds the numbers from last + 1 to `end` that no early event has. Returns how many such numbers there are; *ret_first is the
 * first. */
static uint64_t count_missing(struct sequence *s, uint64_t end, uint64_t *ret_first)
{
        uint64_t missing = 0, next = s->last + 1;
        struct event *event;
        list_each (event, &s->early, link) {
                if (event->seq > end)
                        break;
                if (event->seq > next && missing == 0)
                        *ret_first = next;
                missing += event->seq - next;
                next = event->seq + 1;
        }
        if (next <= end) {
                if (missing == 0)
                        *ret_first = next;
                missing += end - next + 1;
        }
        return missing;
}

/* Adds an EVENT_GAP for each range of numbers up to `end` that no early event has. */
static void mark_lost(struct sequence *s, uint64_t end, const struct sequence_state *state)
{
        uint64_t next = s->last + 1, bytes = state->lost_bytes;
        struct list *before = &s->early;
        struct event *gap = NULL;
        for (struct list *at = s->early.next;; at = at->next) {
                struct event *event = at == &s->early ? NULL : list_entry(at, struct event, link);
                bool is_behind = !event || event->seq > end;
                uint64_t to = is_behind ? end : event->seq - 1;
                if (next <= to) {
                        insert(s, before,
                               &(struct event){
                                       .kind = EVENT_GAP, .seq = next, .last_seq = to, .lost_bytes = bytes });
                        gap = list_entry(before->next, struct event, link);
                        bytes = 0;
                }
                if (is_behind)
                        break;
                next = event->seq + 1;
                before = at;
        }
        if (!gap || !state->has_exited || s->has_exited)
                return;
        uint64_t last = gap->last_seq--;
        insert(s, &gap->link, &(struct event){ .seq = last, .kind = EVENT_EXITED, .exit = state->exit });
        if (gap->seq == last) { /* the gap is empty: only the exit was missing */
                list_remove(&gap->link);
                s->count--;
                event_free(gap);
        }
}

int sequence_fill(struct sequence *s, const struct sequence_state *state, struct err *err)
{
        /* Notifications may have overtaken the answer: then the answer tells nothing new. */
        if (state->next_seq == 0 || state->next_seq - 1 < s->last)
                return 0;
        uint64_t end = state->next_seq - 1, first = 0;
        if (state->is_closed && end > s->last) {
                struct list *behind = place_of(s, end);
                if (behind)
                        insert(s, behind, &(struct event){ .seq = end, .kind = EVENT_CLOSED });
        }
        uint64_t missing = count_missing(s, end, &first);
        if (missing == 1 && state->has_exited && !s->has_exited) {
                struct list *behind = place_of(s, first);
                if (behind)
                        insert(s, behind,
                               &(struct event){ .seq = first, .kind = EVENT_EXITED, .exit = state->exit });
                missing = 0;
        }
        if (missing > 0 && state->may_lose) {
                mark_lost(s, end, state);
                return 0;
        }
        if (missing > 0)
                return err_set(
                        err, 0, -ENODATA,
                        "process events are no longer retained while recovering through sequence %" PRIu64,
                        end);
        return 0;
}
