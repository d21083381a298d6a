/* mcp: `farhand mcp`: makes the table of the options, and talks until stdin ends; or runs one of its verbs. */
#include "mcp/mcp.h"

#include "base/args.h"
#include "base/fatal.h"
#include "base/limits.h"
#include "cli/remote.h"
#include "cli/verbs.h"
#include "env/environment.h"
#include "install/install.h"
#include "mcp/conversation.h"
#include "mcp/listen.h"
#include "mcp/network.h"
#include "mcphttp/relay.h"
#include "patch/store.h"
#include "talk/talk.h"
#include "talk/targets.h"

#define FAILED 255
#define POLL_MS 50000                          /* many clients give a call up after a minute */
#define SESSION_BATCH_BYTES ((size_t)32 * MIB) /* the listener holds messages of many sessions */

struct wishes {
        struct target_wishes targets;
        struct front_wishes front;
        bool is_session; /* stdin and stdout lead to the listener (mcphttp/relay.h) */
        const char *approval, *unasked;
        const char *bash;
        struct arg_list rules;
        struct mcp_network network;
        bool has_full_names, is_reference; /* mcp.h */
        bool no_login;
        uint64_t poll_most_ms, max_tokens;
};

/* The conversation over stdin and stdout. */
struct stdio {
        struct talk *talk;
        struct conversation *conversation;
        bool is_session;
};

static void on_line(void *arg, struct slice line)
{
        struct stdio *s = arg;
        uint64_t route = 0;
        enum relay_kind kind = RELAY_TO;
        struct slice text = line;
        if (!s->is_session || (relay_read(line, &route, &kind, &text) && kind == RELAY_TO))
                conversation_take(s->conversation, route, text);
}

static void on_long_line(void *arg)
{
        conversation_refuse_long(((struct stdio *)arg)->conversation);
}

static void on_turn(void *arg, uint64_t now_ms)
{
        struct stdio *s = arg;
        if (talk_has_ended(s->talk))
                conversation_end(s->conversation);
        else
                conversation_on_turn(s->conversation, now_ms);
}

static uint64_t due_ms(void *arg)
{
        return conversation_due_ms(((struct stdio *)arg)->conversation);
}

/* Tells the listener where the message goes. */
static void send_to_listener(struct stdio *s, uint64_t route, enum outbox_part part, struct buf *message)
{
        static const enum relay_kind kinds[] = {
                [OUTBOX_MORE] = RELAY_MORE, [OUTBOX_LAST] = RELAY_LAST, [OUTBOX_REFUSED] = RELAY_REFUSED
        };
        _buf_ struct buf line = BUF_INIT(message->n + RELAY_ROUTE_BYTES);
        must(relay_write(&line, route, kinds[part], buf_slice(message)) == 0);
        buf_release(message);
        talk_put(s->talk, &line);
}

static void send_line(void *arg, uint64_t route, enum outbox_part part, struct buf *message)
{
        struct stdio *s = arg;
        if (s->is_session) {
                send_to_listener(s, route, part, message);
                return;
        }
        if (message->n == 0)
                return;
        must(buf_append_char(message, '\n') == 0);
        talk_put(s->talk, message);
}

/* ---- the command ---- */

static const char *const *environment_ids(struct targets *t)
{
        const char **ids = arena_zalloc(&t->arena, (t->count + 1) * sizeof(*ids));
        for (size_t i = 0; i < t->count; i++)
                ids[i] = t->list[i].id;
        return ids;
}

/* A client that starts its servers in the root directory does not mean that commands may write everywhere. */
static void avoid_root_directory(struct targets *t, const struct wishes *w)
{
        for (size_t i = 0; i < t->count; i++)
                if (t->list[i].cwd && strcmp(t->list[i].cwd, "/") == 0 && !(i == 0 && w->targets.cwd))
                        t->list[i].cwd = "/tmp";
}

/* A client can name a workspace of this machine only, and not when the user has. */
static bool asks_for_roots(const struct targets *t, const struct wishes *w)
{
        for (size_t i = 0; i < t->count; i++)
                if (t->list[i].is_local)
                        return !w->targets.cwd;
        return false;
}

