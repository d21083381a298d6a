/* ws_request: checks the headers of an upgrade. */
#include "wire/ws_request.h"

#include "base/base64.h"

static bool is_good_key(struct slice key)
{
        char bytes[18];
        return key.n == 24 && base64_decode(bytes, key.p, key.n, NULL) == 16;
}

const char *ws_request_check(const struct http_request *r)
{
        struct slice key = http_header_find(r, S("sec-websocket-key"));
        if (!http_header_has_token(r, S("connection"), S("upgrade")))
                return "Connection header did not include 'upgrade'";
        if (!http_header_has_token(r, S("upgrade"), S("websocket")))
                return "`Upgrade` header did not include 'websocket'";
        if (!slice_eq(http_header_find(r, S("sec-websocket-version")), S("13")))
                return "`Sec-WebSocket-Version` header did not include '13'";
        if (!key.p)
                return "`Sec-WebSocket-Key` header missing";
        if (!is_good_key(key) || http_header_count(r, S("sec-websocket-key")) > 1)
                return "`Sec-WebSocket-Key` header is not 16 bytes in base64";
        if (r->minor_version < 1)
                return "HTTP/1.1 is needed to upgrade";
        if (r->content_length > 0 || r->is_chunked)
                return "an upgrade has no body";
        return NULL;
}
