/* escalate_socket: writes and reads the messages of a shell's wrapper and of the server that it asks. */
#include "intercept/escalate_socket.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "wire/json.h"
#include "wire/jsonw.h"

#include <errno.h>
#include <signal.h>

#define LENGTH_BYTES 4

bool escalate_is_variable(struct slice name)
{
        static const char *const names[] = ESCALATE_VARIABLES;

        return slice_find(name, names, ARRAY_LEN(names)) < ARRAY_LEN(names);
}

/* ---- Frames */

static int frame_begin(struct jsonw *w, struct buf *out, size_t *ret_at)
{
        *ret_at = out->n;
        int r = buf_append(out, slice_from("\0\0\0", LENGTH_BYTES));
        jsonw_begin(w, out);
        return r;
}

/* Takes everything back when something did not fit. */
static int frame_end(struct jsonw *w, size_t at)
{
        size_t n = w->out->n - at - LENGTH_BYTES;
        if (jsonw_end(w) < 0 || n > UINT32_MAX) {
                buf_truncate(w->out, at);
                return -ENOBUFS;
        }
        for (size_t i = 0; i < LENGTH_BYTES; i++)
                w->out->p[at + i] = (char)(n >> (8 * i) & 0xff);
        return 0;
}

ssize_t escalate_frame(struct slice in, size_t max, struct slice *ret)
{
        uint32_t n = 0;

        if (in.n < LENGTH_BYTES)
                return 0;
        for (size_t i = 0; i < LENGTH_BYTES; i++)
                n |= (uint32_t)(unsigned char)in.p[i] << (8 * i);
        if (n > max)
                return -EBADMSG;
        if (in.n - LENGTH_BYTES < n)
                return 0;
        *ret = slice_from(in.p + LENGTH_BYTES, n);
        return (ssize_t)n + LENGTH_BYTES;
}

/* ---- Writing */

static bool are_utf8(const struct slice *texts, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (!utf8_is_valid(texts[i]))
                        return false;
        return true;
}

static void put_text(struct jsonw *w, const char *key, const char *key64, struct slice text)
{
        jsonw_member_string(w, key, text);
        if (utf8_is_valid(text))
                return;
        jsonw_key(w, key64);
        jsonw_base64(w, text);
}

static void put_list64(struct jsonw *w, const char *key, const struct slice *texts, size_t count)
{
        jsonw_key(w, key);
        jsonw_array(w);
        for (size_t i = 0; i < count; i++)
                jsonw_base64(w, texts[i]);
        jsonw_array_end(w);
}

static struct slice name_of(struct slice variable)
{
        return slice_split(&variable, '=');
}

static bool is_repeated(const struct slice *env, size_t at)
{
        struct slice name = name_of(env[at]);

        for (size_t i = 0; i < at; i++)
                if (slice_eq(name_of(env[i]), name))
                        return true;
        return false;
}

/* An object holds each name once, and the first one counts, as for getenv(3). Returns whether the object says everything. */
static bool put_env_object(struct jsonw *w, const struct slice *env, size_t count)
{
        bool is_whole = are_utf8(env, count);

        jsonw_key(w, "env");
        jsonw_object(w);
        for (size_t i = 0; i < count; i++) {
                struct slice value = env[i], name = slice_split(&value, '=');
                /* Two names that are not UTF-8 may be the same text. */
                if (!value.p || !utf8_is_valid(name) || is_repeated(env, i)) {
                        is_whole = false;
                        continue;
                }
                jsonw_string(w, name);
                if (buf_append_char(w->out, ':') < 0)
                        w->has_overflowed = true;
                w->needs_comma = false;
                jsonw_string(w, value);
        }
        jsonw_object_end(w);
        return is_whole;
}

int escalate_request_write(struct buf *out, const struct escalate_request *request)
{
        struct jsonw w;
        size_t at;

        if (frame_begin(&w, out, &at) < 0)
                return -ENOBUFS;
        jsonw_object(&w);
        put_text(&w, "file", "fileBase64", request->file);
        jsonw_key(&w, "argv");
        jsonw_array(&w);
        for (size_t i = 0; i < request->argc; i++)
                jsonw_string(&w, request->argv[i]);
        jsonw_array_end(&w);
        if (!are_utf8(request->argv, request->argc))
                put_list64(&w, "argvBase64", request->argv, request->argc);
        put_text(&w, "workdir", "workdirBase64", request->workdir);
        if (!put_env_object(&w, request->env, request->env_count))
                put_list64(&w, "envBase64", request->env, request->env_count);
        jsonw_object_end(&w);
        return frame_end(&w, at);
}

