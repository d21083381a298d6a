/* tool_result: the result of a call of a tool as MCP has it. Pure. */
#pragma once

#include "mcp/reply.h"
#include "unified/unified.h"

/* Appends the answer to the request `id`. An error of the tool is a result too: the model reads it. */
void tool_result_write(struct buf *out, const struct rpc_id *id, bool has_structured,
                       const struct unified_result *result);
