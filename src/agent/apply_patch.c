/* apply_patch: `farhand apply-patch`, and the program apply_patch: a patch in the format of coding agents is applied to the files of
 * an environment. */
#include "agent/agent.h"

#include "agent/apply_patch_show.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/ask.h"
#include "cli/command_args.h"
#include "patch/store.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define DIFF_MAX ((size_t)256 * 1024 * 1024)

enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

struct wishes {
        bool is_dry_run, is_undo, is_partial, is_json, may_ask;
};

/* One run of the program: its options, its patch and its connection. */
struct run {
        struct remote remote;
        struct command_args command;
        struct wishes wishes;
        struct arena arena;
        struct patch patch;
        struct farhand *client;
        struct patch_options options;
};

/* ---- the patch ---- */

/* Reads the patch from stdin. Returns -1, or the exit code after a message. */
static int read_stdin(struct buf *text)
{
        int r = fd_read_rest(STDIN_FILENO, LIMIT_PATCH_BYTES, text);
        if (r == 0 && text->n == 0) {
                fputs("Usage: apply_patch 'PATCH'\n       echo 'PATCH' | apply_patch\n", stderr);
                return EXIT_USAGE;
        }
        if (r == 0 && utf8_is_valid(buf_slice(text)))
                return -1;
        fprintf(stderr, "Error: Failed to read PATCH from stdin.\n%s\n",
                r == -EFBIG ? "the patch is larger than 16 MiB"
                : r < 0     ? errno_text(r)
                            : "stream did not contain valid UTF-8");
        return EXIT_FAILED;
}

/* Gets the patch of the operands, or of stdin. Returns -1, or the exit code after a message. */
static int read_patch(char **operands, int count, struct buf *text)
{
        if (count > 1) {
                fputs("Error: apply_patch accepts exactly one argument.\n", stderr);
                return EXIT_USAGE;
        }
        if (count == 0)
                return read_stdin(text);
        struct slice given = slice_from_str(operands[0]);
        if (!utf8_is_valid(given) || buf_append(text, given) < 0) {
                fputs("Error: apply_patch requires a UTF-8 PATCH argument.\n", stderr);
                return EXIT_FAILED;
        }
        return -1;
}

/* Reports an error that is found before the server is asked. Returns the exit code. */
static int fail_early(struct run *run, const char *error)
{
        struct patch_result result = { .exit_code = EXIT_FAILED,
                                       .error = arena_printf(&run->arena, "%s\n", error),
                                       .notes = "" };
        if (run->wishes.is_json)
                (void)apply_patch_report(&result, "apply", NULL);
        else
                apply_patch_say(stderr, result.error);
        return EXIT_FAILED;
}

/* ---- the environment ---- */

static bool has_sandbox(const struct run *run)
{
        return run->command.is_read_only || run->command.is_workspace_write || run->command.profile_file;
}

/* Connects to the server, unless the files are here and nothing limits what may be done to them. */
static int connect_server(struct run *run)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        options.client_name = "farhand apply-patch";
        if (run->remote.environment->kind == ENVIRONMENT_LOCAL && !has_sandbox(run))
                return 0;
        run->client = remote_connect(&run->remote, &options);
        if (!run->client)
                return -ENOTCONN;
        if (!run->options.cwd)
                run->options.cwd = remote_server_cwd(&run->remote, run->client);
        if (run->options.cwd)
                return command_args_sandbox(&run->command, &run->remote, run->client, run->options.cwd,
                                            &run->options.sandbox);
        remote_say(&run->remote, "this server does not tell its directory: say which with -C DIR");
        return -ENOENT;
}

/* Finds out where paths begin and what is allowed. Returns 0, or -errno after a message. */
static int begin(struct run *run)
{
        int r = command_args_cwd(&run->command, &run->remote, &run->options.cwd);
        if (r == 0)
                r = connect_server(run);
        run->options.is_partial = run->wishes.is_partial;
        run->options.state_dir = store_directory(&run->arena);
        run->options.environment_key = environment_key(&run->arena, run->remote.environment);
        return r;
}

/* ---- the work ---- */

/* Prints how the run ended. Returns the exit code. */
static int finish(struct run *run, const struct patch_result *result, const char *what,
                  const struct buf *diff)
{
        bool is_written = true;
        if (run->wishes.is_json) {
                is_written = apply_patch_report(result, what, diff);
        } else {
                apply_patch_say(stderr, result->notes);
                apply_patch_say(stdout, result->out);
                is_written = fflush(stdout) == 0;
                apply_patch_say(stderr, result->error);
        }
        if (!is_written)
                remote_say(&run->remote, "cannot write the output: %s", errno_text(errno));
        return is_written ? result->exit_code : EXIT_FAILED;
}

static int preview(struct run *run)
{
        _patch_result_ struct patch_result result;
        _buf_ struct buf kept = BUF_INIT(DIFF_MAX);
        struct diff_output output = diff_output_begin();
        struct edits_sink sink = { .write = diff_output_write, .arg = &output };
        output.kept = run->wishes.is_json ? &kept : NULL;
        (void)patch_preview(run->client, &run->patch, &run->options, &sink, &result);
        return finish(run, &result, "preview", output.kept);
}

static int undo(struct run *run)
{
        _patch_result_ struct patch_result result;
        (void)patch_undo(run->client, &run->options, &result);
        return finish(run, &result, "undo", NULL);
}

