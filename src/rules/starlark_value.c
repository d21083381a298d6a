/* starlark_value: how values and their types are shown in errors. */
#include "base/buf.h"
#include "base/printable.h"
#include "rules/starlark.h"

#define REPR_BYTES 400

const char *starlark_type_name(enum starlark_type type)
{
        static const char *const names[] = {
                [STARLARK_NONE] = "NoneType", [STARLARK_BOOL] = "bool", [STARLARK_INT] = "int",
                [STARLARK_STRING] = "string", [STARLARK_LIST] = "list", [STARLARK_TUPLE] = "tuple",
        };
        return names[type];
}

static int write_string(struct buf *out, struct slice text)
{
        int r = buf_append_char(out, '"');

        for (size_t i = 0; i < text.n && r == 0; i++) {
                char c = text.p[i];
                if (c == '"' || c == '\\')
                        r = buf_append_char(out, '\\');
                if (r == 0 && (c == '\n' || c == '\t' || c == '\r'))
                        r = buf_append(out, c == '\n' ? S("\\n") : c == '\t' ? S("\\t") : S("\\r"));
                else if (r == 0)
                        r = buf_append_char(out, c);
        }
        return r < 0 ? r : buf_append_char(out, '"');
}

/* Writes a value. Each byte that is written makes progress, so the ceiling of the buffer bounds the work, however often a list is an
 * item of others. */
static int write_value(struct buf *out, const struct starlark_value *v)
{
        bool is_list = v->type == STARLARK_LIST;

        if (v->type == STARLARK_STRING)
                return write_string(out, v->text);
        if (v->type == STARLARK_NONE)
                return buf_append(out, S("None"));
        if (!is_list && v->type != STARLARK_TUPLE)
                return buf_append(out, v->text);
        int r = buf_append_char(out, is_list ? '[' : '(');
        for (size_t i = 0; i < v->count && r == 0; i++) {
                if (i > 0)
                        r = buf_append(out, S(", "));
                if (r == 0)
                        r = write_value(out, v->items[i]);
        }
        if (r == 0 && !is_list && v->count == 1)
                r = buf_append_char(out, ',');
        return r < 0 ? r : buf_append_char(out, is_list ? ']' : ')');
}

const char *starlark_repr(struct arena *a, const struct starlark_value *value)
{
        _buf_ struct buf out = BUF_INIT(REPR_BYTES);
        bool is_whole = write_value(&out, value) == 0;
        const char *text = printable_text(a, buf_slice(&out));

        return is_whole ? text : arena_printf(a, "%s…", text);
}
