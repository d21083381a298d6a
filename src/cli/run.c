/* run: `farhand run`: runs a command on an environment as if it ran here: streams, signals, window size and exit code pass through. */
#include "cli/cli.h"

#include "cli/command_args.h"
#include "cli/detached.h"
#include "cli/pump.h"
#include "cli/remote.h"

#include <stdio.h>

#define DAY_MS (24ULL * 3600 * 1000)
#define START_MS 60000

struct wishes {
        bool tty, no_stdin, detach;
};

/* ---- detached ---- */

static void on_started(UNUSED struct farhand_process *p, void *arg, UNUSED int64_t pid)
{
        *(bool *)arg = true;
}

/* Starts the command, prints its id, and does not wait for its end. */
static int run_detached(struct remote *r, struct farhand *f, struct farhand_command *command)
{
        static const struct farhand_process_events events = { .on_started = on_started };
        struct farhand_error error = { 0 };
        bool has_started = false;
        const char *session = farhand_session_id(f);
        if (!detached_is_possible(r, f)) {
                remote_say(
                        r,
                        "a command ends with the connection to this environment: --detach is not possible");
                return PUMP_FAILED;
        }
        struct farhand_process *p = farhand_start(f, command, &events, &has_started, &error);
        while (p && !has_started && !farhand_process_is_closed(p) && farhand_wait(f, START_MS, &error) == 0)
                ;
        if (p && farhand_process_is_closed(p) && !has_started)
                (void)farhand_process_wait(p, 0, NULL, &error); /* fills `error` with the reason */
        farhand_process_free(p);
        if (!has_started) {
                remote_say(r, "%s", error.text);
                return PUMP_FAILED;
        }
        detached_keep(r, session);
        printf("%s\n", detached_id(session));
        return fflush(stdout) == 0 ? 0 : PUMP_FAILED;
}

static int run(struct remote *r, const struct command_args *args, char **argv, const struct wishes *wishes)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        struct farhand_command command = FARHAND_COMMAND_INIT;
        options.client_name = "farhand run";
        options.detach_ms = wishes->detach ? DAY_MS : 0;
        struct farhand *f = remote_connect(r, &options);
        if (!f)
                return PUMP_FAILED;
        int code = PUMP_FAILED;
        command.argv = (const char *const *)argv;
        command.tty = wishes->tty;
        if (command_args_apply(args, r, f, wishes->tty, &command) == 0)
                code = wishes->detach ? run_detached(r, f, &command)
                                      : pump_run(r, f, &command, wishes->no_stdin, false);
        farhand_free(f);
        return code;
}

int cmd_run(int argc, char **argv)
{
        struct remote remote = { 0 };
        struct command_args command = { 0 };
        struct wishes wishes = { 0 };
        bool is_interactive = false;
        const struct arg table[] = {
                REMOTE_ARGS(&remote),
                { "tty", ARG_FLAG, NULL, "on a terminal: for programs that draw, or ask", .letter = 't',
                  .target = &wishes.tty },
                { "interactive", ARG_FLAG, NULL, "pass our stdin on; it is, unless there is -n",
                  .letter = 'i', .target = &is_interactive },
                { "no-stdin", ARG_FLAG, NULL, "the command's stdin is empty", .letter = 'n',
                  .target = &wishes.no_stdin },
                { "detach", ARG_FLAG, NULL, "print an id and leave the command running", .letter = 'd',
                  .target = &wishes.detach },
                COMMAND_ARGS(&command),
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand run [OPTIONS] [--] COMMAND [ARG]...",
                .about = "Run a command on an environment: here, unless one is named. Streams, signals and "
                         "the exit "
                         "code pass through.",
                .table = table,
                .operands = OFFER_COMMAND,
                .behind = OFFER_COMMAND,
        };
        int rest = 0, code = 2;
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed == ARGS_HELP)
                code = 0;
        else if (parsed == ARGS_OK && rest == argc)
                fprintf(stderr, "error: farhand run needs a command\n");
        else if (parsed == ARGS_OK) {
                int chosen = wishes.detach ? remote_choose_lasting(&remote, true) : remote_choose(&remote);
                code = chosen == 0 ? run(&remote, &command, argv + rest, &wishes) : PUMP_FAILED;
        }
        arg_list_release(&command.env);
        remote_release(&remote);
        return code;
}
