/* sandbox_run: `farhand sandbox` from a profile to an exit code: starts the command, passes bytes and signals on, waits. */
#pragma once

#include "cmd/git_access.h"
#include "cmd/runner.h"
#include "policy/rules.h"
#include "sandbox/backend.h"

#define SANDBOX_EXIT_OURS 125 /* as env(1) and timeout(1): not the command's */

struct sandbox_run {
        struct arena *arena;
        const struct profile *profile;
        const struct place *place; /* the command starts in its cwd */
        struct git_access *git;
        enum backend backend; /* that was asked for */
        char **argv;          /* at least one */
};

/* The exit code. What went wrong was printed. */
NODISCARD int sandbox_run(struct runner *runner, const struct sandbox_run *what);

/* Text, step, errno and remedy to stderr. Returns SANDBOX_EXIT_OURS. */
int sandbox_complain(const struct err *err);
/* Names of files are not ours: nothing in them may speak to a terminal. */
void sandbox_print(FILE *to, struct slice text);
