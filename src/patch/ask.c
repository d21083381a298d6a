/* ask: sends requests without waiting, and hands out the answers. */
#include "patch/ask.h"

#include "base/base64.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/uri.h"

#include <errno.h>

#define PARAMS_MAX ((size_t)128 * 1024 * 1024)
#define QUEUED_MAX ((size_t)4 * 1024 * 1024) /* no further request is made while more waits to be sent */
#define UNDER_WAY_MAX 512                    /* fewer than the library allows */

#define RPC_UNKNOWN_METHOD (-32601)

/* A request under way. */
struct ask {
        struct asks *asks;
        ask_take take;
        void *arg;
};

void asks_begin(struct asks *s, struct farhand *client, const struct patch_near *near, const char *sandbox,
                struct arena *arena)
{
        *s = (struct asks){ .client = client,
                            .near = near,
                            .sandbox = sandbox,
                            .arena = arena,
                            .params = BUF_INIT(PARAMS_MAX) };
}

bool asks_has(const struct asks *s, const char *capability)
{
        return s->near || farhand_has_capability(s->client, capability);
}

bool asks_are_lost(const struct asks *s)
{
        return !s->near && farhand_get_state(s->client) == FARHAND_FAILED;
}

void asks_release(struct asks *s)
{
        must(s->waiting == 0);
        buf_release(&s->params);
}

/* ---- failures ---- */

static const char *member_text(struct arena *a, const struct json_doc *doc, const struct json *object,
                               struct slice key)
{
        const struct json *v = json_get(doc, object, key);
        return v && v->type == JSON_STRING ? arena_dup(a, json_string(a, doc, v)) : NULL;
}

/* Returns the denial that error.data tells of; NULL when there is none. */
static const struct denial *denial_from(struct arena *a, const char *data)
{
        _buf_ struct buf text = BUF_INIT(sizeof(((struct farhand_error *)0)->data));
        struct json_doc doc;
        struct json_error bad;
        if (!strstr(data, "\"denied\"") || buf_append(&text, slice_from_str(data)) < 0 ||
            json_parse(a, buf_slice(&text), &doc, &bad) < 0)
                return NULL;
        return denial_read(a, &doc, json_get(&doc, json_root(&doc), S("denied")));
}

const struct denial *denial_read(struct arena *a, const struct json_doc *doc, const struct json *denied)
{
        if (!denied || denied->type != JSON_OBJECT)
                return NULL;
        struct denial *d = arena_new(a, struct denial);
        const char *path = member_text(a, doc, denied, S("path"));
        struct slice native;
        d->operation = member_text(a, doc, denied, S("operation"));
        d->rule = member_text(a, doc, denied, S("rule"));
        d->entry = member_text(a, doc, denied, S("entry"));
        d->path = path;
        if (path && uri_to_path(a, slice_from_str(path), &native, NULL) == URI_OK)
                d->path = native.p;
        return d->operation && d->rule && d->path ? d : NULL;
}

const struct failure *failure_from(struct arena *a, const struct farhand_error *error)
{
        struct failure *f = arena_new(a, struct failure);
        f->os_errno = farhand_error_errno(error);
        f->is_conflict = error->rpc_code == FARHAND_CONFLICT;
        f->is_unknown = error->rpc_code == RPC_UNKNOWN_METHOD;
        f->is_lost = error->rpc_code == 0;
        f->text = printable_str(a, error->text);
        f->denial = denial_from(a, error->data);
        return f;
}

/* ---- requests ---- */

static void on_answer(UNUSED struct farhand *f, void *arg, const char *result,
                      const struct farhand_error *error)
{
        _free_ struct ask *ask = arg;
        struct asks *s = ask->asks;
        _arena_ struct arena scratch = ARENA_INIT;
        struct answer answer = { .asks = s, .scratch = &scratch };
        struct json_doc doc;
        struct json_error bad;
        _buf_ struct buf text = BUF_INIT(PARAMS_MAX); /* the parser needs the padding of a buf */
        s->waiting--;
        if (error) {
                answer.failure = failure_from(s->arena, error);
        } else if (buf_append(&text, slice_from_str(result)) < 0 ||
                   json_parse(&scratch, buf_slice(&text), &doc, &bad) < 0) {
                struct farhand_error broken = { .code = -EPROTO,
                                                .text = "the server's answer makes no sense" };
                answer.failure = failure_from(s->arena, &broken);
        } else {
                answer.doc = &doc;
                answer.root = json_root(&doc);
        }
        ask->take(ask->arg, &answer);
}

struct jsonw *ask_begin(struct asks *s)
{
        buf_truncate(&s->params, 0);
        jsonw_begin(&s->w, &s->params);
        jsonw_object(&s->w);
        return &s->w;
}

