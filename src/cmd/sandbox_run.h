/* sandbox_run: runs a command under a profile: starts it, passes bytes and signals on, waits, and returns the exit code. */
#pragma once

#include "cmd/git_access.h"
#include "cmd/runner.h"
#include "policy/rules.h"
#include "sandbox/backend.h"

#define SANDBOX_EXIT_OURS 125 /* a failure of ours, not of the command, as with env(1) and timeout(1) */

struct sandbox_run {
        struct arena *arena;
        const struct profile *profile;
        const struct place *place;
        const char *cwd; /* where the command starts; NULL: in the cwd of the place */
        struct git_access *git;
        enum backend backend;                          /* the back end that was asked for */
        bool has_profile, is_workspace_write, has_git; /* the options that the profile was made from */
        bool is_quiet;                                 /* do not print what was refused */
        char **argv;                                   /* the command; at least one word */
};

/* Runs the command and returns the exit code. Prints failures. */
NODISCARD int sandbox_run(struct runner *runner, const struct sandbox_run *what);

/* Prints text, step, errno and remedy to stderr. Returns SANDBOX_EXIT_OURS. */
int sandbox_complain(const struct err *err);
/* Prints text without control characters, because names of files may contain any. */
void sandbox_print(FILE *to, struct slice text);
