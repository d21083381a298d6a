/* environments_select: decides which environments there are, and which of them is meant. Pure: variables and files are values here;
 * environments_load (env/environments_file.h) looks them up.
 *
 * The first of these decides, alone:
 *
 *     --url URL                        one environment, `remote`
 *     --env URL                        the same: no id has a colon
 *     FARHAND_URL                      the same; not asked when there is --env
 *     environments.toml of Farhand     in $FARHAND_HOME, or $XDG_CONFIG_HOME/farhand, or ~/.config/farhand
 *     environments.toml of Codex       in $CODEX_HOME, or ~/.codex
 *     CODEX_EXEC_SERVER_URL            one environment, `remote`; `none`: no environment at all
 *     nothing                          one environment, `local`
 *
 * Then `--env NAME` takes the place of the default. A blank variable counts as unset. A file that exists and cannot be read or
 * understood is an error: the user who wrote the file does not want commands to run elsewhere than the file says.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "env/environment.h"

#define ENVIRONMENTS_FILE "environments.toml"
#define ENVIRONMENTS_TOKEN_VARIABLE "FARHAND_TOKEN"

/* The values of variables; NULL: unset. */
struct environment_variables {
        const char *home, *farhand_home, *xdg_config_home, *codex_home;
        const char *farhand_url, *codex_exec_server_url, *farhand_token;
        const char *cwd; /* the working directory, for relative paths; NULL: unknown */
};

struct environments_file {
        /* NULL: the place of the file is unknown, for example without HOME; then there is no file. */
        const char *path;
        int error; /* 0: `text` is set; -ENOENT: there is no file; other -errno: why the file cannot be read */
        const char *why;   /* the text of `error`, a literal; NULL: the text of the errno */
        struct slice text; /* the caller owns the bytes */
};

struct environment_inputs {
        const char *url;  /* --url; NULL: not given */
        const char *name; /* --env: an id or a URL; NULL: not given */
        struct environment_variables variables;
        struct environments_file farhand, codex;
};

/* These functions return the directories of Farhand and of Codex, and the files environments.toml there, in the arena, or NULL when
 * the variables do not say where they are. */
NODISCARD const char *environments_home_farhand(struct arena *a, const struct environment_variables *v);
NODISCARD const char *environments_home_codex(struct arena *a, const struct environment_variables *v);
NODISCARD const char *environments_path_farhand(struct arena *a, const struct environment_variables *v);
NODISCARD const char *environments_path_codex(struct arena *a, const struct environment_variables *v);

/* Returns whether environments_select needs the files. It does not when --url, or a URL in --env, or FARHAND_URL without --env, names the server. */
NODISCARD bool environments_need_files(const struct environment_inputs *in);

/* Decides which environments there are. With --env, default_index is the index of that environment. An environment by --url or
 * FARHAND_URL takes its token from FARHAND_TOKEN when that is set, unless its URL is an ssh URL. Everything in *ret is in the
 * arena. Returns 0 or -errno. */
NODISCARD int environments_select(struct arena *a, const struct environment_inputs *in,
                                  struct environments *ret, struct err *err);
