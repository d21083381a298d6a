/* intercept: the member `intercept` of process/start, and the params of process/execDecide (docs/PROTOCOL.md). Plain data; slices live
 * as long as the request. */
#pragma once

#include "proto/decode.h"

struct intercept_rules_text {
        const char *name;
        struct slice text;
};

enum intercept_scope_wish { INTERCEPT_SCOPE_ALL, INTERCEPT_SCOPE_SHELL, INTERCEPT_SCOPE_BELOW };

enum intercept_rest {
        INTERCEPT_REST_HEURISTIC,
        INTERCEPT_REST_RUN,
        INTERCEPT_REST_ASK,
};

/* How it is noticed that a program is to be started. */
enum intercept_mechanism {
        INTERCEPT_MECHANISM_ANY, /* a filter, or where the kernel cannot do that a library */
        INTERCEPT_MECHANISM_SECCOMP,
        INTERCEPT_MECHANISM_PRELOAD,
        INTERCEPT_MECHANISM_WRAPPER, /* the shell asks by its wrapper */
};

struct process_intercept {
        const struct intercept_rules_text *rules;
        size_t rule_count;
        /* SHELL: only what the first program starts; BELOW: everything; both without the first program itself. */
        enum intercept_scope_wish scope;
        bool has_full_names;      /* programNames */
        bool denies_prompts;      /* onPrompt */
        enum intercept_rest rest; /* onUnmatched */
        bool reports;
        enum intercept_mechanism mechanism;
        const char *wrapper; /* NULL: the one that is installed with the server */
};
/* Decodes the value of the member. The rules are read by rules/exec_rules.h later. */
void process_intercept_decode(struct decoder *outer, const struct json *value, struct process_intercept *ret);

enum exec_decided { EXEC_DECIDED_RUN, EXEC_DECIDED_ESCALATE, EXEC_DECIDED_DENY };

struct process_exec_decide {
        struct slice process_id;
        struct slice session_id; /* p == NULL: the client's own session */
        struct slice request_id;
        enum exec_decided decision;
        struct slice reason; /* p == NULL: none */
        bool is_remembered;
};
NODISCARD params_decode process_exec_decide_decode;
