/* env_add: `farhand env add`: adds an environment to environments.toml of Farhand. The rest of the file keeps its bytes; the file
 * is replaced in one step, and only by a file that can be read. */
#include "cli/env.h"

#include "base/args.h"
#include "base/fd.h"
#include "base/printable.h"
#include "base/small_file.h"
#include "env/environments_add.h"
#include "env/environments_file.h"

#include <errno.h>
#include <stdio.h>

static int fail(const struct err *err)
{
        fprintf(stderr, "error: %s\n", err->text);
        return 1;
}

/* Makes the path of --token-file absolute. On the command line a relative path begins at our working directory, but in the file it
 * would begin at the directory of the file. */
static int token_file_resolve(struct arena *a, const struct environment_variables *v, const char **file,
                              struct err *err)
{
        if (!*file || (*file)[0] == '/' || (*file)[0] == '\0')
                return 0;
        if (!v->cwd)
                return err_set(err, 0, -ENOENT,
                               "the working directory is not known: --token-file must be absolute");
        *file = arena_printf(a, "%s/%s", v->cwd, *file);
        return 0;
}

/* Warns when the environments used until now are no longer used, because the new file alone names the environments. */
static void warn_takeover(struct arena *a, const struct environment_variables *v, const char *path)
{
        struct environments_file codex;
        environments_file_read(a, environments_path_codex(a, v), &codex);
        bool has_variable = v->codex_exec_server_url && v->codex_exec_server_url[0];

        if (codex.path && codex.error != -ENOENT)
                fprintf(stderr, "note: %s is not read any more, because %s decides alone\n",
                        printable_str(a, codex.path), printable_str(a, path));
        else if (has_variable)
                fprintf(stderr,
                        "note: CODEX_EXEC_SERVER_URL is not asked any more, because %s decides alone\n",
                        printable_str(a, path));
}

static int add(struct arena *a, struct environment_addition *addition, struct err *err)
{
        struct environment_variables v;
        environment_variables_read(a, &v);
        const char *path = environments_path_farhand(a, &v);
        if (!path)
                return err_set(err, 0, -ENOENT, "neither FARHAND_HOME nor HOME says where the file is");
        int r = token_file_resolve(a, &v, &addition->token_file, err);
        if (r < 0)
                return r;

        /* The addition is tried on an empty text first, so that an addition that can never succeed leaves no directory behind. */
        struct slice text;
        r = environments_add(a, S(""), path, addition, &text, err);
        if (r < 0)
                return r;
        _close_ int lock = small_file_lock(path, err);
        if (lock < 0)
                return lock;
        struct environments_file file;
        environments_file_read(a, path, &file);
        if (file.error < 0 && file.error != -ENOENT)
                return err_set(err, 0, file.error, "failed to read environment config `%s`: %s (os error %d)",
                               printable_str(a, path), file.why ? file.why : errno_text(file.error),
                               -file.error);
        r = environments_add(a, file.text, path, addition, &text, err);
        if (r == 0)
                r = small_file_replace(path, text, err);
        if (r < 0)
                return r;
        printf("added %s to %s\n", addition->id, printable_str(a, path));
        if (file.error == -ENOENT)
                warn_takeover(a, &v, path);
        return 0;
}

int env_add(int argc, char **argv)
{
        struct environment_addition addition = { 0 };
        int rest = 0;
        const struct arg table[] = {
                { "url", ARG_STRING, "URL",
                  "of a server: ws://, wss://, unix:/PATH or ssh://[USER@]HOST[:PORT]",
                  .target = &addition.url },
                { "program", ARG_STRING, "PROGRAM",
                  "a program whose standard streams are a server; ARGs go to it",
                  .target = &addition.program },
                { "token-file", ARG_STRING, "FILE", "with --url: the file that holds the bearer token",
                  .target = &addition.token_file, .offers = OFFER_FILE },
                { "token-env", ARG_STRING, "NAME", "with --url: the variable that holds the bearer token",
                  .target = &addition.token_env },
                { "default", ARG_FLAG, NULL, "make it the default", .target = &addition.is_default },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand env add ID (--url URL | --program PROGRAM) [OPTIONS] [--] [ARG...]",
                .about = "Add an environment to environments.toml in FARHAND_HOME (~/.config/farhand).",
                .table = table,
        };
        /* The id stands before the options, so it takes the place of the name that args_parse skips. Without an id the options are
         * parsed too, for --help. */
        bool has_id = argc > 1 && argv[1][0] != '-';
        enum args_result parsed =
                args_parse(&spec, has_id ? argc - 1 : argc, has_id ? argv + 1 : argv, &rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        if (!has_id) {
                fprintf(stderr, "error: the first argument must be the ID\n\nUsage: %s\n", spec.usage);
                return 2;
        }
        addition.id = argv[1];
        addition.args = (const char *const *)argv + 1 + rest;
        addition.arg_count = (size_t)(argc - 1 - rest);
        if (!addition.url == !addition.program) {
                fprintf(stderr, "error: either --url or --program is needed\n\nUsage: %s\n", spec.usage);
                return 2;
        }
        if (addition.url && addition.arg_count > 0) {
                fprintf(stderr, "error: an ARG needs --program\n\nUsage: %s\n", spec.usage);
                return 2;
        }

        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        if (add(&a, &addition, &err) < 0)
                return fail(&err);
        return fflush(stdout) == 0 ? 0 : 1;
}