void ask_path(struct asks *s, const char *key, const char *path)
{
        _buf_ struct buf uri = BUF_INIT(PATH_TEXT_MAX);
        _free_ char *json = s->near ? NULL : farhand_path_json(s->client, path);
        jsonw_key(&s->w, key);
        if (json)
                jsonw_raw(&s->w, slice_from_str(json));
        else
                jsonw_string(&s->w, uri_from_path(&uri, slice_from_str(path)) == 0 ? buf_slice(&uri) : S(""));
}

struct jsonw *ask_about(struct asks *s, const char *path)
{
        struct jsonw *w = ask_begin(s);
        ask_path(s, "path", path);
        return w;
}

void ask_send(struct asks *s, const char *method, bool is_question, ask_take take, void *arg)
{
        struct farhand_error error = { .code = -EMSGSIZE, .text = "the request is too long" };
        struct ask *ask = mem_new(struct ask);
        *ask = (struct ask){ .asks = s, .take = take, .arg = arg };
        if (s->sandbox) {
                jsonw_key(&s->w, "sandbox");
                jsonw_raw(&s->w, slice_from_str(s->sandbox));
        }
        jsonw_object_end(&s->w);
        s->waiting++;
        if (jsonw_end(&s->w) < 0) {
                on_answer(s->client, ask, NULL, &error);
                return;
        }
        if (s->near) {
                _buf_ struct buf result = BUF_INIT(PARAMS_MAX);
                int r = s->near->call(s->near->arg, method, &s->params, &result, &error);
                on_answer(s->client, ask, r < 0 ? NULL : result.p, r < 0 ? &error : NULL);
                return;
        }
        while ((s->waiting > UNDER_WAY_MAX || farhand_queued_bytes(s->client) > QUEUED_MAX) &&
               farhand_wait(s->client, -1, NULL) == 0)
                ;
        if (farhand_call(s->client, method, s->params.p, is_question ? FARHAND_REPEAT : 0, on_answer, ask,
                         &error) < 0)
                on_answer(s->client, ask, NULL, &error);
}

void asks_wait(struct asks *s)
{
        /* A client that fails answers everything that waits. */
        while (s->waiting > 0 && !s->near && farhand_wait(s->client, -1, NULL) == 0)
                ;
        must(s->waiting == 0);
}

/* ---- answers ---- */

static const struct json *member(const struct answer *answer, const struct json *object, const char *key)
{
        return object ? json_get(answer->doc, object, slice_from_str(key)) : NULL;
}

bool answered_flag(const struct answer *answer, const struct json *object, const char *key)
{
        const struct json *v = member(answer, object, key);
        return v && v->type == JSON_TRUE;
}

uint64_t answered_number(const struct answer *answer, const struct json *object, const char *key)
{
        uint64_t n = 0;
        const struct json *v = member(answer, object, key);
        return v && json_u64(answer->doc, v, &n) == 0 ? n : 0;
}

int64_t answered_time(const struct answer *answer, const struct json *object, const char *key)
{
        int64_t n = 0;
        const struct json *v = member(answer, object, key);
        return v && json_i64(answer->doc, v, &n) == 0 ? n : 0;
}

struct slice answered_text(const struct answer *answer, const struct json *object, const char *key)
{
        const struct json *v = member(answer, object, key);
        return v && v->type == JSON_STRING ? json_string(answer->scratch, answer->doc, v)
                                           : (struct slice){ 0 };
}

int answered_bytes(const struct answer *answer, const struct json *object, const char *key, uint64_t max,
                   struct slice *ret)
{
        struct slice text = answered_text(answer, object, key);
        if (!text.p)
                return -EPROTO;
        if (text.n / 4 * 3 >
            max + 2) /* the base64 text is too long for `max` bytes, even if its end is padding */
                return -EFBIG;
        char *bytes = arena_alloc(answer->asks->arena, base64_decoded_max(text.n) + 1);
        ssize_t n = base64_decode(bytes, text.p, text.n, NULL);
        if (n < 0 || (uint64_t)n > max)
                return n < 0 ? -EPROTO : -EFBIG;
        *ret = slice_from(bytes, (size_t)n);
        return 0;
}

const char *answered_link(const struct answer *answer)
{
        struct slice text = answered_text(answer, answer->root, "target");
        if (!text.p && answered_bytes(answer, answer->root, "targetBase64", PATH_TEXT_MAX, &text) < 0)
                return NULL;
        return text.n > 0 && text.n <= PATH_TEXT_MAX && !slice_has_nul(text)
                       ? arena_dup(answer->asks->arena, text)
                       : NULL;
}

const char *answered_path(const struct answer *answer, const struct json *object, const char *key)
{
        struct slice text = answered_text(answer, object, key), path;
        if (!text.p || text.n > PATH_TEXT_MAX ||
            uri_to_path(answer->asks->arena, text, &path, NULL) != URI_OK)
                return NULL;
        return path.p;
}
