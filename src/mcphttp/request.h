/* request: finds out whether the transport of the Model Context Protocol allows an HTTP request, and what the request asks for. Pure.
 *
 * A web page must not reach the listener, by its own name or by one that its owner has pointed at this machine (DNS rebinding). So
 * the host that a request names is an address, `localhost`, or a name that the operator allows; and an Origin, which only browsers send, is
 * that same host.
 */
#pragma once

#include "wire/http.h"

#define MCP_SESSION_ID_MAX 128

struct request_rules {
        const char *path;         /* "/mcp" */
        const char *const *hosts; /* names that are allowed */
        size_t host_count;
        /* Returns whether there is a version of the protocol of that name. */
        bool (*knows_version)(struct slice name);
};

enum request_kind { REQUEST_POST, REQUEST_GET, REQUEST_DELETE };

/* Slices point into the head of the request. */
struct mcp_request {
        enum request_kind kind;
        struct slice session;    /* p == NULL: the request names no session */
        struct slice last_event; /* the header Last-Event-ID; p == NULL: there is none */
};

struct refusal_answer {
        int status;
        const char *text;  /* a literal */
        const char *extra; /* more headers, or NULL */
};

/* Returns whether the request is meant for this listener: checks the path, the host and the origin. To be called before the token is
 * checked. */
NODISCARD bool mcp_request_is_for_us(const struct http_request *r, const struct request_rules *rules,
                                     struct refusal_answer *ret_refusal);
/* Returns false with the answer when the request is not allowed. */
NODISCARD bool mcp_request_read(const struct http_request *r, const struct request_rules *rules,
                                struct mcp_request *ret, struct refusal_answer *ret_refusal);

/* Reads the id of an event: STREAM-NUMBER. */
NODISCARD bool event_id_read(struct slice text, uint64_t *ret_stream, uint64_t *ret_number);
