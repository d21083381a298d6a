/* tool_result: writes the results of tools. */
#include "mcp/tool_result.h"

#include "unified/answer_json.h"

static void write_image(struct jsonw *w, const struct unified_result *result)
{
        jsonw_key(w, "content");
        jsonw_array(w);
        jsonw_object(w);
        jsonw_member_str(w, "type", "image");
        jsonw_key(w, "data");
        jsonw_base64(w, result->image);
        jsonw_member_str(w, "mimeType", result->image_type);
        jsonw_object_end(w);
        jsonw_array_end(w);
}

static void write_text(struct jsonw *w, struct slice text)
{
        jsonw_key(w, "content");
        jsonw_array(w);
        jsonw_object(w);
        jsonw_member_str(w, "type", "text");
        jsonw_member_string(w, "text", text);
        jsonw_object_end(w);
        jsonw_array_end(w);
}

static void write_structured(struct jsonw *w, const struct unified_result *result)
{
        if (result->structured.n > 0) {
                jsonw_raw(w, result->structured);
                return;
        }
        jsonw_object(w);
        answer_json_members(w, result);
        jsonw_object_end(w);
}

void tool_result_write(struct buf *out, const struct rpc_id *id, bool has_structured,
                       const struct unified_result *result)
{
        struct jsonw w;
        reply_result_begin(&w, out, id);
        jsonw_object(&w);
        if (!result->error && result->image_type)
                write_image(&w, result);
        else
                write_text(&w, result->error ? slice_from_str(result->error) : result->text);
        if (!result->error && has_structured) {
                jsonw_key(&w, "structuredContent");
                write_structured(&w, result);
        }
        jsonw_member_bool(&w, "isError", result->error != NULL);
        jsonw_object_end(&w);
        reply_end(&w);
}
