/* run: `farhand run`: runs a command on an environment as if it ran here: streams, signals, window size and exit code pass through. */
#include "cmd/cmd.h"

#include "cmd/command_args.h"
#include "cmd/pump.h"
#include "cmd/remote.h"

#include <unistd.h>

static int run(struct remote *r, const struct command_args *args, char **argv, bool wants_tty, bool no_stdin)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        struct farhand_command command = FARHAND_COMMAND_INIT;
        options.client_name = "farhand run";
        struct farhand *f = remote_connect(r, &options);
        if (!f)
                return PUMP_FAILED;
        int code = PUMP_FAILED;
        command.argv = (const char *const *)argv;
        command.tty = wants_tty;
        if (command_args_apply(args, r, f, wants_tty, &command) == 0)
                code = pump_run(r, f, &command, no_stdin);
        farhand_free(f);
        return code;
}

int cmd_run(int argc, char **argv)
{
        struct remote remote = { 0 };
        struct command_args command = { 0 };
        bool wants_tty = false, is_interactive = false, no_stdin = false;
        const struct arg table[] = {
                REMOTE_ARGS(&remote),
                { "tty", ARG_FLAG, NULL, "on a terminal: for programs that draw, or ask", .letter = 't',
                  .target = &wants_tty },
                { "interactive", ARG_FLAG, NULL, "pass our stdin on; it is, unless there is -n",
                  .letter = 'i', .target = &is_interactive },
                { "no-stdin", ARG_FLAG, NULL, "the command's stdin is empty", .letter = 'n',
                  .target = &no_stdin },
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
        else if (parsed == ARGS_OK)
                code = remote_choose(&remote) == 0 ? run(&remote, &command, argv + rest, wants_tty, no_stdin)
                                                   : PUMP_FAILED;
        arg_list_release(&command.env);
        remote_release(&remote);
        return code;
}
