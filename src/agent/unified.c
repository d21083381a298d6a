/* unified: `farhand unified`: makes a table as the options say, and carries its conversation until stdin ends. */
#include "agent/agent.h"

#include "agent/unified_lines.h"
#include "base/args.h"
#include "cli/remote.h"
#include "patch/store.h"
#include "talk/targets.h"

#define FAILED 255

struct wishes {
        struct target_wishes targets;
        const char *approval;
        bool no_login;
        uint64_t poll_most_ms, max_tokens, max_bytes;
};

static struct cut_budget make_budget(const struct wishes *w)
{
        if (w->max_bytes > 0)
                return (struct cut_budget){ .unit = CUT_BYTES, .bytes = w->max_bytes };
        if (w->max_tokens > 0)
                return (struct cut_budget){ .bytes = cut_token_bytes(w->max_tokens) };
        return CUT_NO_BUDGET;
}

/* ---- the command ---- */

static int talk(struct targets *targets, const struct wishes *w, enum approval_policy policy,
                const char *profile)
{
        struct err err = ERR_INIT;
        struct unified_options options = {
                .environments = targets->list,
                .environment_count = targets->count,
                .no_login = w->no_login,
                .poll_most_ms = w->poll_most_ms,
                .state_dir = store_directory(&targets->arena),
                .budget = make_budget(w),
        };
        struct approvals_asker asker;
        struct lines *lines = lines_new();
        lines_prepare(lines, &options, &asker);
        options.approvals = approvals_new(policy, profile, &asker, &err);
        struct unified *table = options.approvals ? unified_new(&options, &err) : NULL;
        int code = FAILED;
        if (table)
                code = lines_run(lines, table, options.approvals);
        else
                remote_say(&(struct remote){ 0 }, "%s", err.text);
        unified_free(table);
        approvals_free(options.approvals);
        lines_free(lines);
        return code;
}

static int run(const struct wishes *w)
{
        struct targets targets = { 0 };
        enum approval_policy policy = APPROVAL_ON_REQUEST;
        const char *profile;
        int code = FAILED;
        if (w->approval && !approval_policy_find(w->approval, &policy))
                code = args_refuse("approval", w->approval, "never, on-request, on-failure or untrusted") ==
                                       ARGS_BAD
                               ? 2
                               : FAILED;
        else if (targets_find(&targets, &w->targets, "farhand unified") == 0 &&
                 targets_profile(&targets, &w->targets, &profile) == 0)
                code = talk(&targets, w, policy, profile);
        targets_release(&targets);
        return code;
}

int cmd_unified(int argc, char **argv)
{
        struct wishes w = { 0 };
        const struct arg table[] = {
                TARGET_ARGS(&w.targets),
                { "approval", ARG_STRING, "POLICY",
                  "when to ask: never, on-request (the default), on-failure or untrusted",
                  .target = &w.approval },
                { "no-login", ARG_FLAG, NULL, "no login shells", .target = &w.no_login },
                { "max-poll-ms", ARG_U64, "MS", "the longest poll of a session (default: 300000)",
                  .target = &w.poll_most_ms, .min = 5000, .max = 86400000 },
                { "max-output-tokens", ARG_U64, "N", "the model takes so many tokens of output at most",
                  .target = &w.max_tokens, .min = 1 },
                { "max-output-bytes", ARG_U64, "N", "the same in bytes", .target = &w.max_bytes, .min = 1 },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand unified [OPTIONS]",
                .about = "Run commands and apply patches for an agent, which asks with lines of JSON on "
                         "stdin.",
                .table = table,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, NULL);
        int code = parsed == ARGS_OK ? run(&w) : args_exit_code(parsed);
        arg_list_release(&w.targets.names);
        return code;
}
