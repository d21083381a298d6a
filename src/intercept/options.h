/* options: how the starts of programs below one command are decided, as the client asked for it. Plain data. */
#pragma once

#include "base/compat.h"

/* Which starts are decided. */
enum intercept_scope {
        INTERCEPT_ALL,   /* of every process of the command */
        INTERCEPT_SHELL, /* of those processes that run the command's first program, a shell */
        INTERCEPT_BELOW, /* of every process of the command, but not that of the first program itself */
};

/* What takes the place of the first word when rules are asked about a program. */
enum intercept_names {
        INTERCEPT_BASE, /* the last component of the path of the program */
        INTERCEPT_FULL, /* the absolute path of the program */
};

/* What happens when a rule or the heuristic says that somebody has to be asked. */
enum intercept_prompt { INTERCEPT_PROMPT_ASK, INTERCEPT_PROMPT_DENY };

/* What decides about a program that no rule matches. */
enum intercept_unmatched {
        INTERCEPT_UNMATCHED_HEURISTIC, /* rules/exec_heuristic.h */
        INTERCEPT_UNMATCHED_RUN,
        INTERCEPT_UNMATCHED_ASK,
};

struct intercept_options {
        enum intercept_scope scope;
        enum intercept_names names;
        enum intercept_prompt on_prompt;
        enum intercept_unmatched on_unmatched;
        bool reports; /* the client is also told of programs about which nobody was asked */
};
