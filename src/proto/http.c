/* http: decodes and checks the params of http/request, with the error texts that clients know. */
#include "proto/http.h"

#include "base/base64.h"
#include "base/limits.h"
#include "policy/env.h"
#include "wire/http.h"

#include <errno.h>

/* --- the types of members ----------------------------------------------------------------------------------------- */

static void decode_headers(struct decoder *d, struct http_request_params *out)
{
        const struct json *list = decode_optional_array(d, "headers");
        if (!list || d->has_failed)
                return;
        /* `max` counts the tokens below the array, which are more than its items. */
        size_t max = (size_t)(d->doc->tokens + list->end - (list + 1)), n = 0;
        out->headers = arena_alloc(d->arena, MAX(max, (size_t)1) * sizeof(*out->headers));
        json_each (it, d->doc, list) {
                struct http_param_header *h = &out->headers[n++];
                struct decoder inner;
                *h = (struct http_param_header){ 0 };
                decode_begin_inside(&inner, d, it, "HttpHeader");
                decode_string(&inner, "name", &h->name);
                decode_string(&inner, "value", &h->value);
                decode_optional_string_or_null(&inner, "valueEnvVar", &h->env_var);
                decode_end_inside(d, &inner);
                if (d->has_failed)
                        return;
        }
        out->header_count = n;
}

int http_request_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                        struct err *err)
{
        static const char *const policies[] = { "follow", "stop" };
        struct http_request_params *out = ret;
        struct decoder d;
        decode_begin(&d, a, doc, params, "HttpRequestParams", err);
        decode_string(&d, "method", &out->method);
        decode_string(&d, "url", &out->url);
        decode_headers(&d, out);
        if (decode_peek(&d, "bodyBase64"))
                decode_base64(&d, "bodyBase64", &out->body);
        decode_optional_u64_or_null(&d, "timeoutMs", &out->has_timeout, &out->timeout_ms);
        if (!d.has_failed && json_get(doc, params, S("redirectPolicy"))) {
                size_t policy = 0;
                decode_variant(&d, "redirectPolicy", policies, ARRAY_LEN(policies), &policy);
                out->stops_at_redirect = policy == 1;
        }
        decode_string(&d, "requestId", &out->request_id);
        decode_optional_bool(&d, "streamResponse", &out->streams);
        if (!d.has_failed && out->request_id.n > LIMIT_HTTP_REQUEST_ID_BYTES)
                decode_fail(&d, "requestId is longer than %d bytes", LIMIT_HTTP_REQUEST_ID_BYTES);
        return decode_end(&d);
}

/* --- the meaning of members --------------------------------------------------------------------------------------- */

static bool is_token(struct slice s)
{
        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i];
                bool is_alnum = (c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
                if (!is_alnum && (c == 0 || !strchr("!#$%&'*+-.^_`|~", c)))
                        return false;
        }
        return s.n > 0;
}

static bool is_field_value(struct slice s)
{
        for (size_t i = 0; i < s.n; i++) {
                unsigned char c = (unsigned char)s.p[i];
                if ((c < ' ' && c != '\t') || c == 0x7f)
                        return false;
        }
        return true;
}

PRINTF_LIKE(2, 3)
static int refuse(struct err *err, const char *fmt, ...)
{
        char text[2048];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        return err_set(err, RPC_INVALID_PARAMS, -EINVAL, "http/request %s", text);
}

static bool is_forbidden_var(struct slice name)
{
        static const struct slice names[] = {
                S("OPENAI_API_KEY"),
                S("CODEX_API_KEY"),
                S("CODEX_ACCESS_TOKEN"),
                S("CODEX_CONNECTORS_TOKEN"),
                S("AWS_ACCESS_KEY_ID"),
                S("AWS_SECRET_ACCESS_KEY"),
                S("AWS_SESSION_TOKEN"),
                S("AZURE_CLIENT_SECRET"),
                S("AZURE_FEDERATED_TOKEN_FILE"),
                S("GOOGLE_APPLICATION_CREDENTIALS"),
        };
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (slice_eq_nocase(name, names[i]))
                        return true;
        return env_is_server_name(name);
}

/* Returns in *ret the value of the header followed by the value of its environment variable. */
static int resolve(struct arena *a, const struct http_param_header *h, const char *const *environment,
                   struct slice *ret, struct err *err)
{
        if (is_forbidden_var(h->env_var))
                return refuse(err, "header %.*s cannot use executor environment variable %.*s",
                              SLICE(h->name), SLICE(h->env_var));
        bool is_name =
                h->env_var.n > 0 && !slice_has_nul(h->env_var) && !memchr(h->env_var.p, '=', h->env_var.n);
        const char *value = is_name ? env_get(environment, arena_dup(a, h->env_var)) : NULL;
        if (!value)
                return refuse(err, "header %.*s requires executor environment variable %.*s", SLICE(h->name),
                              SLICE(h->env_var));
        if (!value[0])
                return refuse(err, "header %.*s requires a non-empty executor environment variable %.*s",
                              SLICE(h->name), SLICE(h->env_var));
        size_t value_bytes = strlen(value);
        char *joined = arena_alloc(a, h->value.n + value_bytes + 1);
        if (h->value.n > 0)
                memcpy(joined, h->value.p, h->value.n);
        memcpy(joined + h->value.n, value, value_bytes);
        *ret = slice_from(joined, h->value.n + value_bytes);
        return 0;
}

