/* http: HTTP requests that the server makes for this client, with the answer as events.
 *
 * The body of an answer comes in numbered pieces, which are told as they come. Pieces that overtake the answer are kept, up to
 * HTTP_EARLY_MAX bytes. The protocol has no way to cancel a request: the pieces of a request that the program has freed are
 * dropped. A request is never made twice: when the connection is lost, a request under way fails.
 */
#include "client/client.h"

#include "base/base64.h"
#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>
#include <inttypes.h>

#define HTTP_EARLY_MAX ((size_t)1024 * 1024)
#define ID_PREFIX "farhand-http-"

struct farhand_http {
        struct list link; /* farhand::http_requests */
        struct farhand *client;
        char id[sizeof(ID_PREFIX) + 20];
        struct farhand_http_events events;
        void *arg;
        bool is_answered;
        bool is_ended; /* the last piece has come */
        bool is_over;  /* no event follows */
        bool is_freed; /* the program has freed the request; its memory is freed at the end of the step */
        uint64_t next_seq;
        struct buf early;             /* pieces that have overtaken the answer */
        struct farhand_error failure; /* why the body is not whole; its code is 0 when it is */
};

static void release(struct farhand_http *h)
{
        h->is_freed = h->is_over = true;
        if (h->client->depth > 0)
                return;
        list_remove(&h->link);
        buf_release(&h->early);
        free(h);
}

void farhand_http_free(struct farhand_http *h)
{
        if (!h || h->is_freed)
                return;
        calls_forget(h->client, NULL, h);
        release(h);
}

void client_http_requests_sweep(struct farhand *f)
{
        struct farhand_http *h;
        list_each (h, &f->http_requests, link)
                if (h->is_freed)
                        release(h);
}

void client_http_requests_release(struct farhand *f)
{
        while (!list_is_empty(&f->http_requests))
                release(list_first(&f->http_requests, struct farhand_http, link));
}

/* ---- events ---- */

static void fail(struct farhand_http *h, const struct farhand_error *error)
{
        if (h->is_over)
                return;
        h->is_over = true;
        if (h->events.on_failed)
                h->events.on_failed(h, h->arg, error);
}

static void fail_with(struct farhand_http *h, int code, const char *text)
{
        struct farhand_error error;
        error_set(&error, code, "%s", text);
        fail(h, &error);
}

void client_http_requests_fail(struct farhand *f, int code, const char *why)
{
        struct farhand_http *h;
        list_each (h, &f->http_requests, link)
                if (h->is_answered) /* for a request without an answer the call itself fails */
                        fail_with(h, code, why);
}

static void tell_body(struct farhand_http *h, struct slice bytes)
{
        if (!h->is_over && bytes.n > 0 && h->events.on_body)
                h->events.on_body(h, h->arg, bytes.p, bytes.n);
}

static void tell_end(struct farhand_http *h)
{
        if (h->is_over || !h->is_ended || !h->is_answered)
                return;
        if (h->failure.code < 0) {
                fail(h, &h->failure);
                return;
        }
        h->is_over = true;
        if (h->events.on_done)
                h->events.on_done(h, h->arg);
}

/* ---- what the server sends ---- */

/* Reads the headers of the answer. Headers that hold a NUL are left out, because C strings cannot hold one. */
static size_t read_headers(struct arena *a, const struct rpc_message *m, struct farhand_http_header **ret)
{
        const struct json *list = json_get(&m->doc, m->result, S("headers"));
        size_t count = 0;
        *ret = NULL;
        if (!list || list->type != JSON_ARRAY)
                return 0;
        *ret = arena_alloc(a, (json_count(&m->doc, list) + 1) * sizeof(**ret));
        json_each (it, &m->doc, list) {
                struct farhand_http_header header = { .name = member_text(a, &m->doc, it, S("name")),
                                                      .value = member_text(a, &m->doc, it, S("value")) };
                if (header.name && header.value)
                        (*ret)[count++] = header;
        }
        return count;
}

static void on_answer(UNUSED struct farhand *f, void *arg, const struct rpc_message *m,
                      const struct farhand_error *error)
{
        struct farhand_http *h = arg;
        _arena_ struct arena a = ARENA_INIT;
        struct farhand_http_header *headers;
        uint64_t status;
        if (error) {
                fail(h, error);
                return;
        }
        if (h->is_over)
                return;
        if (!member_u64(&m->doc, m->result, S("status"), &status) || status < 100 || status > 999) {
                fail_with(h, -EPROTO, "the server's answer has no HTTP status");
                return;
        }
        size_t count = read_headers(&a, m, &headers);
        h->is_answered = true;
        if (h->events.on_response)
                h->events.on_response(h, h->arg, (int)status, headers, count);
        tell_body(h, buf_slice(&h->early));
        buf_release(&h->early);
        tell_end(h);
}

/* Takes the next piece of the body. Returns 0, or -errno when the piece is not base64 or there is no room for it. */
static int take_piece(struct farhand_http *h, struct slice text)
{
        _free_ char *bytes = malloc(base64_decoded_max(text.n) + 1); /* the server chose the size */
        if (!bytes)
                return -ENOMEM;
        ssize_t n = base64_decode(bytes, text.p, text.n, NULL);
        if (n < 0)
                return -EPROTO;
        if (!h->is_answered)
                return buf_append(&h->early, slice_from(bytes, (size_t)n));
        tell_body(h, slice_from(bytes, (size_t)n));
        return 0;
}

