/* reply: the messages that `farhand mcp` sends, without the end of a line: JSON-RPC 2.0 around what the caller writes. Pure.
 *
 * Between a begin and its end the caller writes one value: the result, or the params. The buffer has MCP_MESSAGE_MAX as its ceiling, which
 * is enough for all that this program says.
 */
#pragma once

#include "wire/rpc.h"

/* The longest message: two texts of an answer, all of whose characters are escaped. */
#define MCP_MESSAGE_MAX ((size_t)160 * 1024 * 1024)

void reply_result_begin(struct jsonw *w, struct buf *out, const struct rpc_id *id);
void reply_request_begin(struct jsonw *w, struct buf *out, uint64_t id, const char *method);
void reply_notification_begin(struct jsonw *w, struct buf *out, const char *method);
void reply_end(struct jsonw *w);
/* `id` NULL: the message had none that could be read. */
/* `data` is JSON. */
void reply_error_data(struct buf *out, const struct rpc_id *id, int code, struct slice message,
                      struct slice data);
void reply_error(struct buf *out, const struct rpc_id *id, int code, struct slice message);
