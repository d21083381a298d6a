/* run: `farhand run`: runs a command on an environment as if it ran here: streams, signals, window size and exit code pass through. */
#include "cli/cli.h"

#include "base/printable.h"
#include "cli/ask.h"
#include "cli/asker.h"
#include "cli/command_args.h"
#include "cli/detached.h"
#include "cli/network_args.h"
#include "cli/pump.h"
#include "cli/remote.h"
#include "cli/rules.h"
#include "wire/jsonw.h"

#include <stdio.h>
#include <unistd.h>

#define DAY_MS (24ULL * 3600 * 1000)
#define START_MS 60000

struct wishes {
        bool tty, no_stdin, detach, may_ask, is_json;
        struct arg_list rules;  /* --rules */
        bool has_default_rules; /* --default-rules */
        struct network_args network;
};

/* ---- detached ---- */

static void on_started(UNUSED struct farhand_process *p, void *arg, UNUSED int64_t pid)
{
        *(bool *)arg = true;
}

/* The ids are of this client and of its server, which chose the session's: any text. */
static void print_ids(const char *session, const char *process)
{
        _buf_ struct buf text = BUF_INIT(65536);
        struct jsonw w;
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        jsonw_member_str(&w, "id", detached_id(session));
        jsonw_member_str(&w, "sessionId", session);
        jsonw_member_str(&w, "processId", process);
        jsonw_object_end(&w);
        _arena_ struct arena a = ARENA_INIT;
        if (jsonw_end(&w) == 0)
                puts(printable_json(&a, buf_slice(&text)));
}

/* Starts the command, prints its id, and does not wait for its end. */
static int run_detached(struct remote *r, struct farhand *f, struct farhand_command *command, bool is_json)
{
        static const struct farhand_process_events events = { .on_started = on_started };
        struct farhand_error error = { 0 };
        bool has_started = false;
        const char *session = farhand_session_id(f);
        if (!detached_is_possible(r, f)) {
                remote_say(
                        r,
                        "a command ends with the connection to this environment: --detach is not possible");
                return PUMP_FAILED;
        }
        struct farhand_process *p = farhand_start(f, command, &events, &has_started, &error);
        while (p && !has_started && !farhand_process_is_closed(p) && farhand_wait(f, START_MS, &error) == 0)
                ;
        if (p && farhand_process_is_closed(p) && !has_started)
                (void)farhand_process_wait(p, 0, NULL, &error); /* fills `error` with the reason */
        if (has_started)
                remote_warn_of_start(r, p);
        const char *process_id = p ? arena_dup(&r->arena, slice_from_str(farhand_process_id(p))) : "";
        farhand_process_free(p);
        if (!has_started) {
                remote_say(r, "%s", error.text);
                return PUMP_FAILED;
        }
        detached_keep(r, session);
        if (is_json)
                print_ids(session, process_id);
        else
                printf("%s\n", detached_id(session));
        return fflush(stdout) == 0 ? 0 : PUMP_FAILED;
}

/* ---- attended ---- */

/* Asks whether a command that its sandbox has denied something may be run again without one. */
static bool may_go_outside(struct remote *r, const struct command_args *args,
                           const struct farhand_command *command)
{
        const struct approval_action action = { .environment_id = r->environment->id,
                                                .cwd = command->cwd,
                                                .argv = command->argv };
        const char *profile;
        return command_args_permissions(args, r, &profile) == 0 && profile &&
               ask_after_denial(profile, &action, NULL, 0);
}

static int run_attended(struct remote *r, struct farhand *f, const struct command_args *args,
                        struct farhand_command *command, const struct wishes *wishes)
{
        bool was_denied = false;
        int code = pump_run(r, f, command, wishes->no_stdin, false, &was_denied);
        if (!was_denied || !wishes->may_ask || !may_go_outside(r, args, command))
                return code;
        command->sandbox = NULL;
        command->network = NULL;
        /* Input from a pipe was given to the first run, so the second run gets none. */
        return pump_run(r, f, command, wishes->no_stdin || !isatty(STDIN_FILENO), false, NULL);
}

/* Reads the rules, which the server gets as text. Returns NULL after it has printed why on stderr. The result is in the arena. */
static const struct farhand_intercept *read_rules(struct remote *r, struct arena *a,
                                                  const struct wishes *wishes)
{
        struct farhand_intercept *ret = arena_new(a, struct farhand_intercept);
        struct farhand_rules_text *rules;
        struct exec_rules_text *texts;
        struct err err = ERR_INIT;
        size_t count;

        if (rules_files_read(a, &wishes->rules, wishes->has_default_rules, &texts, &count, &err) < 0) {
                remote_say(r, "%s", err.text);
                return NULL;
        }
        rules = arena_alloc(a, (count + 1) * sizeof(*rules));
        for (size_t i = 0; i < count; i++) {
                if (slice_has_nul(texts[i].text)) { /* the library would take the part before it */
                        remote_say(r, "%s: rules must not contain a nul byte",
                                   printable_str(a, texts[i].name));
                        return NULL;
                }
                rules[i] = (struct farhand_rules_text){ texts[i].name, texts[i].text.p };
        }
        *ret = (struct farhand_intercept)FARHAND_INTERCEPT_INIT;
        ret->rules = rules;
        ret->rule_count = count;
        if (wishes->detach || !asker_is_possible())
                ret->on_prompt = "deny"; /* nobody could answer */
        return ret;
}

