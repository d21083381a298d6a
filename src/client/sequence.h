/* sequence: the numbered events of one process, put into order.
 *
 * A server numbers output, exit and close of a process from 1. Events may arrive out of order, and twice. An event that comes early
 * is kept until the events before it have come; at most SEQUENCE_EVENTS_MAX events and SEQUENCE_BYTES_MAX bytes are kept. An event
 * that was given out already is dropped. The next event in order is never refused.
 *
 * After a lost connection, sequence_fill adds what the answer to process/read tells to what is known.
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
        uint64_t last_seq;        /* for EVENT_GAP: number of the last lost event; `seq` is the first */
        uint64_t lost_bytes; /* for EVENT_GAP: bytes of output that the server says are lost; 0: not told */
};

struct sequence {
        uint64_t last;     /* the number of the newest event that was given out */
        bool has_exited;   /* the exit was given out, or is among the early events */
        struct list early; /* event::link, ordered by number */
        bool is_filling;   /* events of an answer to process/read are put, which was bounded already */
        size_t count, bytes;
};

void sequence_init(struct sequence *s, uint64_t last);
void sequence_release(struct sequence *s);

/* Takes an event and copies its bytes. Returns 0, also for an event that is known already; -EMSGSIZE or -ENOBUFS with *err filled
 * when the event cannot be kept. */
NODISCARD int sequence_put(struct sequence *s, const struct event *event, struct err *err);
/* Returns the next event in order, which the caller frees with event_free, or NULL. */
NODISCARD struct event *sequence_take(struct sequence *s);
void event_free(struct event *event);

/* What the answer to process/read tells of a process beside the chunks, which the caller has put before. */
struct sequence_state {
        uint64_t next_seq; /* the number that the server gives out next */
        bool has_exited, is_closed;
        struct farhand_exit exit;
        bool may_lose;       /* missing events become an EVENT_GAP instead of an error */
        uint64_t lost_bytes; /* becomes event::lost_bytes of the first gap */
};
/* Adds the exit and the close that the state tells of: the close has the number next_seq - 1, and the exit has the one number that
 * is still missing. The server no longer keeps other events that are missing: with may_lose, each range of such events becomes an
 * EVENT_GAP, and an exit that is lost in them is added behind the last gap. Without may_lose, returns -ENODATA with *err filled. */
NODISCARD int sequence_fill(struct sequence *s, const struct sequence_state *state, struct err *err);
