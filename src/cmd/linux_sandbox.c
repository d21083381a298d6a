/* linux_sandbox: what farhand does under the name `codex-linux-sandbox`: it runs a command under the policies in its arguments,
 * like the program of that name (proto/linux_sandbox.h). The exit codes are those of `farhand sandbox`. */
#include "cmd/cmd.h"

#include "base/mem.h"
#include "cmd/sandbox_run.h"
#include "policy/env.h"
#include "proto/linux_sandbox.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static int decode(struct arena *a, int argc, char **argv, struct linux_sandbox *ret, struct err *err)
{
        struct slice *words = arena_alloc(a, (size_t)argc * sizeof(*words));
        for (int i = 0; i < argc; i++)
                words[i] = slice_from_str(argv[i]);
        words[0] = S(LINUX_SANDBOX_NAME);
        return linux_sandbox_decode(a, words, (size_t)argc, ret, err);
}

int cmd_linux_sandbox(int argc, char **argv)
{
        _arena_ struct arena a = ARENA_INIT;
        struct runner runner = { .spawner = NULL };
        struct git_access git = GIT_ACCESS_INIT;
        struct err err = ERR_INIT;
        struct linux_sandbox w;

        /* The spawner is forked before anything is opened or read, because it is a copy of this process. */
        if (runner_open(&runner, &err) < 0 || decode(&a, argc, argv, &w, &err) < 0) {
                runner_close(&runner);
                return sandbox_complain(&err);
        }
        char room[PATH_MAX];
        const char *cwd = w.command_cwd.p ? w.command_cwd.p : getcwd(room, sizeof(room));
        struct slice tmpdir = env_tmpdir(&a, getenv("TMPDIR"), slice_from_str(cwd ? cwd : ""));
        struct place place = sandbox_context_place(&w.context, w.context.cwd, tmpdir);
        const struct sandbox_run run = {
                .arena = &a,
                .profile = &w.context.profile,
                .place = &place,
                .cwd = cwd,
                .git = &git,
                .backend = BACKEND_AUTO,
                .has_profile = true,
                .is_quiet = true,
                .argv = argv + w.command_at,
        };
        int code = sandbox_run(&runner, &run);
        runner_close(&runner);
        git_access_release(&git);
        return code;
}
