/* main: finds the subcommand, or the program by whose name we were started, and runs it. Each subcommand has a file of its own. */
#include "cmd/cmd.h"

#include "agent/agent.h"
#include "base/args.h"
#include "base/err.h"
#include "base/slice.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "door/connect.h"
#include "farfs/farfs.h"
#include "mcp/mcp.h"
#include "proto/linux_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static const struct command commands[] = {
        { "run", "run a command on an environment, or here", cmd_run },
        { "shell", "a login shell that goes on when you leave it", cmd_shell },
        { "attach", "go on with a command that runs detached", cmd_attach },
        { "ps", "list what runs on a server", cmd_ps },
        { "logs", "print what a command has written", cmd_logs },
        { "kill", "send a signal to commands", cmd_kill },
        { "fs", "list, read, write and watch files of an environment, or here", cmd_fs },
        { "cp", "copy files and directories from or to an environment", cmd_cp },
        { "apply-patch", "apply a patch to files of an environment, or here: all of it or nothing",
          cmd_apply_patch },
        { "connect", "a door to an environment for programs that know only a URL", cmd_connect },
        { "unified", "exec_command and write_stdin for agents, as lines of JSON", cmd_unified },
        { "mcp", "the same tools for any agent, as an MCP server", cmd_mcp },
        { "serve", "run the exec server", cmd_serve },
        { "exec-server", "the same, by the name that other clients know", cmd_serve },
        { "sandbox", "run a command here under a permission profile", cmd_sandbox },
        { "doctor", "say what can be enforced here, and what cannot", cmd_doctor },
        { "env", "show and add environments: machines on which commands run", cmd_env },
        { "rules", "say what rules decide about a command, and add rules", cmd_rules },
        { "egress", "run a command, and say which hosts it needs", cmd_egress },
        { .name = NULL },
};

static void print_help(FILE *to)
{
        fprintf(to,
                "farhand %s: run commands and touch files on another machine\n\nUsage: farhand COMMAND "
                "[OPTIONS]\n\n",
                FARHAND_VERSION);
        verbs_print(to, commands);
        fprintf(to, "\n`farhand COMMAND --help` explains one. farhand(1) explains all.\n");
}

/* Opens /dev/null for those of the descriptors 0, 1 and 2 that a supervisor has started us without: the next descriptor that we
 * open must not become one of them. */
static bool fill_stdio(void)
{
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
                if (fcntl(fd, F_GETFD) >= 0)
                        continue;
                if (open("/dev/null", O_RDWR | O_CLOEXEC) != fd) { /* open takes the lowest that is free */
                        fprintf(stderr,
                                "farhand: descriptor %d is closed, and /dev/null cannot be opened in its "
                                "place: "
                                "%s\n",
                                fd, errno_text(errno));
                        return false;
                }
        }
        return true;
}

int main(int argc, char **argv)
{
        if (!fill_stdio())
                return 1;
        if (argc > 0 && linux_sandbox_is_named(slice_from_str(argv[0])))
                return cmd_linux_sandbox(argc, argv);
        if (argc > 0 && apply_patch_is_named(argv[0]))
                return cmd_apply_patch_by_name(argc, argv);
        if (argc > 0 && mcp_is_named_reference(argv[0]))
                return cmd_mcp_reference(argc, argv);
        const char *name = argc > 1 ? argv[1] : "";
        if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
                printf("farhand %s\n", FARHAND_VERSION);
                return 0;
        }
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
                print_help(stdout);
                return 0;
        }
        if (args_wants_table(argc, argv)) {
                printf("option\t-h\t--help\t-\tnothing\tonce\tPrint the list of commands\n"
                       "option\t-V\t--version\t-\tnothing\tonce\tPrint the version\n");
                return verbs_print_rows("command", commands);
        }
        const struct command *command = verbs_find(commands, name);
        if (command)
                return command->run(argc - 1, argv + 1);
        if (argc > 1)
                fprintf(stderr, "error: unknown command '%s'\n\n", name);
        print_help(stderr);
        return 2;
}
