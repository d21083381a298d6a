/* environments_select: decides which environments there are, from options, variables and the texts of files. */
#include "env/environments_select.h"

#include "base/buf.h"
#include "base/printable.h"
#include "env/environment_url.h"
#include "env/environments_toml.h"

#include <errno.h>

#define NAMES_BYTES_MAX 2048 /* the longest list of known environments in an error */

static bool is_blank(const char *value)
{
        return slice_trim(slice_from_str(value)).n == 0;
}

/* ---- where the files are ---- */

/* Returns the path of `rest` below `directory`. A relative `directory` is put below the working directory. */
static const char *path_below(struct arena *a, const struct environment_variables *v, const char *directory,
                              const char *rest)
{
        if (directory[0] == '/' || !v->cwd)
                return arena_printf(a, "%s%s", directory, rest);
        return arena_printf(a, "%s/%s%s", v->cwd, directory, rest);
}

static bool is_absolute(const char *path)
{
        return path && path[0] == '/';
}

const char *environments_home_farhand(struct arena *a, const struct environment_variables *v)
{
        if (v->farhand_home && v->farhand_home[0])
                return path_below(a, v, v->farhand_home, "");
        if (is_absolute(v->xdg_config_home)) /* the XDG specification says to ignore a relative path */
                return path_below(a, v, v->xdg_config_home, "/farhand");
        return is_absolute(v->home) ? path_below(a, v, v->home, "/.config/farhand") : NULL;
}

const char *environments_home_codex(struct arena *a, const struct environment_variables *v)
{
        if (v->codex_home && v->codex_home[0])
                return path_below(a, v, v->codex_home, "");
        return is_absolute(v->home) ? path_below(a, v, v->home, "/.codex") : NULL;
}

const char *environments_path_farhand(struct arena *a, const struct environment_variables *v)
{
        const char *home = environments_home_farhand(a, v);
        return home ? arena_printf(a, "%s/" ENVIRONMENTS_FILE, home) : NULL;
}

const char *environments_path_codex(struct arena *a, const struct environment_variables *v)
{
        const char *home = environments_home_codex(a, v);
        return home ? arena_printf(a, "%s/" ENVIRONMENTS_FILE, home) : NULL;
}

/* ---- the sources ---- */

static int select_url(struct arena *a, const char *url, const char *source, bool has_token,
                      struct environments *ret, struct err *err)
{
        struct environment *one = arena_new(a, struct environment);
        *one = (struct environment){
                .id = ENVIRONMENT_REMOTE_ID,
                .connect_timeout_ms = ENVIRONMENT_TIMEOUT_MS,
                .initialize_timeout_ms = ENVIRONMENT_TIMEOUT_MS,
        };
        if (environment_url_check(a, slice_from_str(url), &one->url, &one->kind, err) < 0)
                return err_wrap(err, "%s", source);
        if (one->kind == ENVIRONMENT_SSH)
                one->connect_timeout_ms = ENVIRONMENT_SSH_TIMEOUT_MS;
        if (has_token && one->kind == ENVIRONMENT_URL)
                one->token_env = ENVIRONMENTS_TOKEN_VARIABLE;
        *ret = (struct environments){ .list = one, .count = 1, .source = source };
        return 0;
}

static int select_file(struct arena *a, const struct environments_file *file, struct environments *ret,
                       struct err *err)
{
        if (file->error < 0)
                return err_set(err, 0, file->error,
                               "failed to read environment config `%s`: %s (os error %d)",
                               printable_str(a, file->path), file->why ? file->why : errno_text(file->error),
                               -file->error);
        return environments_parse(a, file->text, file->path, ret, err);
}

static bool has_file(const struct environments_file *file)
{
        return file->path && file->error != -ENOENT;
}

/* Returns whether this is a URL: no id of an environment has a colon. */
static bool is_url(const char *name)
{
        return name && strchr(name, ':');
}

static int select_source(struct arena *a, const struct environment_inputs *in, struct environments *ret,
                         struct err *err)
{
        const struct environment_variables *v = &in->variables;
        bool has_token = v->farhand_token && v->farhand_token[0];

        if (in->url)
                return select_url(a, in->url, "--url", has_token, ret, err);
        if (is_url(in->name))
                return select_url(a, in->name, "--env", has_token, ret, err);
        if (!environments_need_files(in))
                return select_url(a, v->farhand_url, "FARHAND_URL", has_token, ret, err);
        if (has_file(&in->farhand))
                return select_file(a, &in->farhand, ret, err);
        if (has_file(&in->codex))
                return select_file(a, &in->codex, ret, err);
        if (is_blank(v->codex_exec_server_url)) {
                *ret = (struct environments){ .list = &environment_local, .count = 1 };
                return 0;
        }
        static const char source[] = "CODEX_EXEC_SERVER_URL";
        if (!slice_eq_nocase(slice_trim(slice_from_str(v->codex_exec_server_url)), S("none")))
                return select_url(a, v->codex_exec_server_url, source, false, ret, err);
        *ret = (struct environments){ .default_index = ENVIRONMENTS_NONE,
                                      .is_disabled = true,
                                      .source = source };
        return 0;
}

/* ---- the name ---- */

static int refuse_unknown_name(struct arena *a, const struct environments *e, const char *name,
                               struct err *err)
{
        _buf_ struct buf known = BUF_INIT(NAMES_BYTES_MAX);

        if (e->is_disabled)
                return err_set(err, 0, -ENOENT, "unknown environment `%s`: %s is `none`, so there are none",
                               printable_str(a, name), e->source);
        for (size_t i = 0; i < e->count; i++)
                if (buf_printf(&known, "%s%s", i > 0 ? ", " : "", e->list[i].id) < 0)
                        break;
        return err_set(err, 0, -ENOENT, "unknown environment `%s`; known: %s", printable_str(a, name),
                       e->count > 0 ? known.p : "none");
}

bool environments_need_files(const struct environment_inputs *in)
{
        return !in->url && !is_url(in->name) && (in->name || is_blank(in->variables.farhand_url));
}

int environments_select(struct arena *a, const struct environment_inputs *in, struct environments *ret,
                        struct err *err)
{
        struct environments made;

        int r = select_source(a, in, &made, err);
        if (r < 0)
                return r;
        if (in->name && !in->url && !is_url(in->name)) {
                const struct environment *named = environments_find(&made, slice_from_str(in->name));
                if (!named)
                        return refuse_unknown_name(a, &made, in->name, err);
                made.default_index = (size_t)(named - made.list);
        }
        *ret = made;
        return 0;
}
