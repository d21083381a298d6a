/* ws_request: is an HTTP request a good upgrade to a WebSocket (RFC 6455, 4.2.1)? Pure. */
#pragma once

#include "wire/http.h"

/* Returns NULL, or what is wrong: the text for an answer with status 400. The method is left to the caller. The texts are those of
 * the reference server. */
NODISCARD const char *ws_request_check(const struct http_request *r);