/* Asks the person at the terminal whether a patch that was denied may be applied outside of the sandbox. `real_paths` are the paths that
 * it reads and changes there. */
static bool may_go_outside(struct run *run, const struct patch_result *denied, const char *const *real_paths)
{
        const struct approval_action action = {
                .environment_id = run->remote.environment->id,
                .cwd = run->options.cwd,
                .paths = patch_paths(&run->arena, &run->patch, run->options.cwd),
                .real_paths = real_paths,
        };
        size_t omitted;
        _free_ char *denials = patch_denials_json(denied, NULL, &omitted);
        const char *profile;
        return command_args_permissions(&run->command, &run->remote, &profile) == 0 && profile &&
               ask_after_denial(profile, &action, denials, omitted);
}

/* Asks whether a patch that was denied may be applied without the sandbox, and applies it after a yes: to the files that the person was
 * shown, whatever links lead to by then. */
static void apply_outside(struct run *run, struct patch_result *result)
{
        _patch_result_ struct patch_result look;
        struct patch_options outside = run->options;
        outside.sandbox = NULL;
        if (patch_look(run->client, &run->patch, &outside, &look) < 0 ||
            !may_go_outside(run, result, look.real_paths))
                return;
        outside.real_paths = look.real_paths;
        patch_result_release(result);
        (void)patch_apply(run->client, &run->patch, &outside, result);
}

static int apply(struct run *run)
{
        _patch_result_ struct patch_result result;
        (void)patch_apply(run->client, &run->patch, &run->options, &result);
        if (result.is_denied && run->wishes.may_ask)
                apply_outside(run, &result);
        return finish(run, &result, "apply", NULL);
}

static int run_patch(struct run *run, char **operands, int count)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_PATCH_BYTES);
        struct patch_error error;
        int code = -1;
        if (!run->wishes.is_undo)
                code = read_patch(operands, count, &text);
        if (code >= 0)
                return code;
        if (!run->wishes.is_undo && patch_parse(&run->arena, buf_slice(&text), &run->patch, &error) < 0)
                return fail_early(run, patch_error_text(&run->arena, &error));
        if (!run->wishes.is_undo && run->patch.hunk_count == 0)
                return fail_early(run, "No files were modified.");
        code = EXIT_FAILED;
        if (begin(run) == 0)
                code = run->wishes.is_undo ? undo(run) : run->wishes.is_dry_run ? preview(run) : apply(run);
        farhand_free(run->client);
        return code;
}

/* ---- command lines ---- */

bool apply_patch_is_named(const char *program)
{
        const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
        return strcmp(name, "apply_patch") == 0 || strcmp(name, "applypatch") == 0;
}

int apply_patch_main(int argc, char **argv, const struct patch_near *near)
{
        struct run run = { .remote.env_name = ENVIRONMENT_LOCAL_ID, .options.near = near };
        int code = remote_choose(&run.remote) == 0 ? run_patch(&run, argv + 1, argc - 1) : EXIT_FAILED;
        remote_release(&run.remote);
        arena_release(&run.arena);
        return code;
}

int agent_apply_patch(int argc, char **argv, const struct patch_near *near)
{
        struct run run = { .options.near = near };
        struct wishes *wishes = &run.wishes;
        const struct arg table[] = {
                REMOTE_ARGS(&run.remote),
                { "cwd", ARG_STRING, "DIR",
                  "paths in the patch are relative to this directory (default: this one; on another machine "
                  "the server's)",
                  .letter = 'C', .target = &run.command.cwd, .offers = OFFER_DIRECTORY },
                { "read-only", ARG_FLAG, NULL, "in a sandbox: nothing may be written",
                  .target = &run.command.is_read_only },
                { "workspace-write", ARG_FLAG, NULL,
                  "in a sandbox: files in the directory and in /tmp may be written",
                  .target = &run.command.is_workspace_write },
                { "profile", ARG_STRING, "FILE", "in a sandbox: a permission profile (JSON)",
                  .target = &run.command.profile_file, .offers = OFFER_FILE },
                { "ask", ARG_FLAG, NULL, "ask on the terminal what to do when the sandbox refuses the patch",
                  .target = &wishes->may_ask },
                { "partial", ARG_FLAG, NULL, "what comes before a part that fails stays changed",
                  .target = &wishes->is_partial },
                { "dry-run", ARG_FLAG, NULL, "show what would change, and change nothing", .letter = 'n',
                  .target = &wishes->is_dry_run },
                { "undo", ARG_FLAG, NULL, "take the last patch back, if nothing was changed since",
                  .target = &wishes->is_undo },
                { "json", ARG_FLAG, NULL, "print a report for programs", .target = &wishes->is_json },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand apply-patch [OPTIONS] [PATCH]",
                                   .about =
                                           "Apply a patch of a coding agent, from the argument or stdin: all "
                                           "of it or nothing.",
                                   .table = table };
        int rest = 0, code = EXIT_USAGE;
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed == ARGS_HELP)
                code = EXIT_DONE;
        else if (parsed == ARGS_OK && wishes->is_undo && (rest < argc || wishes->is_dry_run))
                fprintf(stderr, "error: --undo takes neither a patch nor --dry-run\n");
        else if (parsed == ARGS_OK)
                code = remote_choose(&run.remote) == 0 ? run_patch(&run, argv + rest, argc - rest)
                                                       : EXIT_FAILED;
        remote_release(&run.remote);
        arena_release(&run.arena);
        return code;
}
