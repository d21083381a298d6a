/* upgrade: writes the HTTP request that begins a WebSocket, and checks the answer (RFC 6455, 4.1). Makes no system call but for
 * random bytes. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "transport/endpoint.h"

#include <sys/types.h>

#define UPGRADE_KEY_BYTES 25 /* the key and its NUL */

void upgrade_key(char ret[UPGRADE_KEY_BYTES]); /* makes a fresh Sec-WebSocket-Key */
NODISCARD int upgrade_request(struct buf *out, const struct endpoint *endpoint, const char *key,
                              const char *token);

/* Checks the bytes that have arrived. Returns the length of the head when the server has agreed; 0 when more bytes are needed;
 * -errno with *err filled when the server refuses: -EACCES for 401 and 403, -EPROTO otherwise. With `at_end` no more bytes will
 * come. */
NODISCARD ssize_t upgrade_answer(struct slice in, bool at_end, const char *key, struct err *err);
