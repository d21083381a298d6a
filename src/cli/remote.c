/* remote: finds the environment that the options name, and connects to it. */
#include "cli/remote.h"

#include "base/buf.h"
#include "base/printable.h"
#include "base/uri.h"
#include "cli/background.h"
#include "cli/connecting.h"
#include "env/environments_file.h"
#include "wire/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define INFO_MAX ((size_t)1024 * 1024)

void remote_say(const struct remote *r, const char *fmt, ...)
{
        char text[2048];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        _arena_ struct arena a = ARENA_INIT;
        fprintf(stderr, "farhand: %s%s", printable_str(&a, text), r->is_raw ? "\r\n" : "\n");
}

void remote_warn_of_start(const struct remote *r, const struct farhand_process *p)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(INFO_MAX);
        struct json_doc doc;
        struct json_error bad;
        const char *answer = farhand_process_start_answer(p);
        if (!answer || buf_append(&text, slice_from_str(answer)) < 0 ||
            json_parse(&a, buf_slice(&text), &doc, &bad) < 0)
                return;
        const struct json *warning =
                json_get(&doc, json_get(&doc, json_root(&doc), S("intercept")), S("warning"));
        if (warning && warning->type == JSON_STRING)
                remote_say(r, "warning: %.*s", SLICE(json_string(&a, &doc, warning)));
}

int remote_choose(struct remote *r)
{
        struct environments all;
        struct err err = ERR_INIT;
        int result = environments_load(&r->arena, r->url, r->env_name, &all, &err);
        if (result < 0) {
                remote_say(r, "%s", err.text);
                return result;
        }
        r->environment = environments_default(&all);
        if (r->environment)
                return 0;
        remote_say(r,
                   all.is_disabled ? "%s says that there is no environment"
                                   : "%s names no default environment; say which with --env NAME",
                   all.source ? all.source : "the configuration");
        return -ENOENT;
}

/* Finds the background server, or starts it. */
static int find_background(struct remote *r)
{
        struct err err = ERR_INIT;
        const char *url = background_url(&r->arena, r->may_start, &err);
        if (!url) {
                r->is_none = err.code == -ENOENT;
                if (!r->is_none || !r->is_none_fine)
                        remote_say(r, "%s", err.text);
                return err.code;
        }
        struct environment *background = arena_new(&r->arena, struct environment);
        *background = (struct environment){ .id = ENVIRONMENT_LOCAL_ID, .kind = ENVIRONMENT_URL, .url = url };
        r->environment = background;
        return 0;
}

int remote_choose_lasting(struct remote *r, bool may_start)
{
        int result = remote_choose(r);
        if (result < 0 || r->environment->kind != ENVIRONMENT_LOCAL)
                return result;
        r->may_start = may_start;
        result = find_background(r);
        r->is_background = result == 0;
        return result;
}

static void on_state(UNUSED struct farhand *f, void *arg, int state, const char *text)
{
        struct remote *r = arg;
        if (state == FARHAND_RECOVERING && !r->is_quiet)
                remote_say(r, "%s; trying to resume", text);
        if (state == FARHAND_READY && r->was_lost && !r->is_quiet)
                remote_say(r, "resumed");
        r->was_lost = state == FARHAND_RECOVERING;
}

/* Returns "NAME=VALUE" for each variable of the environment. */
static const char *const *env_texts(struct remote *r)
{
        const struct environment *e = r->environment;
        const char **texts = arena_alloc(&r->arena, (e->env_count + 1) * sizeof(*texts));
        for (size_t i = 0; i < e->env_count; i++)
                texts[i] = arena_printf(&r->arena, "%s=%s", e->env[i].name, e->env[i].value);
        texts[e->env_count] = NULL;
        return texts;
}

void remote_apply(struct remote *r, struct farhand_options *options)
{
        const struct environment *e = r->environment;
        const char *static_dir = getenv("FARHAND_STATIC_DIR");
        options->url = e->url;
        options->argv = e->argv;
        options->env = e->argv ? env_texts(r) : NULL;
        options->cwd = e->cwd;
        options->token_file = e->token_file;
        options->token_env = e->token_env;
        options->static_dir = static_dir && static_dir[0] ? static_dir : NULL;
        options->connect_timeout_ms = (unsigned)MIN(e->connect_timeout_ms, (uint64_t)UINT32_MAX);
        options->initialize_timeout_ms = (unsigned)MIN(e->initialize_timeout_ms, (uint64_t)UINT32_MAX);
}

struct farhand *remote_connect(struct remote *r, struct farhand_options *options)
{
        struct farhand_error error;
        struct background_retry retry;
        background_retry_begin(&retry);
        remote_apply(r, options);
        options->on_state = on_state;
        options->arg = r;
        for (;;) {
                struct farhand *f = connect_with_signals(options, &error);
                if (f)
                        return f;
                /* Until it is connected a client has asked for nothing: so nothing is done twice. */
                if (!r->is_background || !background_may_retry(&retry, error.code)) {
                        remote_say(r, "%s", error.text);
                        return NULL;
                }
                if (find_background(r) < 0)
                        return NULL;
        }
}

const char *remote_server_cwd(struct remote *r, const struct farhand *f)
{
        _buf_ struct buf text = BUF_INIT(INFO_MAX);
        struct json_doc doc;
        struct json_error bad;
        struct slice path;
        if (buf_append(&text, slice_from_str(farhand_server_info(f))) < 0 ||
            json_parse(&r->arena, buf_slice(&text), &doc, &bad) < 0)
                return NULL;
        const struct json *info = json_get(&doc, json_root(&doc), S("environmentInfo"));
        const struct json *cwd = json_get(&doc, info, S("cwd"));
        if (!cwd || cwd->type != JSON_STRING ||
            uri_to_path(&r->arena, json_string(&r->arena, &doc, cwd), &path, NULL) != URI_OK)
                return NULL;
        return arena_dup(&r->arena, path);
}

void remote_release(struct remote *r)
{
        arena_release(&r->arena);
}
