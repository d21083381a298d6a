/* streams: the messages to the client of one session, in the streams to which they belong, and what of them can be sent again.
 *
 * A stream answers a POST, or was opened by a GET. Its messages are numbered from 1 on; its first event may be an empty one with the number
 * 0, so that the client knows an id to come back with. A stream has at most one reader, a connection; without one its messages wait. What
 * was sent stays, up to a limit, for a reader that comes back.
 *
 * What is kept is bounded by LIMIT_MCP_HTTP_KEPT_BYTES and its companions: a slow reader loses its stream, and nobody waits for it.
 */
#pragma once

#include "base/buf.h"
#include "base/list.h"

/* The connection that sends the messages of a stream. Both callbacks must only make a note: they must not change streams. */
struct stream_reader {
        void (*ready)(struct stream_reader *r); /* there is something new, or the stream is done */
        /* A message that was not sent was dropped, or another reader came: this one is no reader of the stream any more. */
        void (*lost)(struct stream_reader *r);
};

struct mcp_streams {
        struct list all;    /* stream::link, in the order in which they began */
        struct list events; /* event::age, the oldest first */
        size_t open;        /* how many streams are not done */
        size_t bytes, count;
};

struct mcp_stream {
        struct list link;   /* streams::all */
        struct list events; /* event::link */
        struct mcp_streams *streams;
        uint64_t id, last_number;
        bool is_standalone; /* a GET has opened it */
        bool is_sse;        /* its events have ids, so that a reader can come back */
        bool is_done;       /* no message follows */
        bool is_refused;    /* what was asked was no message: the last message says so */
        bool is_broken;     /* the stream ended without its last message */
        bool is_lost;       /* a message was dropped that was not sent */
        uint64_t dropped;   /* how many events from the beginning were dropped */
        struct stream_reader *reader;
        struct event *next; /* the first event that was not sent whole; NULL: all were sent */
        size_t sent;        /* how many bytes of `next` were sent */
};

void mcp_streams_init(struct mcp_streams *s);
void mcp_streams_release(struct mcp_streams *s); /* no stream may have a reader */

/* The reader may be NULL. A stream frees itself when it is done, has no reader and nothing can be sent again. */
struct mcp_stream *mcp_stream_new(struct mcp_streams *s, uint64_t id, bool is_standalone,
                                  struct stream_reader *reader);
/* Returns NULL when there is no stream of this id. */
NODISCARD struct mcp_stream *mcp_stream_find(const struct mcp_streams *s, uint64_t id);
/* Adds a message, whose bytes are taken over. */
void mcp_stream_put(struct mcp_stream *s, struct buf *message);
/* Adds an event without a message, which only gives the client an id to come back with. */
void mcp_stream_greet(struct mcp_stream *s);
/* Ends a stream: no message will be added. The stream may be freed. */
void mcp_stream_end(struct mcp_stream *s);
/* Takes the reader away: messages that it has not sent whole wait for another reader. The stream may be freed. */
void mcp_stream_detach(struct mcp_stream *s);
/* Gives a stream a reader whose client has every event up to this number. Returns false when that cannot be: an event behind it was
 * dropped, or was never there. Otherwise the reader takes the place of the one before. */
NODISCARD bool mcp_stream_attach(struct mcp_stream *s, uint64_t number, struct stream_reader *reader);
/* Takes the stream from its reader, and tells it. The stream may be freed. */
void mcp_stream_lose_reader(struct mcp_stream *s);
/* Moves what `from` has to the end of `to`. */
void mcp_stream_move(struct mcp_stream *from, struct mcp_stream *to);

enum stream_form {
        STREAM_JSON,    /* the message alone */
        STREAM_EVENTS,  /* server-sent events */
        STREAM_CHUNKED, /* server-sent events, each as a chunk of HTTP */
};
/* Returns the first message that was not sent; p == NULL: there is none. */
NODISCARD struct slice mcp_stream_first(const struct mcp_stream *s);
static inline bool mcp_stream_has_waiting(const struct mcp_stream *s)
{
        return s->next != NULL;
}
/* Sends as much as the descriptor takes. Returns 0 when all is sent, 1 when the descriptor takes no more now, or -errno. */
NODISCARD int mcp_stream_flush(struct mcp_stream *s, int fd, enum stream_form form);