/* Makes the network that the options and the rules say. A person who is asked may answer "always", which adds to the rules of the user:
 * so these count, too. */
static int make_network(struct remote *r, struct farhand *f, const struct command_args *args,
                        const struct wishes *wishes, const struct farhand_network **ret)
{
        bool has_default = wishes->has_default_rules || wishes->may_ask;
        _arena_ struct arena a = ARENA_INIT;
        struct exec_rules_text *texts;
        struct err err = ERR_INIT;
        size_t count;

        if (rules_files_read(&a, &wishes->rules, has_default, &texts, &count, &err) < 0) {
                remote_say(r, "%s", err.text);
                return err.code;
        }
        _exec_rules_ struct exec_rules *rules = exec_rules_new(texts, count, rules_cwd(&a), &err);
        if (!rules) {
                remote_say(r, "%s", err.text);
                return err.code;
        }
        const struct network_wishes network = {
                .args = &wishes->network,
                .command = args,
                .rules = rules,
                .may_ask = wishes->may_ask && asker_is_possible(),
        };
        return network_args_make(&network, r, f, ret);
}

static int run(struct remote *r, const struct command_args *args, char **argv, const struct wishes *wishes)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        struct farhand_command command = FARHAND_COMMAND_INIT;
        options.client_name = "farhand run";
        options.detach_ms = wishes->detach ? DAY_MS : 0;
        _arena_ struct arena a = ARENA_INIT;
        if (wishes->rules.count > 0 || wishes->has_default_rules) {
                command.intercept = read_rules(r, &a, wishes);
                if (!command.intercept)
                        return PUMP_FAILED;
        }
        struct farhand *f = remote_connect(r, &options);
        if (!f)
                return PUMP_FAILED;
        int code = PUMP_FAILED;
        command.argv = (const char *const *)argv;
        command.tty = wishes->tty;
        if (command_args_apply(args, r, f, wishes->tty, &command) == 0 &&
            make_network(r, f, args, wishes, &command.network) == 0)
                code = wishes->detach ? run_detached(r, f, &command, wishes->is_json)
                                      : run_attended(r, f, args, &command, wishes);
        farhand_free(f);
        return code;
}

int cmd_run(int argc, char **argv)
{
        struct remote remote = { 0 };
        struct command_args command = { 0 };
        struct wishes wishes = { 0 };
        bool is_interactive = false;
        const struct arg table[] = {
                REMOTE_ARGS(&remote),
                { "tty", ARG_FLAG, NULL, "on a terminal: for programs that draw, or ask", .letter = 't',
                  .target = &wishes.tty },
                { "interactive", ARG_FLAG, NULL, "pass our stdin on; it is, unless there is -n",
                  .letter = 'i', .target = &is_interactive },
                { "no-stdin", ARG_FLAG, NULL, "the command's stdin is empty", .letter = 'n',
                  .target = &wishes.no_stdin },
                { "detach", ARG_FLAG, NULL, "print an id and leave the command running", .letter = 'd',
                  .target = &wishes.detach },
                { "json", ARG_FLAG, NULL, "with --detach: print one JSON object", .target = &wishes.is_json },
                COMMAND_ARGS(&command),
                NETWORK_ARGS(&wishes.network),
                { "ask", ARG_FLAG, NULL,
                  "ask on the terminal: about hosts that a sandbox does not let it reach, and, when its "
                  "sandbox "
                  "denied something, whether to run it again without one",
                  .target = &wishes.may_ask },
                { "rules", ARG_LIST, "FILE",
                  "rules of this file decide about every program that the command starts; asks on the "
                  "terminal",
                  .target = &wishes.rules, .offers = OFFER_FILE },
                { "default-rules", ARG_FLAG, NULL,
                  "so do the rules of the directories that farhand rules check reads",
                  .target = &wishes.has_default_rules },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand run [OPTIONS] [--] COMMAND [ARG]...",
                .about = "Run a command on an environment: here, unless one is named. Streams, signals and "
                         "the exit "
                         "code pass through.",
                .table = table,
                .operands = OFFER_COMMAND,
                .behind = OFFER_COMMAND,
        };
        int rest = 0, code = 2;
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed == ARGS_HELP)
                code = 0;
        else if (parsed == ARGS_OK && rest == argc)
                fprintf(stderr, "error: farhand run needs a command\n");
        else if (parsed == ARGS_OK && wishes.is_json && !wishes.detach)
                fprintf(stderr, "error: --json is for --detach: what the command writes is its own\n");
        else if (parsed == ARGS_OK && wishes.may_ask && wishes.detach)
                fprintf(stderr, "error: --ask and --detach exclude each other\n");
        else if (parsed == ARGS_OK && command_args_check(&command) &&
                 network_args_check(&wishes.network, &command)) {
                int chosen = wishes.detach ? remote_choose_lasting(&remote, true) : remote_choose(&remote);
                code = chosen == 0 ? run(&remote, &command, argv + rest, &wishes) : PUMP_FAILED;
        }
        arg_list_release(&wishes.rules);
        network_args_release(&wishes.network);
        command_args_release(&command);
        remote_release(&remote);
        return code;
}
