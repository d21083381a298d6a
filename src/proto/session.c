/* session: decodes the params of initialize. The server handles resume, takeover and times. */
#include "proto/session.h"

#include <errno.h>

int initialize_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                      struct err *err)
{
        struct initialize *in = ret;
        struct slice *names = NULL;
        size_t count = 0;
        struct decoder d;

        decode_begin(&d, a, doc, params, "InitializeParams", err);
        decode_string(&d, "clientName", &in->client_name);
        decode_optional_string_or_null(&d, "resumeSessionId", &in->resume_session_id);
        decode_own_members(&d);
        if (decode_peek(&d, "takeover"))
                decode_bool(&d, "takeover", &in->takes_over);
        decode_optional_u64_or_null(&d, "maxMessageBytes", &in->has_max_message_bytes,
                                    &in->max_message_bytes);
        decode_optional_u64_or_null(&d, "detachMs", &in->has_detach_ms, &in->detach_ms);
        decode_optional_strings(&d, "notifications", &names, &count);
        for (size_t i = 0; !d.has_failed && i < count; i++) { /* unknown names are ignored */
                in->wants_started = in->wants_started || slice_eq(names[i], S("started"));
                in->wants_failed = in->wants_failed || slice_eq(names[i], S("failed"));
        }
        return decode_end(&d);
}
