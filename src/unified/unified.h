/* unified: the session table behind the tools exec_command, write_stdin and apply_patch.
 *
 * A process that still runs when its call has waited long enough becomes a session: later calls write to it, or poll it. A table has
 * one or more environments; it connects to an environment at the first call that needs it, and again at the next call after the
 * connection was lost.
 *
 * Nothing here blocks, except in threads that apply patches, and nothing is printed. Everything happens in unified_step(): call it when
 * unified_fd() is readable, or when unified_timeout_ms() has passed. Only unified_step() calls the callbacks; these may call any function
 * of this header but unified_free() and unified_step(). Approvals may be answered at any time outside of callbacks of the table.
 */
#pragma once

#include "approve/approve.h"
#include "farhand/farhand.h"
#include "unified/args.h"
#include "unified/tool_answer.h"

struct unified;
struct unified_call;

struct unified_environment {
        const char *id;
        const struct farhand_options
                *options; /* how the environment is reached; the state callback of the options is not used */
        bool is_local;    /* this machine: a call may name any known shell, not only that of the server */
        const char *cwd;  /* the workspace, absolute; NULL: the directory of the server */
        const char
                *key; /* names the environment in the records of patches (patch/store.h); NULL: the id does */
};

/* Valid during the callback. */
struct unified_result {
        const char *error; /* not NULL: the call has failed, for this reason, and all else is empty */
        int rpc_code; /* with an error: its code of JSON-RPC; 0: the error is a result, which the model reads */
        struct tool_answer answer;
        struct slice text;   /* for the model */
        struct slice output; /* the part of the text that is output */
        struct slice
                structured; /* the result of a tool of another form, as JSON of an object; empty: `answer` and `output` are the result */
        const char *image_type; /* of an image, which takes the place of the text; NULL: there is none */
        struct slice image;     /* its bytes */
};

enum unified_event_kind {
        UNIFIED_BEGIN,       /* a process has started */
        UNIFIED_DELTA,       /* a process has written output */
        UNIFIED_INTERACTION, /* a call has written to a process, or polled it */
        UNIFIED_END,         /* a process has ended: exactly one for each UNIFIED_BEGIN */
};

/* Valid during the callback. */
struct unified_event {
        enum unified_event_kind kind;
        const char *call_id; /* of the call of exec_command that started the process */
        const char *environment_id;
        int session_id;
        struct slice text; /* DELTA: output; INTERACTION: what was written; END: the transcript. UTF-8 */
        /* BEGIN and END */
        const char *const *argv;
        const char *cwd;
        bool tty;
        /* END */
        int exit_code; /* -1: unknown */
        uint64_t duration_us;
        const char *failure; /* why the process was lost; NULL: it was not */
};

/* The rules that decide about the programs below a command of `shell`. */
struct unified_rules {
        const struct farhand_rules_text *list;
        size_t count;
};

struct unified_shell {
        const char *bash;    /* the path of Bash on the machines; NULL: the bash that a server finds */
        bool has_full_names; /* rules for the name of a program count only where none is for its path */
        bool keeps_denials;  /* what the sandbox denies is not asked about */
        const struct unified_rules *rules; /* may change between calls; NULL: there are none */
};

struct unified_options {
        const struct unified_environment *environments;
        size_t environment_count;
        size_t default_index;
        struct approvals *approvals; /* the caller frees them, after the table */
        bool no_login;               /* login shells are forbidden */
        struct unified_shell shell;
        /* Makes the network of a command in a sandbox on this server, in the arena; NULL: what its profile says. Returns 0, or -errno with
         * *err: the command is not started. May be NULL. */
        int (*make_network)(void *network_arg, const struct farhand *f, struct arena *a,
                            const struct farhand_network **ret, struct err *err);
        void *network_arg;
        uint64_t poll_most_ms; /* the longest poll; 0: 300,000 */
        const char *state_dir; /* where patches keep their records; NULL: they keep none */
        struct cut_budget
                budget; /* the most text that the model takes; CUT_NO_BUDGET: as much as a call asks for */
        /* The result of a call, exactly once, unless the table is freed before. The call is gone afterwards. */
        void (*on_result)(void *arg, void *call_arg, const struct unified_result *result);
        void (*on_event)(void *arg, const struct unified_event *event);
        void *arg;
};

/* Copies the options, but not the approvals, and not what the options of clients point to: these must stay as long as the table. Returns
 * NULL with *err. */
struct unified *unified_new(const struct unified_options *options, struct err *err);
/* Ends all processes, and frees the table; no callback is called. NULL is fine. */
void unified_free(struct unified *u);

NODISCARD int unified_fd(const struct unified *u); /* for poll: readable when unified_step has work */
NODISCARD int unified_timeout_ms(
        const struct unified
                *u); /* for poll: in how many milliseconds unified_step has work in any case; -1: never */
void unified_step(struct unified *u);

/* Begins a call. `arguments` is JSON; `call_id` names the call in events and questions. Both are copied. Returns NULL when
 * LIMIT_UNIFIED_CALLS calls are under way. */
struct unified_call *unified_begin(struct unified *u, enum unified_tool tool, struct slice arguments,
                                   const char *call_id, void *call_arg);
/* Ends a call soon, with the error "cancelled". Its process runs on as a session; a question that it waits for is withdrawn. */
void unified_cancel(struct unified_call *call);
void unified_cancel_all(struct unified *u);
/* Ends a call as unified_cancel does, and with it the process that a call of exec_command has started. */
void unified_cancel_process(struct unified_call *call);
NODISCARD size_t unified_calls_count(const struct unified *u);

/* Makes these directories, absolute and ending with NULL, the workspace of the environments that are this machine: the profile means
 * them from now on, and the first one is where commands run. Copied. Processes that run keep what they have. */
void unified_set_workspace(struct unified *u, const char *const *roots);

/* While a table is paused no callback is called and nothing is read from servers, which hold output back. For callers that cannot take
 * more. */
void unified_pause(struct unified *u, bool is_paused);

/* Ends all processes. Their UNIFIED_END follows, as far as servers answer. */
void unified_end_sessions(struct unified *u);
/* Returns how many processes have begun and not ended. */
NODISCARD size_t unified_processes_count(const struct unified *u);

/* Writes the sessions as an array of objects, for people. */
void unified_write_sessions(const struct unified *u, struct jsonw *w);
