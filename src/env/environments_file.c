/* environments_file: reads the variables and the files that name environments. All system calls of src/env are here. */
#include "env/environments_file.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/small_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

void environment_variables_read(struct arena *a, struct environment_variables *ret)
{
        char cwd[PATH_MAX];
        /* The kernel gives "(unreachable)…" for a working directory outside of the root directory of this process. */
        bool has_cwd = getcwd(cwd, sizeof(cwd)) && cwd[0] == '/';

        *ret = (struct environment_variables){
                .home = getenv("HOME"),
                .farhand_home = getenv("FARHAND_HOME"),
                .xdg_config_home = getenv("XDG_CONFIG_HOME"),
                .codex_home = getenv("CODEX_HOME"),
                .farhand_url = getenv("FARHAND_URL"),
                .codex_exec_server_url = getenv("CODEX_EXEC_SERVER_URL"),
                .farhand_token = getenv(ENVIRONMENTS_TOKEN_VARIABLE),
                .cwd = has_cwd ? arena_dup(a, slice_from_str(cwd)) : NULL,
        };
}

void environments_file_read(struct arena *a, const char *path, struct environments_file *ret)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_ENVIRONMENTS_BYTES);

        *ret = (struct environments_file){ .path = path, .error = -ENOENT };
        if (!path)
                return;
        ret->error = small_file_read(path, &text, &ret->why);
        if (ret->error == -EFBIG)
                ret->why = "it has more than 1 MiB";
        if (ret->error == 0)
                ret->text = slice_from(arena_dup(a, buf_slice(&text)), text.n);
}

int environments_load(struct arena *a, const char *url, const char *name, struct environments *ret,
                      struct err *err)
{
        struct environment_inputs in = { .url = url, .name = name };

        environment_variables_read(a, &in.variables);
        if (environments_need_files(&in)) {
                environments_file_read(a, environments_path_farhand(a, &in.variables), &in.farhand);
                if (in.farhand.error == -ENOENT)
                        environments_file_read(a, environments_path_codex(a, &in.variables), &in.codex);
        }
        return environments_select(a, &in, ret, err);
}
