/* decide: what happens with the start of one program. The server decides so about the first program of a command, and the broker about
 * all later programs. Pure. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"
#include "intercept/options.h"
#include "rules/exec_rules.h"

enum intercept_action {
        INTERCEPT_RUN,      /* as the caller wants it, in its sandbox */
        INTERCEPT_ESCALATE, /* outside of the sandbox */
        INTERCEPT_DENY,
        INTERCEPT_ASK,
};
const char *intercept_action_name(enum intercept_action action); /* "run", "escalate", "deny", "ask" */

/* What a process wants to execute. */
struct intercept_exec {
        struct slice file;        /* as it was passed to execve; may be relative to cwd */
        struct slice cwd;         /* absolute */
        const struct slice *argv; /* with argv[0], which takes no part in the decision */
        size_t argc;
};

struct intercept_verdict {
        enum intercept_action action;
        enum intercept_action
                accepted; /* for INTERCEPT_ASK: what a yes means, INTERCEPT_ESCALATE or INTERCEPT_RUN */
        const struct exec_rule *rule; /* the strictest rule that matched; NULL: no rule did */
        const char *reason;           /* for INTERCEPT_DENY; static */
};

#define INTERCEPT_FORBIDDEN "Execution forbidden by policy"

/* Returns the absolute path of the program, in the arena. `..` is taken lexically, which the kernel does not do: where a directory is a
 * link, the two paths name different files. So a program that is escalated must be executed by this path. */
NODISCARD struct slice intercept_path(struct arena *a, const struct intercept_exec *exec);
/* Decides about a start. The strictest rule that matches decides; when none matches, the options decide. Rules for the path of the
 * program match; rules for its base name match too, as far as host_executable allows it, with INTERCEPT_FULL only when no rule for the
 * path matches. The memory that the decision needs is in the arena. */
void intercept_decide(const struct intercept_options *options, const struct exec_rules *rules,
                      struct arena *a, const struct intercept_exec *exec, struct intercept_verdict *ret);