static void on_piece(struct farhand_http *h, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        uint64_t seq;
        struct slice text = member_string(&a, &m->doc, m->params, S("deltaBase64"));
        if (h->is_over || h->is_ended)
                return;
        if (!text.p || !member_u64(&m->doc, m->params, S("seq"), &seq)) {
                fail_with(h, -EPROTO, "the server sent a piece of an HTTP body that cannot be read");
                return;
        }
        if (seq != h->next_seq) {
                fail_with(h, -EPROTO, "the server sent the pieces of an HTTP body out of order");
                return;
        }
        h->next_seq++;
        int r = take_piece(h, text);
        if (r < 0) {
                fail_with(h, r,
                          r == -EPROTO ? "the server sent a piece of an HTTP body that cannot be read"
                                       : "there is no room for the HTTP body that the server sent");
                return;
        }
        struct slice why = member_string(&a, &m->doc, m->params, S("error"));
        if (why.p)
                error_set(&h->failure, -EREMOTEIO, "%.*s", (int)MIN(why.n, sizeof(h->failure.text)), why.p);
        h->is_ended = why.p || member_is_true(&m->doc, m->params, S("done"));
        tell_end(h);
}

bool client_http_on_body(struct farhand *f, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice id = member_string(&a, &m->doc, m->params, S("requestId"));
        struct farhand_http *h;
        if (!id.p || !slice_starts(id, S(ID_PREFIX)))
                return false; /* the program has made this request itself, with farhand_call */
        list_each (h, &f->http_requests, link) {
                if (!h->is_freed && slice_eq(slice_from_str(h->id), id)) {
                        on_piece(h, m);
                        break;
                }
        }
        return true;
}

/* ---- requests ---- */

static void write_headers(struct jsonw *w, const struct farhand_http_request *request)
{
        jsonw_key(w, "headers");
        jsonw_array(w);
        for (size_t i = 0; i < request->header_count; i++) {
                const struct farhand_http_header *header = &request->headers[i];
                jsonw_object(w);
                jsonw_member_str(w, "name", header->name);
                jsonw_member_str(w, "value", header->value ? header->value : "");
                if (header->value_env)
                        jsonw_member_str(w, "valueEnvVar", header->value_env);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
}

static void write_request(struct jsonw *w, const struct farhand_http *h,
                          const struct farhand_http_request *request)
{
        jsonw_object(w);
        jsonw_member_str(w, "method", request->method ? request->method : "GET");
        jsonw_member_str(w, "url", request->url);
        write_headers(w, request);
        if (request->body_bytes > 0) {
                jsonw_key(w, "bodyBase64");
                jsonw_base64(w, slice_from(request->body, request->body_bytes));
        }
        if (request->timeout_ms > 0)
                jsonw_member_u64(w, "timeoutMs", request->timeout_ms);
        if (request->stop_at_redirect)
                jsonw_member_str(w, "redirectPolicy", "stop");
        jsonw_member_str(w, "requestId", h->id);
        jsonw_member_bool(w, "streamResponse", true);
        jsonw_object_end(w);
}

static int check(const struct farhand *f, const struct farhand_http_request *request,
                 struct farhand_error *ret_error)
{
        if (!request->url)
                return error_set(ret_error, -EINVAL, "an HTTP request needs a URL");
        if (request->body_bytes > WHOLE_FILE_MAX)
                return error_set(ret_error, -EFBIG, "the body is longer than %zu bytes", WHOLE_FILE_MAX);
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        for (size_t i = 0; i < request->header_count; i++) {
                if (!request->headers[i].name)
                        return error_set(ret_error, -EINVAL, "a header needs a name");
                /* A server without this capability would make the request without the value of the variable. */
                if (request->headers[i].value_env && !farhand_has_capability(f, "httpHeaderEnvVars"))
                        return error_set(ret_error, -EOPNOTSUPP,
                                         "this server cannot put variables into headers");
        }
        return 0;
}

struct farhand_http *farhand_http_start(struct farhand *f, const struct farhand_http_request *given,
                                        const struct farhand_http_events *events, void *arg,
                                        struct farhand_error *ret_error)
{
        struct farhand_http_request request = { 0 };
        struct jsonw w;
        memcpy(&request, given, MIN(given->size, sizeof(request)));
        if (check(f, &request, ret_error) < 0)
                return NULL;
        struct call *call = call_begin(f, "http/request", &w, ret_error);
        if (!call)
                return NULL;
        struct farhand_http *h = mem_new(struct farhand_http);
        h->client = f;
        h->events = events ? *events : (struct farhand_http_events){ 0 };
        h->arg = arg;
        h->next_seq = 1;
        h->early = BUF_INIT(HTTP_EARLY_MAX);
        (void)snprintf(h->id, sizeof(h->id), ID_PREFIX "%" PRIu64, f->next_http++);
        list_append(&f->http_requests, &h->link);
        write_request(&w, h, &request);
        if (call_end(f, call, &w, 0, on_answer, h, ret_error) == 0)
                return h;
        release(h);
        return NULL;
}
