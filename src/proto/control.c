/* control: decodes the params of the process methods that the reference server does not have. */
#include "proto/control.h"

#include "base/limits.h"

static void decode_id(struct decoder *d, struct slice *ret)
{
        decode_string(d, "processId", ret);
        decode_own_members(d);
}

int process_close_stdin_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                               void *ret, struct err *err)
{
        struct process_close_stdin *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "CloseStdinParams", err);
        decode_id(&d, &in->process_id);
        return decode_end(&d);
}

static void decode_size(struct decoder *d, const char *key, uint16_t *ret)
{
        const struct json *v = decode_required(d, key);
        if (v)
                decode_u16_value(d, v, ret);
}

int process_resize_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                          struct err *err)
{
        struct process_resize *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "ResizeParams", err);
        decode_id(&d, &in->process_id);
        decode_size(&d, "rows", &in->rows);
        decode_size(&d, "cols", &in->cols);
        if (!d.has_failed && (in->rows == 0 || in->cols == 0))
                decode_fail(&d, "rows and cols must be positive");
        return decode_end(&d);
}

int process_wait_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                        struct err *err)
{
        static const char *const untils[] = { "closed", "exited" };
        struct process_wait *in = ret;
        struct decoder d;
        bool has_wait_ms = false;
        size_t until = 0;

        decode_begin(&d, a, doc, params, "WaitParams", err);
        decode_id(&d, &in->process_id);
        decode_optional_u64_or_null(&d, "waitMs", &has_wait_ms, &in->wait_ms);
        if (decode_peek(&d, "until"))
                decode_variant(&d, "until", untils, ARRAY_LEN(untils), &until);
        decode_optional_u64_or_null(&d, "drainMs", &in->has_drain_ms, &in->drain_ms);
        in->waits_for_exit = until == 1;
        in->wait_ms = has_wait_ms ? MIN(in->wait_ms, (uint64_t)LIMIT_WAIT_MS) : LIMIT_WAIT_MS;
        in->drain_ms = MIN(in->drain_ms, (uint64_t)LIMIT_WAIT_MS);
        decode_optional_string_or_null(&d, "sessionId", &in->session_id);
        return decode_end(&d);
}

int process_snapshot_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                            struct err *err)
{
        struct process_snapshot *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "SnapshotParams", err);
        decode_id(&d, &in->process_id);
        decode_optional_u64_or_null(&d, "maxBytes", &in->has_max_bytes, &in->max_bytes);
        decode_optional_string_or_null(&d, "sessionId", &in->session_id);
        return decode_end(&d);
}

int process_list_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                        struct err *err)
{
        static const char *const scopes[] = { "session", "server" };
        struct process_list *in = ret;
        struct decoder d;
        size_t scope = 0;

        if (!params || params->type == JSON_NULL)
                return 0;
        decode_begin(&d, a, doc, params, "ListParams", err);
        decode_own_members(&d);
        decode_optional_string_or_null(&d, "processId", &in->process_id);
        if (decode_peek(&d, "scope"))
                decode_variant(&d, "scope", scopes, ARRAY_LEN(scopes), &scope);
        in->is_server_wide = scope == 1;
        decode_optional_string_or_null(&d, "sessionId", &in->session_id);
        if (in->is_server_wide && in->session_id.p)
                decode_fail(&d, "sessionId: must be absent with the scope `server`");
        return decode_end(&d);
}

int session_list_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                        UNUSED void *ret, struct err *err)
{
        struct decoder d;

        if (!params || params->type == JSON_NULL)
                return 0;
        decode_begin(&d, a, doc, params, "SessionListParams", err);
        return decode_end(&d);
}
