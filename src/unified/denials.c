/* denials: asks a server whether its sandbox has denied something to a process, and what, so that more permissions can be asked for. */
#include "unified/table_internal.h"

#include "base/mem.h"
#include "wire/json.h"
#include "wire/jsonw.h"

#define RESULT_MAX ((size_t)4 * 1024 * 1024)
#define AFTER_ALL \
        9007199254740991 /* above the sequence number of every event, so that the answer has no output */

/* Returns whether the denials are an array of objects, as they should be. */
static bool is_good(const struct json_doc *d, const struct json *denials)
{
        if (!denials || denials->type != JSON_ARRAY)
                return false;
        json_each (item, d, denials)
                if (item->type != JSON_OBJECT)
                        return false;
        return true;
}

/* Copies valid JSON without the white space between its tokens: a line end from the server must not end a line of our output. */
static char *copy_compact(struct slice json)
{
        char *copy = mem_zalloc(json.n + 1);
        size_t n = 0;
        bool is_in_string = false;
        for (size_t i = 0; i < json.n; i++) {
                char c = json.p[i];
                if (!is_in_string && (c == ' ' || c == '\t' || c == '\n' || c == '\r'))
                        continue;
                copy[n++] = c;
                if (is_in_string && c == '\\')
                        copy[n++] = json.p[++i];
                else if (c == '"')
                        is_in_string = !is_in_string;
        }
        return copy;
}

/* Takes from the answer what was denied, as JSON in one line; and whether anything was denied, when the exit did not tell. */
static void read_answer(struct exec_session *s, const char *result)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(RESULT_MAX);
        struct json_doc doc;
        struct json_error bad;
        if (buf_append(&text, slice_from_str(result)) < 0 || json_parse(&a, buf_slice(&text), &doc, &bad) < 0)
                return;
        const struct json *denied = json_get(&doc, json_root(&doc), S("sandboxDenied")),
                          *denials = json_get(&doc, json_root(&doc), S("denials"));
        if (!s->exit.is_denial_told && denied)
                s->exit.sandbox_denied = denied->type == JSON_TRUE;
        if (s->exit.sandbox_denied && is_good(&doc, denials))
                s->denials = copy_compact(json_raw(&doc, denials));
}

static void on_answer(UNUSED struct farhand *f, void *arg, const char *result,
                      UNUSED const struct farhand_error *error)
{
        struct exec_session *s = arg;
        s->is_queried = false;
        if (result)
                read_answer(s, result);
}

bool exec_session_ask_denials(struct exec_session *s)
{
        _buf_ struct buf params = BUF_INIT(1024);
        struct jsonw w;
        bool wants_what =
                s->exit.sandbox_denied && farhand_has_capability(s->host->client, "sandboxReportV1");
        bool wants_whether = s->is_sandboxed && !s->exit.is_denial_told;
        if (!s->process || s->is_queried || (!wants_what && !wants_whether))
                return false;
        jsonw_begin(&w, &params);
        jsonw_object(&w);
        jsonw_member_str(&w, "processId", farhand_process_id(s->process));
        jsonw_member_u64(&w, "afterSeq", AFTER_ALL);
        jsonw_member_u64(&w, "waitMs", 0);
        jsonw_object_end(&w);
        s->is_queried = jsonw_end(&w) == 0 && farhand_call(s->host->client, "process/read", params.p,
                                                           FARHAND_REPEAT, on_answer, s, NULL) == 0;
        return s->is_queried;
}
