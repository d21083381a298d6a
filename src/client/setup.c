/* setup: makes a client from its options, frees a client, and says which capabilities its server has. */
#include "client/client.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/uri.h"
#include "client/error.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TOKEN_FILE_MAX 16384
#define STRINGS_MAX 65536

static const char *keep(struct farhand *f, const char *text)
{
        return text ? arena_dup(&f->strings, slice_from_str(text)) : NULL;
}

static const char *const *keep_list(struct farhand *f, const char *const *list)
{
        size_t count = 0;
        if (!list)
                return NULL;
        while (list[count])
                count++;
        const char **copy = arena_alloc(&f->strings, (count + 1) * sizeof(*copy));
        for (size_t i = 0; i < count; i++)
                copy[i] = keep(f, list[i]);
        copy[count] = NULL;
        return copy;
}

/* Copies those options that the struct of the caller has: a program compiled with an older header has a shorter struct. */
static void keep_options(struct farhand *f, const struct farhand_options *given)
{
        struct farhand_options *o = &f->options;
        memcpy(o, given, MIN(given->size, sizeof(*o)));
        o->url = keep(f, o->url);
        o->argv = keep_list(f, o->argv);
        o->env = keep_list(f, o->env);
        o->cwd = keep(f, o->cwd);
        o->farhand = keep(f, o->farhand);
        o->farhand_net = keep(f, o->farhand_net);
        o->token_env = keep(f, o->token_env);
        o->ssh = keep(f, o->ssh);
        o->static_dir = keep(f, o->static_dir);
        o->client_name = keep(f, o->client_name);
        o->resume_session_id = keep(f, o->resume_session_id);
        o->token = o->token_file = NULL;
}

/* Checks that a token has only characters that may stand in a line of the HTTP head. */
static int check_token(struct slice token, struct err *err)
{
        for (size_t i = 0; i < token.n; i++)
                if ((unsigned char)token.p[i] <= ' ' || (unsigned char)token.p[i] >= 0x7f)
                        return err_set(err, 0, -EINVAL, "the token has characters that no token has");
        return token.n > 0 ? 0 : err_set(err, 0, -EINVAL, "the token is empty");
}

/* Finds the token that the options name. *ret stays NULL when they name none. */
static int read_token(const struct farhand_options *o, char **ret, struct err *err)
{
        _buf_ struct buf file = BUF_INIT(TOKEN_FILE_MAX);
        struct slice token = slice_from_str(o->token);
        if (!o->token && o->token_file) {
                int r = fd_read_file(o->token_file, TOKEN_FILE_MAX, &file);
                if (r < 0)
                        return err_set(err, 0, r, "the token file %s: %s", o->token_file, errno_text(r));
                struct slice rest = buf_slice(&file);
                token = slice_trim(slice_split(&rest, '\n'));
        } else if (!o->token && o->token_env) {
                token = slice_from_str(getenv(o->token_env));
                if (!token.p)
                        return err_set(err, 0, -EINVAL,
                                       "the variable %s, which shall hold the token, is not set",
                                       o->token_env);
        } else if (!o->token) {
                return 0;
        }
        int r = check_token(token, err);
        if (r == 0)
                *ret = slice_dup(token);
        return r;
}

static int set_up(struct farhand *f, const struct farhand_options *options, struct err *err)
{
        if (options->size < offsetof(struct farhand_options, env))
                return err_set(err, 0, -EINVAL,
                               "struct farhand_options has no size: use FARHAND_OPTIONS_INIT");
        keep_options(f, options);
        f->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (f->epoll < 0)
                return err_set(err, 0, -errno, "epoll: %s", errno_text(errno));
        if (f->options.argv && !f->options.argv[0])
                return err_set(err, 0, -EINVAL, "the program to connect to has no name");
        struct farhand_options tokens = { 0 };
        memcpy(&tokens, options, MIN(options->size, sizeof(tokens)));
        int r = read_token(&tokens, &f->token, err);
        if (r == 0 && f->options.url) {
                r = endpoint_parse(f->options.url, &f->endpoint, err);
                f->has_endpoint = r == 0;
                if (r == 0 && f->endpoint.kind == ENDPOINT_SSH && f->token)
                        r = err_set(err, 0, -EINVAL, "ssh:// needs no token: ssh says who you are");
        }
        return r;
}

struct farhand *farhand_new(const struct farhand_options *options, struct farhand_error *ret_error)
{
        struct farhand *f = mem_new(struct farhand);
        struct err err = ERR_INIT;
        transport_init(&f->transport);
        list_init(&f->processes);
        list_init(&f->files);
        list_init(&f->http_requests);
        list_init(&f->watches);
        list_init(&f->network_questions);
        f->epoll = f->watched = -1;
        f->session_id = mem_strdup("");
        f->info = mem_strdup("{}");
        f->next_id = f->next_process = f->next_file = f->next_http = f->next_watch = f->next_missing = 1;
        f->state = FARHAND_CONNECTING;
        if (set_up(f, options, &err) < 0) {
                error_from_err(ret_error, &err);
                farhand_free(f);
                return NULL;
        }
        f->retry_at_ms = clock_mono_ms(); /* the first attempt begins with the first step */
        return f;
}

void farhand_free(struct farhand *f)
{
        if (!f)
                return;
        must(f->depth == 0);
        while (!list_is_empty(&f->processes))
                client_process_release(list_first(&f->processes, struct farhand_process, link));
        client_files_release(f);
        client_http_requests_release(f);
        client_watches_release(f);
        farhand_missing_free(f->missing);
        calls_release(f);
        transport_close(&f->transport, CHILD_PATIENCE_MS);
        fd_close(f->epoll);
        endpoint_release(&f->endpoint);
        free(f->token);
        free(f->session_id);
        free(f->info);
        free(f->sandbox);
        arena_release(&f->strings);
        free(f);
}

bool farhand_has_capability(const struct farhand *f, const char *name)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(TRANSPORT_MESSAGE_MAX);
        struct json_doc doc;
        struct json_error bad;
        if (buf_append(&text, slice_from_str(f->info)) < 0 ||
            json_parse(&a, buf_slice(&text), &doc, &bad) < 0)
                return false;
        const struct json *info = json_get(&doc, json_root(&doc), S("environmentInfo"));
        const struct json *capabilities = json_get(&doc, info, S("capabilities"));
        const struct json *value = json_get(&doc, capabilities, slice_from_str(name));
        return value && value->type == JSON_TRUE;
}

void client_path_write(const struct farhand *f, struct jsonw *w, const char *path)
{
        _buf_ struct buf uri = BUF_INIT(STRINGS_MAX);
        if (path[0] != '/' || uri_from_path(&uri, slice_from_str(path)) < 0)
                jsonw_null(w);
        else if (f->wants_uris)
                jsonw_string(w, buf_slice(&uri));
        else
                jsonw_str(w, path);
}

char *farhand_path_json(const struct farhand *f, const char *path)
{
        struct jsonw w;
        _buf_ struct buf text = BUF_INIT(STRINGS_MAX + 2);
        jsonw_begin(&w, &text);
        if (path[0] != '/')
                return NULL;
        client_path_write(f, &w, path);
        return jsonw_end(&w) == 0 && text.p[0] == '"' ? buf_take(&text) : NULL;
}
