/* session: params of initialize (PROTOCOL.md 3.1, EXTENSIONS.md). */
#pragma once

#include "proto/decode.h"

struct initialize {
        struct slice client_name;
        struct slice resume_session_id; /* p == NULL: a new session */
        bool takeover;
        bool has_max_message_bytes, has_detach_ms;
        uint64_t max_message_bytes;
        uint64_t detach_ms;
        bool wants_started, wants_failed; /* notifications */
};
NODISCARD int initialize_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                void *ret, struct err *err);