static int talk(struct targets *targets, const struct wishes *w, enum approval_policy policy,
                enum approval_answer unasked, const char *profile, struct rulebook *rulebook)
{
        struct err err = ERR_INIT;
        struct stdio s = { .is_session = w->is_session };
        struct approvals_asker asker;
        struct mcp_network network = w->network;
        network.rulebook = rulebook;
        network.is_open = w->targets.has_network;
        struct conversation_options conversation = {
                .environments = environment_ids(targets),
                .asks_for_roots = !w->is_reference && asks_for_roots(targets, w),
                .is_read_only = w->targets.is_read_only,
                .never_asks = policy == APPROVAL_NEVER,
                .is_reference = w->is_reference,
                .questions = { .unasked = unasked, .is_brief = w->is_reference, .rulebook = rulebook },
                .outbox = { .send = send_line,
                            .arg = &s,
                            .batch_max = w->is_session ? SESSION_BATCH_BYTES : 0 },
        };
        struct unified_options options = {
                .environments = targets->list,
                .environment_count = targets->count,
                .no_login = w->no_login,
                .shell = { .bash = w->bash,
                           .has_full_names = w->has_full_names,
                           .keeps_denials = w->is_reference,
                           .rules = rulebook_texts(rulebook) },
                .make_network = mcp_network_make,
                .network_arg = &network,
                .poll_most_ms = w->poll_most_ms ? w->poll_most_ms : POLL_MS,
                .state_dir = store_directory(&targets->arena),
                .budget = w->max_tokens > 0 ? (struct cut_budget){ .bytes = cut_token_bytes(w->max_tokens) }
                                            : CUT_NO_BUDGET,
        };
        s.conversation = conversation_new(&conversation);
        conversation_prepare(s.conversation, &options, &asker);
        struct talk_user user = { .on_line = on_line,
                                  .on_long_line = on_long_line,
                                  .on_turn = on_turn,
                                  .due_ms = due_ms,
                                  .arg = &s,
                                  .ends_at_once = true };
        s.talk = talk_new(&user);
        options.approvals = approvals_new(policy, profile, &asker, &err);
        struct unified *table = options.approvals ? unified_new(&options, &err) : NULL;
        int code = FAILED;
        if (table) {
                conversation_use(s.conversation, table, options.approvals);
                code = talk_run(s.talk, table, options.approvals);
        } else {
                remote_say(&(struct remote){ 0 }, "%s", err.text);
        }
        unified_free(table);
        approvals_free(options.approvals);
        conversation_free(s.conversation);
        talk_free(s.talk);
        return code;
}

/* Returns false after a complaint about an option. */
static bool read_words(const struct wishes *w, enum approval_policy *ret_policy,
                       enum approval_answer *ret_unasked)
{
        bool is_allow = w->unasked && strcmp(w->unasked, "allow") == 0;
        *ret_policy = APPROVAL_ON_REQUEST;
        *ret_unasked = is_allow ? APPROVAL_ONCE : APPROVAL_NO;
        if (w->approval && !approval_policy_find(w->approval, ret_policy))
                return args_refuse("approval", w->approval, "never, on-request, on-failure or untrusted") ==
                       ARGS_OK;
        if (w->unasked && !is_allow && strcmp(w->unasked, "deny") != 0)
                return args_refuse("unasked", w->unasked, "deny or allow") == ARGS_OK;
        return true;
}

static int run(const struct wishes *w)
{
        struct targets targets = { 0 };
        enum approval_policy policy;
        enum approval_answer unasked;
        const char *profile;
        struct err err = ERR_INIT;
        int code = FAILED;
        if (!read_words(w, &policy, &unasked))
                return 2;
        if (targets_find(&targets, &w->targets, "farhand mcp") == 0 &&
            targets_profile(&targets, &w->targets, &profile) == 0) {
                avoid_root_directory(&targets, w);
                struct rulebook *rulebook = rulebook_open(&w->rules, &err);
                if (rulebook)
                        code = talk(&targets, w, policy, unasked, profile, rulebook);
                else
                        remote_say(&(struct remote){ 0 }, "%s", err.text);
                rulebook_free(rulebook);
        }
        targets_release(&targets);
        return code;
}

static enum args_result parse(int argc, char **argv, struct wishes *w)
{
        const struct arg table[] = {
                TARGET_ARGS(&w->targets),
                { "approval", ARG_STRING, "POLICY",
                  "when to ask: never, on-request (the default), on-failure or untrusted",
                  .target = &w->approval },
                { "unasked", ARG_STRING, "WORD",
                  "the answer when the client cannot be asked: deny (the default) or allow",
                  .target = &w->unasked },
                { "rules", ARG_LIST, "FILE",
                  "more rules for the programs that shell starts; may be given more than once",
                  .target = &w->rules, .letter = 'r', .offers = OFFER_FILE },
                { "bash", ARG_STRING, "PATH", "the Bash of shell (default: that of the machine)",
                  .target = &w->bash },
                { "no-login", ARG_FLAG, NULL, "no login shells", .target = &w->no_login },
                { "max-poll-ms", ARG_U64, "MS", "the longest poll of a session (default: 50000)",
                  .target = &w->poll_most_ms, .min = 5000, .max = 86400000 },
                { "max-output-tokens", ARG_U64, "N", "the model takes so many tokens of output at most",
                  .target = &w->max_tokens, .min = 1 },
                MCP_NETWORK_ARGS(&w->network),
                FRONT_ARGS(&w->front),
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand mcp [OPTIONS]\n       farhand mcp --listen URL [OPTIONS]\n       farhand "
                         "mcp install CLIENT [OPTIONS] [-- ARG...]\n"
                         "       farhand mcp uninstall CLIENT [OPTIONS]",
                .about = "Run commands and apply patches for an agent, as an MCP server on stdin and stdout.",
                .table = table,
        };
        return args_parse(&spec, argc, argv, NULL);
}