int escalate_answer_write(struct buf *out, const struct escalate_answer *answer)
{
        struct jsonw w;
        size_t at;

        if (frame_begin(&w, out, &at) < 0)
                return -ENOBUFS;
        jsonw_object(&w);
        if (answer->action == ESCALATE_DENY) {
                jsonw_key(&w, "action");
                jsonw_object(&w);
                jsonw_key(&w, "Deny");
                jsonw_object(&w);
                if (answer->reason.p)
                        jsonw_member_string(&w, "reason", answer->reason);
                else
                        jsonw_member_null(&w, "reason");
                jsonw_object_end(&w);
                jsonw_object_end(&w);
        } else {
                jsonw_member_str(&w, "action", answer->action == ESCALATE_RUN ? "Run" : "Escalate");
        }
        if (answer->is_ours)
                jsonw_member_u64(&w, "farhand", 1);
        jsonw_object_end(&w);
        return frame_end(&w, at);
}

int escalate_more_write(struct buf *out, const struct escalate_more *more)
{
        struct jsonw w;
        size_t at;

        if (frame_begin(&w, out, &at) < 0)
                return -ENOBUFS;
        jsonw_object(&w);
        if (more->signal > 0) {
                jsonw_member_i64(&w, "signal", more->signal);
        } else {
                jsonw_key(&w, "fds");
                jsonw_array(&w);
                for (size_t i = 0; i < more->fd_count; i++)
                        jsonw_i64(&w, more->fds[i]);
                jsonw_array_end(&w);
                if (more->umask >= 0)
                        jsonw_member_i64(&w, "umask", more->umask);
        }
        jsonw_object_end(&w);
        return frame_end(&w, at);
}

int escalate_result_write(struct buf *out, const struct escalate_result *result)
{
        struct jsonw w;
        size_t at;

        if (frame_begin(&w, out, &at) < 0)
                return -ENOBUFS;
        jsonw_object(&w);
        jsonw_member_i64(&w, "exit_code", result->exit_code);
        if (result->signal > 0)
                jsonw_member_i64(&w, "signal", result->signal);
        jsonw_object_end(&w);
        return frame_end(&w, at);
}

/* ---- Reading */

struct reader {
        struct arena *a;
        struct json_doc doc;
};

static int read_object(struct reader *r, struct arena *a, struct slice text)
{
        struct json_error why;

        r->a = a;
        if (json_parse(a, text, &r->doc, &why) < 0 || json_root(&r->doc)->type != JSON_OBJECT)
                return -EBADMSG;
        return 0;
}

static const struct json *member(const struct reader *r, struct slice key)
{
        return json_get(&r->doc, json_root(&r->doc), key);
}

static int take_string(const struct reader *r, const struct json *v, struct slice *ret)
{
        if (!v || v->type != JSON_STRING)
                return -EBADMSG;
        *ret = json_string(r->a, &r->doc, v);
        return slice_has_nul(*ret) ? -EBADMSG : 0;
}

static int take_base64(const struct reader *r, const struct json *v, struct slice *ret)
{
        struct slice text;

        if (take_string(r, v, &text) < 0)
                return -EBADMSG;
        char *bytes = arena_alloc(r->a, base64_decoded_max(text.n) + 1);
        ssize_t n = base64_decode(bytes, text.p, text.n, NULL);
        if (n < 0)
                return -EBADMSG;
        *ret = slice_from(bytes, (size_t)n);
        return slice_has_nul(*ret) ? -EBADMSG : 0;
}

static int take_text(const struct reader *r, struct slice key, struct slice key64, struct slice *ret)
{
        const struct json *bytes = member(r, key64);

        if (take_string(r, member(r, key), ret) < 0)
                return -EBADMSG;
        return bytes ? take_base64(r, bytes, ret) : 0;
}

static int take_list(const struct reader *r, const struct json *list, bool is_base64,
                     const struct slice **ret, size_t *ret_count)
{
        if (!list || list->type != JSON_ARRAY)
                return -EBADMSG;
        struct slice *texts = arena_alloc(r->a, (json_count(&r->doc, list) + 1) * sizeof(*texts));
        size_t count = 0;
        json_each (it, &r->doc, list)
                if ((is_base64 ? take_base64 : take_string)(r, it, &texts[count++]) < 0)
                        return -EBADMSG;
        *ret = texts;
        *ret_count = count;
        return 0;
}

