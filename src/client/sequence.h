/* sequence: the numbered events of one process, put into order.
 *
 * A server numbers output, exit and close of a process from 1. Events may arrive out of order, and twice: what comes early is kept,
 * at most SEQUENCE_EVENTS_MAX events and SEQUENCE_BYTES_MAX bytes, until the gap before it closes; what was given out
 * already is dropped. The event that closes the gap is never refused.
 *
 * After a lost connection the answer to process/read is laid over what is known: sequence_fill.
 */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "farhand/farhand.h"

#define SEQUENCE_EVENTS_MAX 256
#define SEQUENCE_BYTES_MAX (1024 * 1024)

enum event_kind { EVENT_OUTPUT, EVENT_EXITED, EVENT_CLOSED, EVENT_GAP };

struct event {
        struct list link; /* sequence::early */
        uint64_t seq;
        enum event_kind kind;
        enum farhand_stream stream; /* EVENT_OUTPUT */
        char *bytes;                /* EVENT_OUTPUT */
        size_t n;
        struct farhand_exit exit; /* EVENT_EXITED */
        uint64_t last_seq;   /* EVENT_GAP: the number of the last event that is lost; `seq` is the first */
        uint64_t lost_bytes; /* EVENT_GAP: the output in it, as the server counts; 0: not told */
};

struct sequence {
        uint64_t last;     /* the number of the newest event that was given out */
        bool has_exited;   /* the exit was given out, or is among the early ones */
        struct list early; /* by number */
        bool is_filling;   /* an answer to process/read is being put: its size was bounded already */
        size_t count, bytes;
};

void sequence_init(struct sequence *s, uint64_t last);
void sequence_release(struct sequence *s);

/* Takes an event; its bytes are copied. Returns 0, also for one that is known already; -EMSGSIZE or -ENOBUFS with *err filled when it
 * cannot be kept, and the process is lost. */
NODISCARD int sequence_put(struct sequence *s, const struct event *event, struct err *err);
/* Returns the next event in order, which the caller frees with event_free, or NULL. */
NODISCARD struct event *sequence_take(struct sequence *s);
void event_free(struct event *event);

/* What process/read has said of a process, beside its chunks, which were put before. */
struct sequence_state {
        uint64_t next_seq; /* the number that the server gives out next */
        bool has_exited, is_closed;
        struct farhand_exit exit;
        bool may_lose;       /* what is missing becomes EVENT_GAP */
        uint64_t lost_bytes; /* told with the first gap */
};
/* Adds the exit and the close that the state tells of: the close has the number next_seq - 1, and the exit has the one number that
 * is still missing. Anything else that is missing is no longer kept: each such range becomes an EVENT_GAP when may_lose is set (an exit
 * that is lost in them is added behind the last). Otherwise that is -ENODATA, with *err filled. */
NODISCARD int sequence_fill(struct sequence *s, const struct sequence_state *state, struct err *err);
