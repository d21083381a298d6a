/* conn: one connection that carries messages: WebSocket on a socket, or lines on stdio.
 *
 * Reads, joins and checks what comes; gives each message to dispatch; sends what handlers appended, at the end of the
 * turn. Past the high mark of its outgoing queue it reads neither its requests nor its processes' output. It borrows a
 * session after `initialize` and gives it back (detached) the moment it can no longer be used.
 */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "server/jobs.h"
#include "server/outq.h"
#include "server/server.h"
#include "wire/jsonw.h"
#include "wire/lines.h"
#include "wire/rpc.h"
#include "wire/ws.h"

struct session;

enum conn_state {
        CONN_OPEN,
        CONN_CLOSING, /* our close frame is queued; waiting for theirs, or for all to be sent */
        CONN_DEAD,    /* freed at the end of the turn */
};

/* Why input is not read. */
enum conn_block_reason {
        BLOCK_OUTPUT = 1,   /* the outgoing queue is past its high mark */
        BLOCK_ASSEMBLY = 2, /* a large message waits for its share of memory */
        BLOCK_JOBS = 4,     /* too many file requests wait */
};

struct conn {
        struct server *server;
        struct list link;       /* server::conns */
        struct list dirty_link; /* server::dirty */
        enum conn_state state;
        enum framing framing;
        int in_flags, out_flags;            /* of stdio, as we found them */
        int in_fd, out_fd;                  /* the same socket, or stdin and stdout */
        struct watch *in_watch, *out_watch; /* out_watch is NULL when it is the same descriptor */
        char peer[64];                      /* address, for errors and logs */

        unsigned blocks;     /* enum conn_block_reason */
        struct buf in;       /* bytes read and not yet consumed */
        bool is_dispatching; /* `message` is in use */
        struct buf message;  /* message (or line) being assembled */
        struct ws_decoder ws;
        struct line_decoder lines;
        bool peer_closed; /* their close frame, or end of input, has come */
        bool is_shut;     /* we have sent our last byte; what still comes is discarded */
        struct outq out;
        struct deferred resume; /* goes on with input after a block went away */
        struct deferred reap;

        struct list assembly_link; /* server::assembly_waiting or assembly_holding */
        uint64_t assembly_bytes;   /* share held */
        uint64_t assembly_wanted;  /* share waited for */
        uint64_t assembly_since;   /* server::assembly_window when it began */
        uint64_t assembly_seen;    /* bytes of it that came since the last look */

        struct timer *timer; /* ping and dead peer; after a close frame: its deadline */
        uint64_t reads;      /* times that something came */
        uint64_t pinged_ms;  /* when the last ping was sent */
        uint64_t asked_ms;   /* when the first ping was sent that nothing has answered; 0: none */
        bool is_backed_up;   /* the kernel's buffer did not take all */

        /* protocol state */
        bool is_initialized;              /* `initialize` was answered */
        bool wants_started, wants_failed; /* notifications that a client must ask for */
        bool is_ready;                    /* `initialized` came */
        struct session *session;          /* borrowed; NULL before initialize and after detach */
        struct list parked;               /* parked::conn_link */
        size_t parked_count;
        uint64_t parked_bytes;
        struct list http_calls; /* http_call::conn_link */
        size_t http_count;
        struct jobs jobs;       /* server/job.h */
        struct map open_files;  /* server/open_file.h */
        unsigned files_opening; /* fs/open on their way */

        struct watches *watches; /* server/watches.h; NULL: watches nothing */
};

/* Takes the descriptors. `pending`: bytes that came behind the upgrade request. */
struct conn *conn_new_ws(struct server *s, int fd, const char *peer, struct slice pending);
struct conn *conn_new_stdio(struct server *s, int in_fd, int out_fd);

/* Sends what `first` holds (the answer to the upgrade) before anything else; `first` is empty afterwards. */
void conn_send_first(struct conn *c, struct outq *first);

/* Close with a code: the session is detached at once, the close frame sent, the peer given time to answer. */
void conn_close(struct conn *c, int code);
/* Ends now. */
void conn_drop(struct conn *c);
bool conn_is_usable(const struct conn *c);

/* Asks whether the peer lives; `reads` moves when it does. */
void conn_ping(struct conn *c);

/* A message under construction; `hint` is about its size. Nothing else may be sent before conn_*_end. When the answer
 * is larger than the peer reads it is replaced by an error. */
void conn_reply_begin(struct conn *c, const struct rpc_id *id, size_t hint, struct jsonw *ret);
void conn_reply_end(struct conn *c, const struct rpc_id *id, struct jsonw *w);
void conn_fail(struct conn *c, const struct rpc_id *id, const struct err *err, const char *extra_data);
void conn_notify_begin(struct conn *c, const char *method, size_t hint, struct jsonw *ret);
void conn_notify_end(struct conn *c, struct jsonw *w);

/* An answer that was made elsewhere (OUTQ_ROOM in front), whole or a piece of a stream (outq_stream_begin comes before).
 * Taken over. */
void conn_send(struct conn *c, const struct rpc_id *id, struct buf *answer);
void conn_send_piece(struct conn *c, struct buf *piece, bool is_last);
#define CONN_ANSWER_TOO_LARGE \
        "the answer is larger than the %zu bytes that this client reads; read files in blocks with fs/open"

/* A reason not to read has come or gone; input goes on at the end of the turn. */
void conn_block(struct conn *c, enum conn_block_reason reason);
void conn_unblock(struct conn *c, enum conn_block_reason reason);

/* Called by the server at the end of the turn. */
void conn_flush(struct conn *c);
/* Its processes' output may be read: the queue is below its mark. */
bool conn_wants_output(const struct conn *c);