static int take_env_object(const struct reader *r, struct escalate_request *ret)
{
        const struct json *object = member(r, S("env"));

        if (!object || object->type != JSON_OBJECT)
                return -EBADMSG;
        struct slice *env = arena_alloc(r->a, (json_count(&r->doc, object) + 1) * sizeof(*env));
        size_t count = 0;
        json_each (it, &r->doc, object) {
                struct slice name, value;
                if (take_string(r, it, &name) < 0 || take_string(r, it + 1, &value) < 0)
                        return -EBADMSG;
                char *variable = arena_alloc(r->a, name.n + 1 + value.n);
                memcpy(variable, name.p, name.n);
                variable[name.n] = '=';
                memcpy(variable + name.n + 1, value.p, value.n);
                env[count++] = slice_from(variable, name.n + 1 + value.n);
        }
        ret->env = env;
        ret->env_count = count;
        return 0;
}

int escalate_request_read(struct arena *a, struct slice text, struct escalate_request *ret)
{
        struct reader r;

        if (read_object(&r, a, text) < 0 || take_text(&r, S("file"), S("fileBase64"), &ret->file) < 0 ||
            take_text(&r, S("workdir"), S("workdirBase64"), &ret->workdir) < 0 ||
            take_list(&r, member(&r, S("argv")), false, &ret->argv, &ret->argc) < 0 ||
            take_env_object(&r, ret) < 0 || ret->file.n == 0 || ret->workdir.n == 0 ||
            ret->workdir.p[0] != '/')
                return -EBADMSG;
        const struct json *argv64 = member(&r, S("argvBase64")), *env64 = member(&r, S("envBase64"));
        if (argv64 && take_list(&r, argv64, true, &ret->argv, &ret->argc) < 0)
                return -EBADMSG;
        return env64 ? take_list(&r, env64, true, &ret->env, &ret->env_count) : 0;
}

static int take_denial(const struct reader *r, const struct json *action, struct escalate_answer *ret)
{
        const struct json *denial = json_get(&r->doc, action, S("Deny"));

        if (!denial || denial->type != JSON_OBJECT)
                return -EBADMSG;
        const struct json *reason = json_get(&r->doc, denial, S("reason"));
        ret->action = ESCALATE_DENY;
        ret->reason = slice_from(NULL, 0);
        return !reason || reason->type == JSON_NULL ? 0 : take_string(r, reason, &ret->reason);
}

int escalate_answer_read(struct arena *a, struct slice text, struct escalate_answer *ret)
{
        struct reader r;
        struct slice word;

        if (read_object(&r, a, text) < 0)
                return -EBADMSG;
        const struct json *action = member(&r, S("action"));
        *ret = (struct escalate_answer){ .is_ours = member(&r, S("farhand")) != NULL };
        if (action && action->type == JSON_OBJECT)
                return take_denial(&r, action, ret);
        if (take_string(&r, action, &word) < 0)
                return -EBADMSG;
        if (!slice_eq(word, S("Run")) && !slice_eq(word, S("Escalate")))
                return -EBADMSG;
        ret->action = slice_eq(word, S("Run")) ? ESCALATE_RUN : ESCALATE_ESCALATE;
        return 0;
}

static int take_number(const struct reader *r, const struct json *v, int64_t min, int64_t max, int *ret)
{
        int64_t number;

        if (!v || json_i64(&r->doc, v, &number) < 0 || number < min || number > max)
                return -EBADMSG;
        *ret = (int)number;
        return 0;
}

int escalate_more_read(struct arena *a, struct slice text, struct escalate_more *ret)
{
        struct reader r;

        if (read_object(&r, a, text) < 0)
                return -EBADMSG;
        *ret = (struct escalate_more){ .umask = -1 };
        const struct json *signo = member(&r, S("signal")), *fds = member(&r, S("fds")),
                          *mask = member(&r, S("umask"));
        if (signo)
                return take_number(&r, signo, 1, SIGRTMAX, &ret->signal);
        if (!fds || fds->type != JSON_ARRAY || json_count(&r.doc, fds) > ESCALATE_MORE_FDS)
                return -EBADMSG;
        json_each (it, &r.doc, fds)
                if (take_number(&r, it, 0, INT32_MAX, &ret->fds[ret->fd_count++]) < 0)
                        return -EBADMSG;
        return mask ? take_number(&r, mask, 0, 0777, &ret->umask) : 0;
}

int escalate_result_read(struct arena *a, struct slice text, struct escalate_result *ret)
{
        struct reader r;

        if (read_object(&r, a, text) < 0)
                return -EBADMSG;
        *ret = (struct escalate_result){ 0 };
        const struct json *signo = member(&r, S("signal"));
        if (take_number(&r, member(&r, S("exit_code")), INT32_MIN, INT32_MAX, &ret->exit_code) < 0)
                return -EBADMSG;
        return signo ? take_number(&r, signo, 1, SIGRTMAX, &ret->signal) : 0;
}
