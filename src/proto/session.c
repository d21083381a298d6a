/* session: params of initialize. The meaning (resume, takeover, times) is the server's business. */
#include "proto/session.h"

#include <errno.h>

int initialize_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                      struct err *err)
{
        struct initialize *in = ret;
        struct slice *notifications;
        size_t notification_count;
        struct decoder d;

        decode_begin(&d, a, doc, params, "InitializeParams", err);
        decode_string(&d, "clientName", &in->client_name);
        decode_optional_string_or_null(&d, "resumeSessionId", &in->resume_session_id);
        decode_own_members(&d);
        if (decode_peek(&d, "takeover"))
                decode_bool(&d, "takeover", &in->takeover);
        decode_optional_u64_or_null(&d, "maxMessageBytes", &in->has_max_message_bytes,
                                    &in->max_message_bytes);
        decode_optional_u64_or_null(&d, "detachMs", &in->has_detach_ms, &in->detach_ms);
        /* Names that nobody sends yet: checked now, so that a client notices its mistake with the first server. */
        decode_optional_strings(&d, "notifications", &notifications, &notification_count);
        return decode_end(&d);
}
