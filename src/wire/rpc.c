/* rpc: classifies JSON-RPC messages, and writes the envelopes of answers and notifications.
 *
 * Members are looked up by name, extra ones are ignored. The texts of refusal are those that clients of the reference server
 * see (docs/PROTOCOL.md); where two things are wrong the id is named first.
 */
#include "wire/rpc.h"

#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>

#define SHOWN_STRING_BYTES 60 /* how much of a value an error text shows */
#define WIDE_DIGITS_MAX 38    /* every integer of so many digits fits 128 bits */

struct rpc_id rpc_id_dup(const struct rpc_id *id)
{
        struct rpc_id copy = *id;

        if (id->is_string)
                copy.string.p = slice_dup(id->string);
        return copy;
}

void rpc_id_release(struct rpc_id *id)
{
        if (id->is_string)
                free((char *)(uintptr_t)id->string.p);
        *id = RPC_ID_NONE;
}

/* Reading messages */

PRINTF_LIKE(2, 3) static int fail(struct json_error *error, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(error->text, sizeof(error->text), fmt, ap);
        va_end(ap);
        return -EINVAL;
}

/* Sets an error such as "invalid type: number, expected a string". */
static int fail_type(struct json_error *error, const struct json_doc *d, const struct json *v,
                     const char *expected)
{
        struct slice raw = json_raw(d, v);

        if (v->type == JSON_TRUE || v->type == JSON_FALSE)
                return fail(error, "invalid type: boolean `%.*s`, expected %s", SLICE(raw), expected);
        if (v->type == JSON_STRING && raw.n <= SHOWN_STRING_BYTES)
                return fail(error, "invalid type: string \"%.*s\", expected %s", SLICE(raw), expected);
        return fail(error, "invalid type: %s, expected %s", json_type_name(v), expected);
}

static int read_id(struct arena *a, const struct json_doc *d, const struct json *v, struct rpc_id *ret,
                   struct json_error *error)
{
        if (!v)
                return fail(error, "missing field `id`");
        if (v->type == JSON_STRING) {
                struct slice string = json_string(a, d, v);
                if (string.n > LIMIT_ID_BYTES)
                        return fail(error, "id is longer than %d bytes", LIMIT_ID_BYTES);
                *ret = (struct rpc_id){ .is_string = true, .string = string };
                return 0;
        }

        int64_t number;
        int r = json_i64(d, v, &number);
        if (r == 0) {
                *ret = (struct rpc_id){ .number = number };
                return 0;
        }

        /* The reference server has one text for integers that fit u64 but not i64, and another for larger ones. */
        uint64_t wide;
        struct slice raw = json_raw(d, v);
        bool is_negative = v->type == JSON_NUMBER && raw.p[0] == '-';
        if (r == -ERANGE && (is_negative || json_u64(d, v, &wide) == -ERANGE) &&
            raw.n - is_negative <= WIDE_DIGITS_MAX)
                return fail(error, "invalid type: integer `%.*s` as %s, expected any value", SLICE(raw),
                            is_negative ? "i128" : "u128");
        return fail(error, "data did not match any variant of untagged enum RequestId");
}

static int check_error(const struct json_doc *d, const struct json *v, struct json_error *error)
{
        if (v->type == JSON_ARRAY)
                return fail(error, "invalid type: sequence, expected struct JSONRPCErrorError");
        if (v->type != JSON_OBJECT)
                return fail_type(error, d, v, "struct JSONRPCErrorError");

        const struct json *code = json_get(d, v, S("code")), *message = json_get(d, v, S("message"));
        int64_t number;
        if (code && code->type != JSON_NUMBER)
                return fail_type(error, d, code, "i64");
        if (code && json_i64(d, code, &number) < 0)
                return fail(error, "invalid number");
        if (message && message->type != JSON_STRING)
                return fail_type(error, d, message, "a string");
        if (!code || !message)
                return fail(error, "missing field `%s`", code ? "message" : "code");
        return 0;
}

