/* req: one request while its handler works on it, and the answers and checks that handlers share. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "core/client.h"
#include "proto/method.h"
#include "wire/rpc.h"

struct req {
        const struct method *method;
        struct server *server;
        struct client *client;
        const struct rpc_id *id;
        struct arena *arena; /* released when the handler returns, unless a job takes it */
        bool is_unordered;   /* a file request that waits for no other and holds none back */
        bool may_keep; /* the message is large: the handler may take the arena with the params instead of copying them */
        struct buf text; /* for jobs: the message, when it was too large to be copied into the arena */
};

/* Handlers answer with conn_reply_begin and conn_reply_end. These two send the most frequent answers: {} and {"status": …}. */
void req_reply_empty(struct client *c, const struct rpc_id *id);
void req_reply_status(struct client *c, const struct rpc_id *id, const char *status);

/* Checks what must have happened before a request of this client may be handled. Returns 0, or negative with `err`. */
NODISCARD int req_admit(const struct method *m, const struct client *c, struct err *err);
/* Checks that the operator allows requests to look beyond their own session. Returns 0, or negative with `err`. */
NODISCARD int req_check_server_scope(const struct req *req, struct err *err);

/* Sets the error for a limit of the server that is reached (-32021), and returns its code. */
int req_limit(struct err *err, const char *what, uint64_t value);
