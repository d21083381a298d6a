/* fuzz_rpc: hostile messages. A message that is accepted can be written again, and is then parsed to the same message. */
#include "base/buf.h"
#include "base/mem.h"
#include "wire/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct slice padded(struct arena *a, struct slice text)
{
        char *p = arena_alloc(a, text.n + BUF_PADDING);

        if (text.n > 0)
                memcpy(p, text.p, text.n);
        memset(p + text.n, '"', BUF_PADDING);
        return slice_from(p, text.n);
}

static void write_value(struct jsonw *w, const struct json_doc *d, const struct json *v)
{
        if (v->type != JSON_STRING)
                return jsonw_raw(w, json_raw(d, v));
        /* The token of a string leaves out its quotes. */
        jsonw_raw(w, slice_from(d->text + v->off - 1, (size_t)v->len + 2));
}

static void write_message(struct jsonw *w, const struct rpc_message *m)
{
        const struct json *value = m->kind == RPC_RESPONSE ? m->result
                                   : m->kind == RPC_ERROR  ? m->error
                                                           : m->params;
        const char *name = m->kind == RPC_RESPONSE ? "result" : m->kind == RPC_ERROR ? "error" : "params";

        jsonw_object(w);
        if (m->kind != RPC_NOTIFICATION && m->id.is_string)
                jsonw_member_string(w, "id", m->id.string);
        else if (m->kind != RPC_NOTIFICATION)
                jsonw_member_i64(w, "id", m->id.number);
        if (m->kind == RPC_REQUEST || m->kind == RPC_NOTIFICATION)
                jsonw_member_string(w, "method", m->method);
        if (value) {
                jsonw_key(w, name);
                write_value(w, &m->doc, value);
        }
        jsonw_object_end(w);
}

static bool is_same_value(const struct rpc_message *m, const struct json *v, const struct rpc_message *n,
                          const struct json *u)
{
        return !v == !u &&
               (!v || (v->type == u->type && slice_eq(json_raw(&m->doc, v), json_raw(&n->doc, u))));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        _free_ char *text = mem_alloc(
                size +
                BUF_PADDING); /* a copy of the exact size, so that the sanitizer reports a read beyond it */
        struct rpc_message m, again;
        struct json_error error = { "" };
        struct jsonw w;

        if (size > 0)
                memcpy(text, data, size);
        memset(text + size, '}', BUF_PADDING);
        if (rpc_parse(&a, slice_from(text, size), &m, &error) < 0) {
                must(error.text[0] != '\0' && strlen(error.text) < sizeof(error.text));
                return 0;
        }

        _buf_ struct buf out = BUF_INIT(size * 6 + 200);
        jsonw_begin(&w, &out);
        write_message(&w, &m);
        must(jsonw_end(&w) == 0);

        must(rpc_parse(&a, padded(&a, buf_slice(&out)), &again, &error) == 0);
        must(again.kind == m.kind && again.id.is_string == m.id.is_string && again.id.number == m.id.number);
        must(slice_eq(again.id.string, m.id.string) && slice_eq(again.method, m.method));
        must(is_same_value(&m, m.params, &again, again.params));
        must(is_same_value(&m, m.result, &again, again.result));
        must(is_same_value(&m, m.error, &again, again.error));
        return 0;
}
