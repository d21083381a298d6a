/* job: a request whose work may block, such as every file request.
 *
 * Its work runs on the pool with plain data; its answer is made there, and sent by the loop. The jobs of a connection
 * keep the order of DESIGN: they behave as if done one after another. Those that read run side by side; one that changes
 * something waits for all before it and holds all behind it. Jobs with the same key (a file handle) keep their order too
 * when one of them is exclusive. A process/start behind a change waits for it as well, and so do later requests on the
 * same process.
 *
 * An answer that is too large to be held in memory is sent in pieces, each made on the pool when there is room for it.
 *
 * A job ends with its connection; work that has begun is finished, and nobody is told.
 */
#pragma once

#include "base/arena.h"
#include "loop/pool.h"
#include "server/filer_msg.h"
#include "server/parked.h"
#include "wire/rpc.h"

struct req;

struct job;

struct job_class {
        bool is_change;
        bool has_large_answer; /* often: it gets a spare buffer to write into */
        /* On the loop, before it is queued. May refuse, or set key, is_exclusive and is_change. NULL: nothing to do. */
        int (*prepare)(struct job *job, struct err *err);
        /* On the loop, when its turn has come. May refuse. NULL: nothing to do. */
        int (*begin)(struct job *job, struct err *err);
        /* On a thread: writes the value of `result`; a negative return value is answered with err. 1: there is more; what
         * was written is a piece of the answer, and it is called again for the next, with a fresh writer. */
        int (*run)(struct job *job, struct jsonw *w, struct err *err);
        /* On the loop, after the last run and before the answer is sent, when the connection is still there. */
        void (*settle)(struct job *job);
        /* On the loop, in place of an answer: the request goes on as another kind of work. It is a process/start then: later
         * requests on its process (the key) wait until here. May refuse. */
        int (*go_on)(struct job *job, struct req *req, struct err *err);
        /* On the loop, last of all: frees what `own` holds. NULL: nothing to do. */
        void (*release)(struct job *job);
        /* When its params begin with a sandbox (FS_PARAMS_HEAD): how they are sent to a filer, where `run` is called then
         * (server/filers.h). */
        const struct filer_params *boxed;
        bool opens_boxed; /* they begin with one, too, but only the opening of its file is done there: filers_open */
};

#define JOB_BOXED(type, n, ...) (&(const struct filer_params){ sizeof(struct type), n, { __VA_ARGS__ } })

struct job {
        struct parked parked;
        struct conn *conn;       /* NULL when it has gone */
        struct list link;        /* jobs::all */
        struct list stream_link; /* jobs::streams */
        struct work work;
        const struct job_class *class; /* NULL: a message that was held back */
        struct server *server;
        bool is_change;
        bool is_exclusive; /* among those with the same key */
        struct slice key;  /* p == NULL: none */
        bool has_begun;
        bool is_in_pool; /* a thread has it */

        struct arena arena; /* what follows lives in it */
        struct buf text;    /* the message, when it was too large to be copied */
        struct slice held;  /* the message that was held back */
        bool is_start;      /* it is a process/start that was held back */
        void *params;
        const struct sandbox_context *box; /* of the request; NULL: it runs plainly */
        struct rpc_id id;
        size_t max_message; /* what the client reads */

        bool is_stream, has_more; /* the answer comes in pieces; this was not the last */
        struct buf answer;
        struct err *err;        /* NULL: it worked */
        const char *error_data; /* members for error.data, or NULL */
        void *own;              /* of the class */
};

void jobs_init(struct jobs *jobs);

/* Takes the arena and the text of the request: params point into nothing else. */
NODISCARD int job_submit(struct req *req, const struct job_class *class, void *params, struct err *err);

/* Must this request (a process method) wait behind file requests? Then it is kept, and dispatched when its turn comes. */
NODISCARD bool job_must_hold(struct conn *c, struct slice method, struct slice process_id);
NODISCARD int job_hold(struct req *req, struct slice text, struct slice method, struct slice process_id,
                       struct err *err);

/* process/terminate waits for nothing: a start that was held back never happens. False when there is none. */
bool job_cancel_start(struct conn *c, struct slice process_id);

/* There is room in the outgoing queue: the next piece, if there is one; and the next jobs, because a client that does not
 * read its answers gets no more of them. */
void jobs_on_room(struct conn *c);

/* A failure as the client sees it: PROTOCOL.md 9.2. */
void job_error_code(struct err *err);
