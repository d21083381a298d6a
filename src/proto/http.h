/* http: params of http/request (PROTOCOL.md section 11). Plain data; slices live as long as the request.
 *
 * Two steps, because the reference checks in two: what the members are, before the handshake is looked at, and what
 * they mean, after it. Both answer -32602.
 */
#pragma once

#include "proto/decode.h"
#include "wire/weburl.h"

struct http_param_header {
        struct slice name, value;
        struct slice env_var; /* p == NULL: none; else its value follows `value` */
};

struct http_request_params {
        struct slice method, url;
        struct http_param_header *headers;
        size_t header_count;
        struct slice body; /* p == NULL: none */
        bool has_timeout;
        uint64_t timeout_ms;
        bool stops; /* at a redirect, instead of following it */
        struct slice request_id;
        bool streams;
};
NODISCARD int http_request_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                  void *ret, struct err *err);

/* What is sent: method and URL checked, names in lower case, variables resolved, the user of the URL as a header. */
struct http_outgoing {
        struct slice method, url;
        struct http_header *headers;
        size_t header_count;
        struct slice private_names; /* of the headers that hold a variable; a comma between two */
};

/* `environment` is the server's environ. Some names are refused whatever they hold: credentials of the machine that
 * no client should get a server of its choice to see. */
NODISCARD int http_outgoing_build(struct arena *a, const struct http_request_params *in,
                                  const char *const *environment, struct http_outgoing *ret, struct err *err);