static int build_header(struct arena *a, const struct http_param_header *h, const char *const *environment,
                        struct http_header *ret, struct err *err)
{
        if (!is_token(h->name) || h->name.n > UINT16_MAX)
                return refuse(err, "header name is invalid: invalid HTTP header name");
        struct slice value = h->value;
        if (h->env_var.p) {
                int r = resolve(a, h, environment, &value, err);
                if (r < 0)
                        return r;
        }
        if (!is_field_value(value))
                return refuse(err, "header value is invalid for %.*s: failed to parse header value",
                              SLICE(h->name));
        char *lower = arena_dup(a, h->name);
        for (size_t i = 0; i < h->name.n; i++)
                lower[i] = ascii_lower(lower[i]);
        *ret = (struct http_header){ .name = slice_from(lower, h->name.n), .value = value };
        return 0;
}

/* Lists the names of the headers that hold a variable. When such a name occurs twice, both headers are private, because a name does
 * not say which of them holds the secret. */
static struct slice list_private_names(struct arena *a, const struct http_request_params *in,
                                       const struct http_outgoing *out)
{
        size_t bytes = 0, n = 0;
        for (size_t i = 0; i < in->header_count; i++)
                bytes += in->headers[i].env_var.p ? out->headers[i].name.n + 1 : 0;
        char *names = arena_alloc(a, bytes + 1);
        for (size_t i = 0; i < in->header_count; i++) {
                struct slice name = out->headers[i].name;
                if (!in->headers[i].env_var.p)
                        continue;
                memcpy(names + n, name.p, name.n);
                names[n + name.n] = ',';
                n += name.n + 1;
        }
        return slice_from(names, n > 0 ? n - 1 : 0);
}

/* Makes an authorization header from user:password@ in the URL, unless the client sent such a header itself. */
static void add_user(struct arena *a, const struct weburl *url, struct http_outgoing *out)
{
        if (!url->user.p || http_has_header(out->headers, out->header_count, S("authorization")))
                return;
        size_t n = url->user.n + 1 + url->password.n;
        char *plain = arena_alloc(a, n + 1), *value = arena_alloc(a, 6 + base64_encoded_size(n));
        memcpy(plain, url->user.p, url->user.n);
        plain[url->user.n] = ':';
        memcpy(plain + url->user.n + 1, url->password.p, url->password.n);
        memcpy(value, "Basic ", 6);
        size_t length = 6 + base64_encode(value + 6, plain, n);
        out->headers[out->header_count++] =
                (struct http_header){ .name = S("authorization"), .value = slice_from(value, length) };
}

static int check_url(struct arena *a, struct slice text, struct weburl *ret, struct err *err)
{
        struct slice scheme = { 0 };
        enum weburl_result r = weburl_parse(a, text, NULL, ret, &scheme);
        if (r == WEBURL_SCHEME)
                return refuse(err, "only supports http and https URLs, got %.*s", (int)MIN(scheme.n, 100u),
                              scheme.p);
        if (r != WEBURL_OK)
                return refuse(err, "url is invalid: %s", weburl_result_text(r));
        return 0;
}

int http_outgoing_build(struct arena *a, const struct http_request_params *in, const char *const *environment,
                        struct http_outgoing *ret, struct err *err)
{
        if (!is_token(in->method) || in->method.n > LIMIT_HTTP_METHOD_BYTES)
                return refuse(err, "method is invalid: invalid HTTP method");
        struct weburl url;
        int r = check_url(a, in->url, &url, err);
        if (r < 0)
                return r;
        struct http_outgoing out = { .method = in->method, .url = weburl_text(a, &url) };
        size_t bytes = out.method.n + out.url.n;
        out.headers = arena_alloc(a, (in->header_count + 1) * sizeof(*out.headers));
        for (size_t i = 0; i < in->header_count; i++) {
                struct http_header *h = &out.headers[out.header_count++];
                r = build_header(a, &in->headers[i], environment, h, err);
                if (r < 0)
                        return r;
                bytes += h->name.n + h->value.n;
        }
        add_user(a, &url, &out);
        if (out.header_count > LIMIT_HTTP_HEADERS || bytes > LIMIT_HTTP_HEAD_BYTES)
                return refuse(err, "has more than %d headers or %d bytes of them", LIMIT_HTTP_HEADERS,
                              LIMIT_HTTP_HEAD_BYTES);
        out.private_names = list_private_names(a, in, &out);
        *ret = out;
        return 0;
}
