/* env_list: `farhand env list`: shows the environments that commands would use here and now, and what names them.
 *
 * This verb connects to no server, and reads no token. Each line on stdout begins with an id, which the completions of shells rely
 * on; everything else is on stderr. Texts from files and variables are shown without control characters; values of variables that a
 * program gets are not shown. */
#include "cli/env.h"

#include "base/args.h"
#include "base/buf.h"
#include "base/printable.h"
#include "env/environments_file.h"
#include "wire/jsonw.h"

#include <stdio.h>

#define JSON_BYTES_MAX \
        (16 * 1024 * 1024) /* enough for a file of 1 MiB in which each byte becomes an escape */

static int id_width(const struct environments *e)
{
        size_t width = 0;
        for (size_t i = 0; i < e->count; i++)
                width = MAX(width, strlen(e->list[i].id));
        return (int)width;
}

static void print_one(struct arena *a, const struct environment *one, bool is_default, int width)
{
        printf("%-*s  %-7s  ", width, one->id, is_default ? "default" : "");
        if (one->kind == ENVIRONMENT_LOCAL)
                printf("this machine");
        if (one->url)
                printf("%s", printable_str(a, one->url));
        for (size_t i = 0; one->argv && one->argv[i]; i++)
                printf("%s%s", i > 0 ? " " : "runs: ", printable_str(a, one->argv[i]));
        if (one->cwd)
                printf("  in %s", printable_str(a, one->cwd));
        if (one->token_file)
                printf("  token: file %s", printable_str(a, one->token_file));
        if (one->token_env)
                printf("  token: variable %s", one->token_env);
        putchar('\n');
}

static void print_text(struct arena *a, const struct environments *e)
{
        fprintf(stderr, "source: %s\n", e->source ? printable_str(a, e->source) : "nothing is configured");
        if (e->is_disabled)
                fprintf(stderr, "There is no environment: commands and files are not offered.\n");
        else if (e->count == 0)
                fprintf(stderr, "There is no environment.\n");
        else if (!environments_default(e))
                fprintf(stderr, "There is no default: commands need --env.\n");
        for (size_t i = 0; i < e->count; i++)
                print_one(a, &e->list[i], i == e->default_index, id_width(e));
}

static void write_one(struct jsonw *w, const struct environment *one)
{
        jsonw_object(w);
        jsonw_member_str(w, "id", one->id);
        jsonw_member_str(w, "kind", environment_kind_name(one->kind));
        if (one->url)
                jsonw_member_str(w, "url", one->url);
        if (one->argv) {
                jsonw_key(w, "argv");
                jsonw_array(w);
                for (size_t i = 0; one->argv[i]; i++)
                        jsonw_str(w, one->argv[i]);
                jsonw_array_end(w);
                jsonw_key(w, "env"); /* only the names of the variables are shown */
                jsonw_array(w);
                for (size_t i = 0; i < one->env_count; i++)
                        jsonw_str(w, one->env[i].name);
                jsonw_array_end(w);
        }
        if (one->cwd)
                jsonw_member_str(w, "cwd", one->cwd);
        if (one->url)
                jsonw_member_u64(w, "connectTimeoutMs", one->connect_timeout_ms);
        if (one->kind != ENVIRONMENT_LOCAL)
                jsonw_member_u64(w, "initializeTimeoutMs", one->initialize_timeout_ms);
        if (one->token_file)
                jsonw_member_str(w, "tokenFile", one->token_file);
        if (one->token_env)
                jsonw_member_str(w, "tokenEnv", one->token_env);
        jsonw_object_end(w);
}

static int print_json(const struct environments *e)
{
        _buf_ struct buf out = BUF_INIT(JSON_BYTES_MAX);
        const struct environment *chosen = environments_default(e);
        struct jsonw w;

        jsonw_begin(&w, &out);
        jsonw_object(&w);
        jsonw_member_str(&w, "source", e->source);
        jsonw_member_bool(&w, "disabled", e->is_disabled);
        jsonw_member_str(&w, "default", chosen ? chosen->id : NULL);
        jsonw_key(&w, "environments");
        jsonw_array(&w);
        for (size_t i = 0; i < e->count; i++)
                write_one(&w, &e->list[i]);
        jsonw_array_end(&w);
        jsonw_object_end(&w);
        int r = jsonw_end(&w);
        if (r == 0)
                printf("%s\n", out.p);
        return r;
}

int env_list(int argc, char **argv)
{
        bool is_json = false;
        const struct arg table[] = {
                { "json", ARG_FLAG, NULL, "print one JSON object", .target = &is_json },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand env list [--json]",
                .about = "Show which environments there are, which is the default, and what names them.",
                .table = table,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, NULL);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);

        _arena_ struct arena a = ARENA_INIT;
        struct environments e;
        struct err err = ERR_INIT;
        if (environments_load(&a, NULL, NULL, &e, &err) < 0) {
                fprintf(stderr, "error: %s\n", err.text);
                return 1;
        }
        int r = 0;
        if (is_json)
                r = print_json(&e);
        else
                print_text(&a, &e);
        return r == 0 && fflush(stdout) == 0 ? 0 : 1;
}
