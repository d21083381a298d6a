/* session: params of initialize (docs/PROTOCOL.md). */
#pragma once

#include "proto/decode.h"

struct initialize {
        struct slice client_name;
        struct slice resume_session_id; /* p == NULL: a new session */
        bool takes_over;
        bool has_max_message_bytes, has_detach_ms;
        uint64_t max_message_bytes;
        uint64_t detach_ms;
        bool wants_started, wants_failed; /* the client wants these notifications */
};
NODISCARD params_decode initialize_decode;