static int classify(struct arena *a, struct rpc_message *m, struct json_error *error)
{
        const struct json_doc *d = &m->doc;
        const struct json *root = json_root(d);
        int r;

        if (root->type != JSON_OBJECT)
                return fail(error, "expected a JSON-RPC object");

        const struct json *id = json_get(d, root, S("id")), *method = json_get(d, root, S("method"));
        if (method) {
                m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
                if (id && (r = read_id(a, d, id, &m->id, error)) < 0)
                        return r;
                if (method->type != JSON_STRING)
                        return fail_type(error, d, method, "a string");
                m->method = json_string(a, d, method);
                m->params = json_get(d, root, S("params"));
                return 0;
        }

        m->result = json_get(d, root, S("result"));
        if (m->result) {
                m->kind = RPC_RESPONSE;
                return read_id(a, d, id, &m->id, error);
        }

        m->kind = RPC_ERROR;
        m->error = json_get(d, root, S("error"));
        if (id && (r = read_id(a, d, id, &m->id, error)) < 0)
                return r;
        if (!m->error)
                return fail(error, "missing field `error`");
        if ((r = check_error(d, m->error, error)) < 0)
                return r;
        return id ? 0 : fail(error, "missing field `id`");
}

int rpc_parse(struct arena *a, struct slice text, struct rpc_message *ret, struct json_error *ret_error)
{
        struct rpc_message m = { .id = RPC_ID_NONE };
        int r = json_parse(a, text, &m.doc, ret_error);

        if (r < 0)
                return r;
        if ((r = classify(a, &m, ret_error)) < 0)
                return r;
        *ret = m;
        return 0;
}

/* Writing messages */

static void write_id(struct jsonw *w, const struct rpc_id *id)
{
        if (id->is_string)
                jsonw_member_string(w, "id", id->string);
        else
                jsonw_member_i64(w, "id", id->number);
}

void rpc_result_begin(struct jsonw *w, struct buf *out, const struct rpc_id *id)
{
        jsonw_begin(w, out);
        jsonw_object(w);
        write_id(w, id);
        jsonw_key(w, "result");
}

int rpc_result_end(struct jsonw *w)
{
        jsonw_object_end(w);
        return jsonw_end(w);
}

void rpc_notification_begin(struct jsonw *w, struct buf *out, const char *method)
{
        jsonw_begin(w, out);
        jsonw_object(w);
        jsonw_member_str(w, "method", method);
        jsonw_key(w, "params");
}

int rpc_notification_end(struct jsonw *w)
{
        jsonw_object_end(w);
        return jsonw_end(w);
}

void rpc_request_begin(struct jsonw *w, struct buf *out, const struct rpc_id *id, const char *method)
{
        jsonw_begin(w, out);
        jsonw_object(w);
        write_id(w, id);
        jsonw_member_str(w, "method", method);
        jsonw_key(w, "params");
}

int rpc_request_end(struct jsonw *w)
{
        return rpc_notification_end(w);
}

static void write_error_data(struct jsonw *w, const struct err *err, const char *extra_data)
{
        bool has_extra = extra_data && extra_data[0] != '\0';

        if (!err->step && err->os_errno == 0 && !err->reason && !err->remedy && !err->limit && !has_extra)
                return;
        jsonw_key(w, "data");
        jsonw_object(w);
        if (err->step)
                jsonw_member_str(w, "step", err->step);
        if (err->os_errno != 0) {
                jsonw_member_i64(w, "errno", err->os_errno);
                jsonw_member_str(w, "errnoName", errno_name(err->os_errno));
        }
        if (err->reason)
                jsonw_member_str(w, "reason", err->reason);
        if (err->remedy)
                jsonw_member_str(w, "remedy", err->remedy);
        if (err->limit) {
                jsonw_member_str(w, "limit", err->limit);
                jsonw_member_u64(w, "value", err->limit_value);
        }
        if (has_extra)
                jsonw_raw(w, slice_from_str(extra_data));
        jsonw_object_end(w);
}

static void write_error(struct jsonw *w, const struct err *err, const char *extra_data)
{
        jsonw_key(w, "error");
        jsonw_object(w);
        jsonw_member_i64(w, "code", err->client_code != 0 ? err->client_code : RPC_INTERNAL);
        jsonw_member_str(w, "message", err->text);
        write_error_data(w, err, extra_data);
        jsonw_object_end(w);
}

int rpc_error_instead_write(struct buf *out, const struct err *err, const char *extra_data)
{
        struct jsonw w;

        jsonw_begin(&w, out);
        w.needs_comma = true; /* `out` ends with the result that was begun */
        jsonw_member_null(&w, "result");
        write_error(&w, err, extra_data);
        jsonw_object_end(&w);
        return jsonw_end(&w);
}

int rpc_error_write(struct buf *out, const struct rpc_id *id, const struct err *err, const char *extra_data)
{
        struct jsonw w;

        jsonw_begin(&w, out);
        jsonw_object(&w);
        write_error(&w, err, extra_data);
        write_id(&w, id);
        jsonw_object_end(&w);
        return jsonw_end(&w);
}
