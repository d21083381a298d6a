/* reply: writes the messages of `farhand mcp`. */
#include "mcp/reply.h"

#include "base/fatal.h"

static void begin(struct jsonw *w, struct buf *out)
{
        jsonw_begin(w, out);
        jsonw_object(w);
        jsonw_member_str(w, "jsonrpc", "2.0");
}

static void write_id(struct jsonw *w, const struct rpc_id *id)
{
        jsonw_key(w, "id");
        if (!id)
                jsonw_null(w);
        else if (id->is_string)
                jsonw_string(w, id->string);
        else
                jsonw_i64(w, id->number);
}

void reply_result_begin(struct jsonw *w, struct buf *out, const struct rpc_id *id)
{
        begin(w, out);
        write_id(w, id);
        jsonw_key(w, "result");
}

void reply_request_begin(struct jsonw *w, struct buf *out, uint64_t id, const char *method)
{
        begin(w, out);
        jsonw_member_u64(w, "id", id);
        jsonw_member_str(w, "method", method);
        jsonw_key(w, "params");
}

void reply_notification_begin(struct jsonw *w, struct buf *out, const char *method)
{
        begin(w, out);
        jsonw_member_str(w, "method", method);
        jsonw_key(w, "params");
}

void reply_end(struct jsonw *w)
{
        jsonw_object_end(w);
        must(jsonw_end(w) == 0);
}

void reply_error_data(struct buf *out, const struct rpc_id *id, int code, struct slice message,
                      struct slice data)
{
        struct jsonw w;
        begin(&w, out);
        write_id(&w, id);
        jsonw_key(&w, "error");
        jsonw_object(&w);
        jsonw_member_i64(&w, "code", code);
        jsonw_member_string(&w, "message", message);
        if (data.n > 0) {
                jsonw_key(&w, "data");
                jsonw_raw(&w, data);
        }
        jsonw_object_end(&w);
        reply_end(&w);
}

void reply_error(struct buf *out, const struct rpc_id *id, int code, struct slice message)
{
        reply_error_data(out, id, code, message, S(""));
}
