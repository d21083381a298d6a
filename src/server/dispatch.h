/* dispatch: passes a message of a client to the handler of its method.
 *
 * The admission checks have a fixed order: the method is known, its params can be decoded, the handshake is done, a session is
 * attached. A handler gets its params as a C struct. It must answer, return an error, or park the request: exactly one of these.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "core/req.h"
#include "proto/method.h"
#include "wire/rpc.h"

/* A parsed message. Everything in it points into the text and into the arena of the parser. */
struct parsed {
        int result; /* result of rpc_parse; negative: only `why` is set */
        struct json_error why;
        struct rpc_message msg;
        const struct method *method; /* method of a request; NULL when it is unknown */
        void *params;                /* decoded params of a request with a known method */
        bool is_unordered;           /* req::is_unordered */
        int decoded;                 /* result of decoding the params; negative: `err` is the answer */
        struct err err;
};

/* Handles one whole message. `text` has BUF_PADDING readable bytes behind it. */
void dispatch_message(struct client *c, struct slice text);
/* Handles a message that dispatch_parse has parsed from `text` into the arena `a`. May take the contents of `text` and `a`; the
 * caller frees what is left. */
void dispatch_parsed(struct client *c, struct arena *a, struct buf *text, const struct parsed *parsed);

/* Parses and decodes a message. Has no side effects; any thread may call it. */
NODISCARD struct parsed *dispatch_parse(struct arena *a, struct slice text);
