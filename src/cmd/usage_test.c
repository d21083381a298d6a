/* usage_test: what the subcommands print about wrong command lines, and their exit codes. No server and no command is started. */
#include "cmd/cmd.h"

#include "base/fd.h"
#include "base/mem.h"
#include "cmd/sandbox_run.h"
#include "unit.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 8

static char printed[4096];

/* Runs the subcommand in a child, because it keeps its options in static memory. Fills `printed` with stderr, and returns
 * the exit code. `line`: the words, separated by blanks. */
static int run(int (*command)(int argc, char **argv), const char *line)
{
        char words[256], *argv[WORDS_MAX + 1] = { 0 };
        int argc = 0, status;
        must(strlen(line) < sizeof(words));
        memcpy(words, line, strlen(line) + 1);
        for (char *at = words, *word; (word = strsep(&at, " ")) && argc < WORDS_MAX;)
                argv[argc++] = word;
        _close_ int file = memfd_create("usage_test", MFD_CLOEXEC);
        must(file >= 0);
        fflush(stdout);
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0) {
                (void)dup2(file, STDERR_FILENO);
                _exit(command(argc, argv));
        }
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        ssize_t n = pread(file, printed, sizeof(printed) - 1, 0);
        ok(n >= 0);
        printed[n] = '\0';
        return WEXITSTATUS(status);
}

/* Checks the exit code, and that the first line printed is the complaint. */
static void refuses(int (*command)(int argc, char **argv), int code, const char *line, const char *complaint)
{
        eq_int(run(command, line), code);
        printed[strcspn(printed, "\n")] = '\0';
        eq_str(printed, complaint);
}

TEST(serve_refuses_values_that_it_does_not_know)
{
        refuses(cmd_serve, 2, "serve --ws-auth password",
                "error: invalid value 'password' for '--ws-auth': capability-token or signed-bearer-token");
        refuses(cmd_serve, 2, "serve --log-level loud",
                "error: invalid value 'loud' for '--log-level': debug, info, warn, error or off");
        refuses(cmd_serve, 2, "serve --log-format=xml",
                "error: invalid value 'xml' for '--log-format': text or json");
        refuses(cmd_serve, 2, "serve --sandbox-backend docker",
                "error: invalid value 'docker' for '--sandbox-backend': " BACKEND_WISHES);
        refuses(cmd_serve, 2, "serve --concurrent-requests 0",
                "error: invalid value '0' for '--concurrent-requests': must be at least 1");
        refuses(cmd_serve, 2, "serve --ws-max-clock-skew-seconds 86401",
                "error: invalid value '86401' for '--ws-max-clock-skew-seconds': must be at most 86400");
}

TEST(serve_takes_no_operand)
{
        refuses(cmd_serve, 2, "serve ws://127.0.0.1:0", "error: unexpected argument 'ws://127.0.0.1:0'");
        refuses(cmd_serve, 2, "serve -- x", "error: unexpected argument 'x'");
}

TEST(a_configuration_that_cannot_be_read_is_named)
{
        eq_int(run(cmd_serve, "serve --config /nonexistent/farhand.toml"), 1);
        ok(strncmp(printed, "Error: ", 7) == 0 && strstr(printed, "/nonexistent/farhand.toml"));
}

TEST(doctor_refuses_a_back_end_that_it_does_not_know)
{
        refuses(cmd_doctor, 2, "doctor --sandbox-backend docker",
                "error: invalid value 'docker' for '--sandbox-backend': " BACKEND_WISHES);
        refuses(cmd_doctor, 2, "doctor now", "error: unexpected argument 'now'");
        refuses(cmd_doctor, 2, "doctor --jsn", "error: unexpected argument '--jsn'");
}

TEST(sandbox_takes_one_kind_of_permissions)
{
        static const char only_one[] =
                "error: only one of --profile, --read-only and --workspace-write can be used";
        refuses(cmd_sandbox, SANDBOX_EXIT_OURS, "sandbox --read-only --workspace-write -- true", only_one);
        refuses(cmd_sandbox, SANDBOX_EXIT_OURS, "sandbox --profile f --read-only -- true", only_one);
        refuses(cmd_sandbox, SANDBOX_EXIT_OURS, "sandbox --git -- true",
                "error: --git needs --workspace-write");
}

TEST(sandbox_wants_its_command_behind_two_dashes)
{
        refuses(cmd_sandbox, SANDBOX_EXIT_OURS, "sandbox --read-only",
                "error: there is no command: it stands behind '--'");
        refuses(cmd_sandbox, SANDBOX_EXIT_OURS, "sandbox true",
                "error: the command stands behind '--'; unexpected argument: true");
        refuses(cmd_sandbox, SANDBOX_EXIT_OURS, "sandbox --sandbox-backend docker -- true",
                "error: --sandbox-backend is " BACKEND_WISHES ", not docker");
}

TEST(only_the_words_right_behind_workspace_write_are_directories)
{
        refuses(cmd_sandbox, SANDBOX_EXIT_OURS, "sandbox --workspace-write /a --network /b -- true",
                "error: the command stands behind '--'; unexpected argument: /b");
        eq_int(run(cmd_sandbox, "sandbox --workspace-write /nonexistent --explain"), SANDBOX_EXIT_OURS);
        eq_str(printed, "farhand sandbox: /nonexistent: No such file or directory\n");
}
