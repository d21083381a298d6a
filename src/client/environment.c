/* environment: asks a server about its machine, and whether the environment is ready. */
#include "client/client.h"

#include "base/mem.h"
#include "base/uri.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

void farhand_environment_free(struct farhand_environment *e)
{
        if (!e)
                return;
        free(e->shell_name);
        free(e->shell_path);
        free(e->cwd);
        free(e->home);
        free(e->temp_dir);
        free(e->os);
        free(e->executor_name);
        free(e->executor_version);
        free(e->sandbox_backend);
        free(e->json);
        free(e);
}

static char *text_of(struct arena *a, const struct json_doc *d, const struct json *object, struct slice key)
{
        return mem_strdup(member_text(a, d, object, key));
}

static char *path_of(struct arena *a, const struct json_doc *d, const struct json *object, struct slice key)
{
        struct slice text = member_string(a, d, object, key), path;
        return text.p && uri_to_path(a, text, &path, NULL) == URI_OK ? slice_dup(path) : NULL;
}

static struct farhand_environment *read_environment(const struct json_doc *d, const struct json *o)
{
        _arena_ struct arena a = ARENA_INIT;
        struct farhand_environment *e = mem_new(struct farhand_environment);
        const struct json *shell = json_get(d, o, S("shell"));
        e->shell_name = text_of(&a, d, shell, S("name"));
        e->shell_path = path_of(&a, d, shell, S("path"));
        e->cwd = path_of(&a, d, o, S("cwd"));
        e->home = path_of(&a, d, o, S("userHomeDir"));
        e->temp_dir = path_of(&a, d, o, S("tempDir"));
        e->os = text_of(&a, d, o, S("platformOs"));
        e->executor_name = text_of(&a, d, o, S("executorName"));
        e->executor_version = text_of(&a, d, o, S("executorVersion"));
        e->sandbox_backend = text_of(&a, d, o, S("sandboxBackend"));
        e->json = slice_dup(json_raw(d, o));
        return e;
}

static void tell_environment(struct farhand *f, const struct call *call, const struct rpc_message *m,
                             const struct farhand_error *error)
{
        farhand_on_environment on_environment = (farhand_on_environment)call->on_typed;
        struct farhand_error bad;
        if (!error && m->result->type != JSON_OBJECT) {
                error_set(&bad, -EPROTO, "the server's answer tells of no environment");
                error = &bad;
        }
        on_environment(f, call->arg, error ? NULL : read_environment(&m->doc, m->result), error);
}

static void tell_status(struct farhand *f, const struct call *call, const struct rpc_message *m,
                        const struct farhand_error *error)
{
        farhand_on_status on_status = (farhand_on_status)call->on_typed;
        _arena_ struct arena a = ARENA_INIT;
        struct farhand_error bad;
        const char *status = error ? NULL : member_text(&a, &m->doc, m->result, S("status"));
        if (!error && !status) {
                error_set(&bad, -EPROTO, "the server's answer has no status");
                error = &bad;
        }
        on_status(f, call->arg, status, error);
}

/* Sends a request without params: both methods of this file have none. */
static int ask(struct farhand *f, const char *method, call_tell tell, any_function on, void *arg,
               struct farhand_error *ret_error)
{
        struct jsonw w;
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        struct call *call = call_begin(f, method, &w, ret_error);
        if (!call)
                return f->state == FARHAND_FAILED ? f->failure.code : -EAGAIN;
        jsonw_null(&w);
        call->tell = tell;
        call->on_typed = on;
        return call_end(f, call, &w, FARHAND_REPEAT, NULL, arg, ret_error);
}

int farhand_environment_info_begin(struct farhand *f, farhand_on_environment on_environment, void *arg,
                                   struct farhand_error *ret_error)
{
        return ask(f, "environment/info", tell_environment, (any_function)on_environment, arg, ret_error);
}

int farhand_environment_status_begin(struct farhand *f, farhand_on_status on_status, void *arg,
                                     struct farhand_error *ret_error)
{
        return ask(f, "environment/status", tell_status, (any_function)on_status, arg, ret_error);
}

/* ---- the same, waiting ---- */

struct wanted {
        bool is_there;
        struct farhand_environment *environment;
        char *status;
        struct farhand_error error;
};

static void take_error(struct wanted *wanted, const struct farhand_error *error)
{
        wanted->is_there = true;
        if (error)
                wanted->error = *error;
}

static void on_environment(UNUSED struct farhand *f, void *arg, struct farhand_environment *e,
                           const struct farhand_error *error)
{
        take_error(arg, error);
        ((struct wanted *)arg)->environment = e;
}

static void on_status(UNUSED struct farhand *f, void *arg, const char *status,
                      const struct farhand_error *error)
{
        take_error(arg, error);
        ((struct wanted *)arg)->status = mem_strdup(status);
}

static int await(struct farhand *f, struct wanted *wanted, any_function on, int r, int timeout_ms,
                 const char *what, struct farhand_error *ret_error)
{
        if (r == 0)
                r = client_wait_for(f, &wanted->is_there, client_wait_end(timeout_ms), what, ret_error);
        if (r < 0) {
                calls_forget(f, on, wanted);
                return r;
        }
        return wanted->error.code < 0 ? error_copy(ret_error, &wanted->error) : 0;
}

int farhand_environment_info(struct farhand *f, int timeout_ms, struct farhand_environment **ret,
                             struct farhand_error *ret_error)
{
        struct wanted wanted = { 0 };
        int r = farhand_environment_info_begin(f, on_environment, &wanted, ret_error);
        r = await(f, &wanted, (any_function)on_environment, r, timeout_ms, "environment/info", ret_error);
        if (r == 0)
                *ret = wanted.environment;
        return r;
}

int farhand_environment_status(struct farhand *f, int timeout_ms, char **ret, struct farhand_error *ret_error)
{
        struct wanted wanted = { 0 };
        int r = farhand_environment_status_begin(f, on_status, &wanted, ret_error);
        r = await(f, &wanted, (any_function)on_status, r, timeout_ms, "environment/status", ret_error);
        if (r == 0)
                *ret = wanted.status;
        return r;
}
