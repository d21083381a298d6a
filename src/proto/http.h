/* http: params of http/request (docs/PROTOCOL.md). Plain data; slices live as long as the request.
 *
 * Params are checked in two steps, as in the reference server: the types of the members before the handshake is checked, and their
 * meaning after that. Errors in both steps are -32602.
 */
#pragma once

#include "proto/decode.h"
#include "wire/weburl.h"

struct http_param_header {
        struct slice name, value;
        struct slice env_var; /* a variable whose value is put behind `value`; p == NULL: none */
};

struct http_request_params {
        struct slice method, url;
        struct http_param_header *headers;
        size_t header_count;
        struct slice body; /* p == NULL: none */
        bool has_timeout;
        uint64_t timeout_ms;
        bool stops_at_redirect; /* false: redirects are followed */
        struct slice request_id;
        bool streams; /* the body of the response is sent as notifications */
};
NODISCARD params_decode http_request_decode;

/* The request to send: method and URL checked, names in lower case, variables resolved, the user of the URL as a header. */
struct http_outgoing {
        struct slice method, url;
        struct http_header *headers;
        size_t header_count;
        struct slice private_names; /* names of the headers that hold a variable, separated by commas */
};

/* Checks the params and makes the request to send. `environment` is the server's environ. Some variables are always refused: they
 * hold credentials of the machine, which no client may send to a server of its choice. Returns 0, or -EINVAL with err filled. */
NODISCARD int http_outgoing_build(struct arena *a, const struct http_request_params *in,
                                  const char *const *environment, struct http_outgoing *ret, struct err *err);
