/* rpc: reads and writes the JSON-RPC envelope: id, method, params, result, error.
 *
 * JSON-RPC 2.0 shapes without "jsonrpc" (docs/PROTOCOL.md). Reading classifies a message; writing puts the
 * envelope around what the caller writes. Knows no method.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "wire/json.h"
#include "wire/jsonw.h"

/* The error codes that clients see; err::client_code holds one of them. */
enum rpc_code {
        RPC_INVALID_REQUEST = -32600,
        RPC_METHOD_NOT_FOUND = -32601,
        RPC_INVALID_PARAMS = -32602,
        RPC_INTERNAL = -32603,
        RPC_NOT_FOUND = -32004,
        RPC_SESSION_ATTACHED = -32010,
        RPC_CONFLICT = -32020,
        RPC_LIMIT = -32021,
        RPC_DRAINING = -32022,
};

/* An id: a signed 64-bit integer or a string, echoed with its type. After reading, `string` points into the message or its
 * arena; rpc_id_dup makes a copy that outlives them. */
struct rpc_id {
        bool is_string;
        int64_t number;
        struct slice string;
};

#define RPC_ID_NONE ((struct rpc_id){ .number = -1 }) /* for answers to messages without a usable id */

NODISCARD struct rpc_id rpc_id_dup(const struct rpc_id *id); /* free with rpc_id_release */
void rpc_id_release(struct rpc_id *id);

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE, RPC_ERROR };

struct rpc_message {
        enum rpc_kind kind;
        struct rpc_id id;          /* of every kind but notifications */
        struct slice method;       /* of requests and notifications */
        const struct json *params; /* of requests and notifications; NULL when absent */
        const struct json *result; /* RPC_RESPONSE */
        /* RPC_ERROR: the error object, checked to have an integer code and a string message. */
        const struct json *error;
        struct json_doc doc;
};

/* Parses a message. Returns 0, or -EINVAL with the DETAIL of the malformed-message error in *ret_error: the texts that clients
 * know. `text` must have BUF_PADDING readable bytes behind it. Everything lives in the arena and in `text`. */
NODISCARD int rpc_parse(struct arena *a, struct slice text, struct rpc_message *ret,
                        struct json_error *ret_error);

/* Write {"id":ID,"result":VALUE}. Between the two calls the caller writes the value. */
void rpc_result_begin(struct jsonw *w, struct buf *out, const struct rpc_id *id);
NODISCARD int rpc_result_end(struct jsonw *w);

/* Write {"method":M,"params":VALUE}. Between the two calls the caller writes the value. */
void rpc_notification_begin(struct jsonw *w, struct buf *out, const char *method);
NODISCARD int rpc_notification_end(struct jsonw *w);

/* Write {"id":ID,"method":M,"params":VALUE}. Between the two calls the caller writes the value. */
void rpc_request_begin(struct jsonw *w, struct buf *out, const struct rpc_id *id, const char *method);
NODISCARD int rpc_request_end(struct jsonw *w);

/* Writes {"error":{"code":C,"message":M},"id":ID}, with "data" {step, errno, errnoName, reason, remedy} when err has any of
 * them. `extra_data` (may be NULL) is put into data as well: the members of a JSON object without the braces. */
NODISCARD int rpc_error_write(struct buf *out, const struct rpc_id *id, const struct err *err,
                              const char *extra_data);

/* Ends an answer whose result was begun and partly sent, but cannot be finished: appends `,"result":null,"error":{…}}` to a result
 * that the caller has closed. A client that keeps the last of two equal members sees no result; one that refuses such an object
 * sees an error too. */
NODISCARD int rpc_error_instead_write(struct buf *out, const struct err *err, const char *extra_data);

/* The text of the error that is sent instead of an answer that is too long for the client. */
#define RPC_ANSWER_TOO_LARGE \
        "the answer is larger than the %zu bytes that this client reads; read files in blocks with fs/open"
