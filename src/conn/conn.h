/* conn: one connection that carries messages: WebSocket on a socket, or lines on stdio.
 *
 * A connection reads, joins and checks messages and gives each to its user (conn_events). It sends what the user appended, at
 * the end of the turn. While its outgoing queue is past the high mark it reads nothing, and the user is told to produce nothing.
 */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "conn/assembly.h"
#include "conn/conns.h"
#include "conn/identity.h"
#include "conn/outq.h"
#include "wire/jsonw.h"
#include "wire/lines.h"
#include "wire/rpc.h"
#include "wire/ws.h"

struct parse;

enum conn_state {
        CONN_OPEN,
        CONN_CLOSING, /* our close frame is queued; we wait for the peer's, or until all is sent */
        CONN_DEAD,    /* freed at the end of the turn */
};

/* Why input is not read. */
enum conn_block_reason {
        BLOCK_OUTPUT = 1,   /* the outgoing queue is past its high mark */
        BLOCK_ASSEMBLY = 2, /* a large message waits for its share of memory */
        BLOCK_REQUESTS = 4, /* too many requests of this connection wait */
        BLOCK_PARSE = 8,    /* a large message is being parsed on a thread */
};

struct conn {
        struct conns *conns;
        void *owner;            /* what conn_events::begun returned */
        struct list link;       /* conns::all */
        struct list dirty_link; /* conns::dirty */
        enum conn_state state;
        enum framing framing;
        int in_flags, out_flags;            /* the flags that stdin and stdout had at first */
        int in_fd, out_fd;                  /* the same socket, or stdin and stdout */
        struct watch *in_watch, *out_watch; /* out_watch is NULL for a socket */
        char peer[64];                      /* address of the peer, for errors and logs */
        struct identity who;                /* decides which sessions the client may see and resume */

        unsigned blocks;     /* enum conn_block_reason */
        struct buf in;       /* bytes read and not yet consumed */
        bool is_dispatching; /* the user is looking at `message` */
        struct buf message;  /* the message (or line) that is being assembled */
        struct parse *parse; /* NULL: nothing is being parsed */
        struct ws_decoder ws;
        struct line_decoder lines;
        bool has_peer_closed; /* the peer's close frame, or the end of input, has come */
        bool is_shut;         /* we have sent our last byte; what still comes is discarded */
        struct outq out;
        struct deferred resume; /* goes on with input when nothing blocks it any more */
        struct deferred reap;

        struct assembly_share share; /* this connection's part of the memory for large messages */

        struct timer *timer; /* for pings and dead peers; after our close frame: its deadline */
        uint64_t reads;      /* how often bytes arrived */
        uint64_t pinged_ms;  /* when the last ping was sent */
        uint64_t asked_ms;   /* when the first unanswered ping was sent; 0: none is unanswered */
        bool is_backed_up;   /* the last send filled the buffer of the kernel */
};

/* Makes a connection of a WebSocket and takes its descriptor, which must be non-blocking. `who`: the identity of the client's
 * token. `pending`: bytes that arrived behind the upgrade request. Returns NULL when a system call failed: then the descriptor is
 * still the caller's. */
NODISCARD struct conn *conn_new_ws(struct conns *s, int fd, const char *peer, const struct identity *who,
                                   struct slice pending);
/* Makes a connection of stdin and stdout: takes the descriptors, and makes them non-blocking until the connection ends. Returns 0,
 * or -errno: then the descriptors are still the caller's. */
NODISCARD int conn_new_stdio(struct conns *s, int in_fd, int out_fd);

/* Sends what `first` holds (the answer to the upgrade) before anything else; `first` is empty afterwards. */
void conn_send_first(struct conn *c, struct outq *first);

/* Closes with a code: conn_events::ended is called at once, the close frame is sent, and the peer gets time to answer it. */
void conn_close(struct conn *c, int code);
/* Ends the connection now, without a close frame. */
void conn_drop(struct conn *c);
bool conn_is_usable(const struct conn *c);

/* Sends a ping. When the peer answers, `reads` grows. */
void conn_ping(struct conn *c);

/* Send one message. The caller writes the members of its object between begin and end; nothing else may be sent meanwhile. `hint`
 * is the approximate size. An answer that is larger than the peer accepts is replaced by an error. */
void conn_reply_begin(struct conn *c, const struct rpc_id *id, size_t hint, struct jsonw *ret);
void conn_reply_end(struct conn *c, const struct rpc_id *id, struct jsonw *w);
void conn_fail(struct conn *c, const struct rpc_id *id, const struct err *err, const char *extra_data);
void conn_notify_begin(struct conn *c, const char *method, size_t hint, struct jsonw *ret);
void conn_notify_end(struct conn *c, struct jsonw *w);
/* A request to the peer; core/inquiry.h knows which are open. */
void conn_request_begin(struct conn *c, const struct rpc_id *id, const char *method, size_t hint,
                        struct jsonw *ret);
void conn_request_end(struct conn *c, struct jsonw *w);

/* Send an answer that was written elsewhere, with OUTQ_ROOM bytes in front: whole, or as a piece of a stream (then
 * outq_stream_begin was called before). The buffer is taken over. */
void conn_send(struct conn *c, const struct rpc_id *id, struct buf *answer);
void conn_send_piece(struct conn *c, struct buf *piece, bool is_last);

/* Add or remove a reason not to read. When the last reason is removed, reading goes on at the end of the turn. */
void conn_block(struct conn *c, enum conn_block_reason reason);
void conn_unblock(struct conn *c, enum conn_block_reason reason);

/* Takes the memory of the message that the user is looking at. Returns false when `text` is not the whole message, or much smaller
 * than its memory: then the caller must copy. */
NODISCARD bool conn_take_message(struct conn *c, struct slice text, struct buf *ret);
/* Called when the user has no more answers to send (conn_events::is_busy): closes a connection whose peer has ended its input. */
void conn_close_if_idle(struct conn *c);

/* Sends what was queued. Called at the end of each turn of the loop. */
void conn_flush_all(struct conns *s);
void conn_drop_all(struct conns *s);
/* Returns whether the outgoing queue is below its high mark, so that the user may produce more. */
bool conn_wants_output(const struct conn *c);
