/* dispatch: from a message to its handler.
 *
 * One table of methods; all admission checks in one function, in a fixed order: method known, params decoded, handshake
 * done, session attached. Handlers get plain C structs and end with exactly one of: a reply, a returned error, or a
 * parked request.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "server/conn.h"
#include "wire/rpc.h"

struct req {
        struct server *server;
        struct conn *conn;
        const struct rpc_id *id;
        struct arena *arena; /* lives until the handler returns; a job takes it */
        const struct json_doc *doc;
        struct buf text; /* for jobs: the message, when it was too large to be copied into the arena */
};

struct job_class;

typedef int (*method_decode)(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err);

enum method_needs {
        NEEDS_NOTHING = 0,
        NEEDS_READY = 1, /* initialize and initialized, and so a session */
};

struct method {
        const char *name;
        const char *family; /* in lifecycle errors: "exec", "environment info" */
        enum method_needs needs;
        size_t params_size;
        method_decode decode;
        /* 0, or negative with err filled */
        int (*handle)(struct req *req, const void *params, struct err *err);
        const struct job_class *job; /* in place of `handle`: server/job.h */
        bool may_be_job;             /* `handle` may submit it as one: its message is kept, too */
};

/* One whole message. `text` has BUF_PADDING readable bytes behind it. */
void dispatch_message(struct conn *c, struct slice text);

void req_reply_begin(struct req *req, size_t hint, struct jsonw *ret);
void req_reply_end(struct req *req, struct jsonw *w);

/* A limit of the server is reached: -32021. Returns the error's code. */
int dispatch_limit(struct err *err, const char *what, uint64_t value);
