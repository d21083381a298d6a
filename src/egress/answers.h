/* answers: what a client reads when its request is not passed on, word for word as the reference has it. Pure. */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

struct answers_refusal {
        struct slice host, reason, decision, source, protocol; /* words */
        uint16_t port;
};

/* The refusal of a request with a path (JSON), and of CONNECT (text; the connection stays open). */
NODISCARD int answers_refuse_http(struct buf *out, const struct answers_refusal *refusal);
NODISCARD int answers_refuse_connect(struct buf *out, const struct answers_refusal *refusal);

/* An answer after which the connection is closed. An empty text: no content-type. */
NODISCARD int answers_error(struct buf *out, unsigned status, struct slice text);
/* The answer to a CONNECT that has reached its target. */
NODISCARD int answers_connected(struct buf *out);
