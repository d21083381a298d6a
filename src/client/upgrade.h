/* upgrade: the HTTP request that begins a WebSocket, and the check of the answer (RFC 6455, 4.1). Pure. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "client/endpoint.h"

#include <sys/types.h>

#define UPGRADE_KEY_BYTES 25 /* with its NUL */

void upgrade_key(char ret[UPGRADE_KEY_BYTES]); /* a fresh Sec-WebSocket-Key */
NODISCARD int upgrade_request(struct buf *out, const struct endpoint *endpoint, const char *key,
                              const char *token);

/* Looks at what has arrived. Returns the length of the head when the server has agreed; 0 when more is needed; -errno with *err filled
 * when it has not: -EACCES for 401 and 403, -EPROTO otherwise. `at_end`: nothing more will come. */
NODISCARD ssize_t upgrade_answer(struct slice in, bool at_end, const char *key, struct err *err);
