/* relay: what the listener and the process of a session say to each other: one message of MCP in a line, with a route in front of it. Pure.
 *
 *     to the process       17 {"jsonrpc":"2.0","id":1,…}    what came on the route 17
 *     from the process     17+{…}                           belongs to that route; more follows there
 *                          17.{…}                           its last message; without a text there is nothing to say
 *                          17!{…}                           its last message, too: what came on the route was no message
 *                          0+{…}                            belongs to nothing that came
 *
 * So the listener looks into no message: the process of the session knows which answer, question and progress belongs to which request.
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

/* The variable that tells `farhand mcp` that it is such a process. */
#define RELAY_VARIABLE "FARHAND_MCP_RELAY"
#define RELAY_ROUTE_BYTES 22 /* the most bytes that stand in front of a message */

enum relay_kind { RELAY_TO = ' ', RELAY_MORE = '+', RELAY_LAST = '.', RELAY_REFUSED = '!' };

/* Reads a line. Returns false when the line has not this form. */
NODISCARD bool relay_read(struct slice line, uint64_t *ret_route, enum relay_kind *ret_kind,
                          struct slice *ret_text);
/* Appends a line with its end. JSON has line ends between values only: they become tabs, which mean the same there. */
NODISCARD int relay_write(struct buf *out, uint64_t route, enum relay_kind kind, struct slice text);
