/* conns: what all connections of a server share: the loop, the options, buffers and limits, and the events that their user
 * handles. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "conn/assembly.h"
#include "conn/auth.h"
#include "conn/buffer_pool.h"
#include "conn/peer.h"
#include "conn/refusals.h"
#include "loop/loop.h"
#include "loop/pool.h"
#include "wire/listen_url.h"

struct conn;
struct conns;

/* Room in front of the scratch buffer for the bytes that the last read left over: an incomplete frame head or control frame. */
#define CONNS_SCRATCH_REST 512

/* What the operator chose. The values change when the configuration is read again: look at them in each callback. */
struct conn_options {
        char *listen;                 /* the URL as the operator wrote it */
        struct listen_url listen_url; /* the path of a unix socket is absolute here */
        bool allow_other_namespaces;  /* peers of a unix socket may be in other namespaces */
        struct auth auth;
        uint64_t max_message_bytes;
        uint64_t max_connections;
        uint64_t ping_interval_ms;
        uint64_t pong_timeout_ms;
        uint64_t tcp_user_timeout_ms;
};

/* Callbacks of the user. The loop calls them all except `parse`, which a thread calls. */
struct conn_events {
        /* A connection has begun. The result becomes conn::owner. */
        void *(*begun)(struct conns *conns, struct conn *c);
        /* One whole message, with BUF_PADDING readable bytes behind it. conn_take_message may take its memory. */
        void (*message)(struct conn *c, struct slice text);
        /* `parse` parses a large message on a thread into the arena. Then the loop gives its result to `parsed`, with the arena
         * and the text; `parsed` takes these two over, or leaves them to be freed. */
        void *(*parse)(struct arena *a, struct slice text);
        void (*parsed)(struct conn *c, struct arena *a, struct buf *text, void *what);
        /* The outgoing queue is past its high mark, or below its low mark again. */
        void (*paused)(struct conn *c, bool is_paused);
        /* Input goes on: nothing blocks the connection. */
        void (*resumed)(struct conn *c);
        /* As much as possible was sent. The connection is open. */
        void (*flushed)(struct conn *c);
        /* Asked when the peer has ended its input: returns whether the peer still waits for answers. */
        bool (*is_busy)(const struct conn *c);
        /* The connection can no longer be used; only what was queued before is still sent. */
        void (*ended)(struct conn *c);
        /* The connection is freed: free its owner. */
        void (*released)(struct conn *c);
        /* The connection was taken out of conns::all. */
        void (*gone)(struct conns *conns, bool was_stdio);
};

struct conns {
        struct loop *loop;
        const struct conn_options *options;
        const struct conn_events *events;
        struct peer_judge judge; /* decides which peers of a unix socket are accepted */
        bool is_draining;        /* the server is ending */

        struct list all;     /* conn::link */
        struct list dirty;   /* conn::dirty_link: connections with something to send */
        struct list httpds;  /* httpd::link */
        size_t http_count;   /* length of `httpds` */
        size_t count;        /* length of `all` and `httpds` */
        size_t max;          /* the most in `all`; more would take the descriptors that commands need */
        bool is_full_logged; /* the log has been told that `max` is reached */
        struct refusals refusals;

        char *scratch; /* CONNS_SCRATCH_REST + LIMIT_READ_BYTES + BUF_PADDING bytes, for one read of one connection */
        struct buffer_pool buffer_pool; /* large buffers for answers */
        struct pool *
                threads; /* the threads that parse large messages and free large memory; NULL until first needed */
        uint64_t freeing_bytes; /* bytes that threads have yet to free */
        bool is_released;       /* the server ends: no thread is made any more */

        struct assembly assembly;
};

void conns_init(struct conns *s, struct loop *loop, const struct conn_options *options,
                const struct conn_events *events);
/* Ends the threads, when no connection is left. Returns whether all have ended in time. */
NODISCARD bool conns_end_threads(struct conns *s, uint64_t wait_ms);
void conns_release(struct conns *s);

/* Returns the threads for large messages, and starts them first when needed; NULL when that fails. */
NODISCARD struct pool *conns_threads(struct conns *s);

/* Free the memory of a message or an answer: small memory at once, large memory on a thread. A buffer that suits the buffer
 * pool is kept there. `b` and `a` are empty afterwards. */
void conns_free_buf(struct conns *s, struct buf *b);
void conns_free_arena(struct conns *s, struct arena *a);