static void release(struct wishes *w)
{
        arg_list_release(&w->targets.names);
        arg_list_release(&w->rules);
        mcp_network_release(&w->network);
        arg_list_release(&w->front.hosts);
}

/* Says whether the server takes these arguments, and complains when it does not. */
static bool takes(int argc, char **argv)
{
        struct wishes w = { 0 };
        enum approval_policy policy;
        enum approval_answer unasked;

        bool is_good = parse(argc, argv, &w) == ARGS_OK && read_words(&w, &policy, &unasked) &&
                       mcp_network_check(&w.network) && front_check(&w.front);
        if (w.front.listen) {
                fprintf(stderr, "Error: a client that starts its server uses no --listen\n");
                is_good = false;
        }
        release(&w);
        return is_good;
}

static int install(int argc, char **argv)
{
        return install_add(argc, argv, takes);
}

static const struct command verbs[] = {
        { "install", "put it into the configuration of a client", install },
        { "uninstall", "take it out of the configuration of a client", install_remove },
        { .name = NULL },
};

int cmd_mcp(int argc, char **argv)
{
        const struct command *verb = argc > 1 ? verbs_find(verbs, argv[1]) : NULL;
        struct wishes w = { .is_session = listen_is_session() };
        int code;

        if (verb)
                return verb->run(argc - 1, argv + 1);
        enum args_result parsed = parse(argc, argv, &w);
        if (parsed != ARGS_OK)
                code = args_exit_code(parsed);
        else if (!mcp_network_check(&w.network) || !front_check(&w.front))
                code = 2;
        else if (w.front.listen && !w.is_session)
                code = listen_run(&w.front, argc, argv);
        else
                code = run(&w);
        if (args_wants_table(argc, argv))
                code = verbs_print_rows("verb", verbs);
        release(&w);
        return code;
}

/* ---- by the name of the reference's server ---- */

bool mcp_is_named_reference(const char *program)
{
        const char *slash = strrchr(program, '/');
        return strcmp(slash ? slash + 1 : program, "codex-exec-mcp-server") == 0;
}

/* It runs the shell here, in a sandbox that writes nothing until the client says what it may do. */
static int run_reference(struct wishes *w)
{
        const char *here[] = { ENVIRONMENT_LOCAL_ID };
        if (!w->bash)
                w->bash = getenv("CODEX_BASH_PATH");
        if (!w->bash) {
                fprintf(stderr, "Error: CODEX_BASH_PATH must be set\n");
                return 1;
        }
        w->is_reference = true;
        w->targets.is_read_only = true;
        w->targets.names = (struct arg_list){ .items = here, .count = 1 };
        int code = run(w);
        return code == FAILED ? 1 : code;
}

int cmd_mcp_reference(int argc, char **argv)
{
        struct wishes w = { 0 };
        const char *execve_wrapper = NULL;
        bool wants_version = false;
        const struct arg table[] = {
                { "execve", ARG_STRING, "PATH", "taken for compatibility: the kernel tells us of programs",
                  .target = &execve_wrapper, .offers = OFFER_FILE },
                { "bash", ARG_STRING, "PATH", "the Bash to run (default: CODEX_BASH_PATH)", .target = &w.bash,
                  .offers = OFFER_FILE },
                { "preserve-program-paths", ARG_FLAG, NULL,
                  "rules see the whole path of a program, and not its name alone",
                  .target = &w.has_full_names },
                { "version", ARG_FLAG, NULL, "print the version", .target = &wants_version, .letter = 'V' },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "codex-exec-mcp-server [OPTIONS]",
                .about = "Run a shell for an agent, as an MCP server on stdin and stdout.",
                .table = table,
        };
        switch (args_parse(&spec, argc, argv, NULL)) {
        case ARGS_HELP:
                return 0;
        case ARGS_BAD:
                return 2;
        case ARGS_OK:
                break;
        }
        if (!wants_version)
                return run_reference(&w);
        printf("farhand %s\n", FARHAND_VERSION);
        return 0;
}
