/* attach: `farhand attach` and `farhand shell`: connect a person to a command of an environment, which runs on when the person
 * leaves. */
#include "cli/cli.h"

#include "cli/command_args.h"
#include "cli/detached.h"
#include "cli/pump.h"

#include <stdio.h>
#include <unistd.h>

#define DAY_MS (24ULL * 3600 * 1000)

#define WORDS_MAX 64

/* ---- attach ---- */

/* Returns the first words of the command of a process, as the server tells them. */
static const char *const *words_of(struct answer *a, const struct json *process)
{
        const char **words = arena_alloc(&a->arena, (WORDS_MAX + 1) * sizeof(*words));
        const struct json *argv = json_get(&a->doc, process, S("argv"));
        size_t n = 0;
        for (const struct json *it = argv && argv->type == JSON_ARRAY ? argv + 1 : NULL;
             it && it < a->doc.tokens + argv->end && n < WORDS_MAX; it = a->doc.tokens + it->end)
                if (it->type == JSON_STRING)
                        words[n++] = arena_dup(&a->arena, json_string(&a->arena, &a->doc, it));
        words[n] = NULL;
        return words;
}

static int attach(struct remote *r, const char *id)
{
        _answer_ struct answer list = ANSWER_INIT;
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        options.client_name = "farhand attach";
        options.resume_session_id = detached_find(r, id);
        options.takeover = true;
        options.detach_ms = DAY_MS;
        struct farhand *f = options.resume_session_id ? remote_connect(r, &options) : NULL;
        if (!f)
                return PUMP_FAILED;
        int code = PUMP_FAILED;
        if (answer_get(&list, r, f, "process/list", "{}") == 0) {
                const struct json *all = json_get(&list.doc, list.root, S("processes"));
                const char *process = NULL;
                const struct json *found = NULL;
                bool is_tty = false;
                for (const struct json *it = all && all->type == JSON_ARRAY ? all + 1 : NULL;
                     it && it < list.doc.tokens + all->end; it = list.doc.tokens + it->end) {
                        process = answer_text(&list, it, "processId");
                        found = it;
                        is_tty = answer_is_true(&list, it, "tty");
                        if (answer_is_true(&list, it, "running"))
                                break;
                }
                if (process)
                        code = pump_attach(r, f, process, words_of(&list, found), is_tty);
                else
                        remote_say(r, "the session has no process any more");
        }
        farhand_free(f);
        return code;
}

int cmd_attach(int argc, char **argv)
{
        struct remote remote = { 0 };
        const struct arg table[] = { REMOTE_ARGS(&remote), { .name = NULL } };
        const struct args spec = {
                .usage = "farhand attach [OPTIONS] ID",
                .about =
                        "Go on with a command that runs detached; whoever is attached to it now is detached.",
                .table = table,
                .is_mixed = true,
        };
        int rest = 0, code = 2;
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed == ARGS_HELP)
                code = 0;
        else if (parsed == ARGS_OK && rest + 1 != argc)
                fprintf(stderr, "error: farhand attach needs one id, as farhand ps shows it\n");
        else if (parsed == ARGS_OK)
                code = remote_choose_lasting(&remote, false) == 0 ? attach(&remote, argv[rest]) : PUMP_FAILED;
        remote_release(&remote);
        return code;
}

/* ---- shell ---- */

/* Returns the login shell: on this machine that of the user, else the one that the server tells. */
static const char *find_shell(struct remote *r, struct farhand *f)
{
        _answer_ struct answer info = ANSWER_INIT;
        const char *own = remote_is_local(r) ? getenv("SHELL") : NULL;
        if (own && own[0] == '/')
                return own;
        if (answer_get(&info, r, f, "environment/info", "{}") < 0)
                return NULL;
        const char *path = answer_text(&info, json_get(&info.doc, info.root, S("shell")), "path");
        return path[0] ? arena_dup(&r->arena, slice_from_str(path)) : "/bin/sh";
}

static int shell(struct remote *r, const struct command_args *args)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        struct farhand_command command = FARHAND_COMMAND_INIT;
        options.client_name = "farhand shell";
        options.detach_ms = DAY_MS;
        struct farhand *f = remote_connect(r, &options);
        if (!f)
                return PUMP_FAILED;
        int code = PUMP_FAILED;
        const char *path = find_shell(r, f);
        const char *const argv[] = { path, NULL };
        command.argv = argv;
        command.arg0 =
                path ? arena_printf(&r->arena, "-%s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path)
                     : NULL;
        command.tty = true;
        if (path && command_args_apply(args, r, f, true, &command) == 0) {
                if (detached_is_possible(r, f))
                        detached_keep(r, farhand_session_id(f));
                code = pump_run(r, f, &command, false, detached_is_possible(r, f), NULL);
        }
        farhand_free(f);
        return code;
}

int cmd_shell(int argc, char **argv)
{
        struct remote remote = { 0 };
        struct command_args command = { 0 };
        const struct arg table[] = { REMOTE_ARGS(&remote), COMMAND_ARGS(&command), { .name = NULL } };
        const struct args spec = {
                .usage = "farhand shell [OPTIONS]",
                .about = "A login shell on an environment, or here. ~. leaves it running; farhand attach "
                         "comes back.",
                .table = table,
        };
        int code = 2;
        enum args_result parsed = args_parse(&spec, argc, argv, NULL);
        if (parsed == ARGS_HELP)
                code = 0;
        else if (parsed == ARGS_OK && command_args_check(&command))
                code = remote_choose_lasting(&remote, true) == 0 ? shell(&remote, &command) : PUMP_FAILED;
        command_args_release(&command);
        remote_release(&remote);
        return code;
}
