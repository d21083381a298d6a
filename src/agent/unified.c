/* unified: `farhand unified`: makes the table of the options, and talks until stdin ends. */
#include "agent/agent.h"

#include "agent/unified_talk.h"
#include "approve/permissions.h"
#include "base/args.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/remote.h"
#include "env/environments_file.h"
#include "patch/store.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define FAILED 255

struct wishes {
        struct arg_list names; /* --env */
        const char *url, *cwd, *approval, *profile_file;
        bool is_read_only, is_workspace_write, is_open, has_network, no_login;
        uint64_t poll_most_ms, max_tokens, max_bytes;
};

/* The environments of the table. */
struct places {
        struct arena arena;
        size_t count;
        struct remote *remotes;
        struct farhand_options *options;
        struct unified_environment *list;
};

static int say(const char *text)
{
        remote_say(&(struct remote){ 0 }, "%s", text);
        return -EINVAL;
}

/* ---- environments ---- */

/* Returns the key of an environment in the records of patches. `farhand apply-patch` makes the same keys, so that it can repair and undo
 * patches of agents. */
static const char *environment_key(struct arena *a, const struct environment *e)
{
        const char *key = e->url ? e->url : e->id;
        for (size_t i = 0; e->argv && e->argv[i]; i++)
                key = arena_printf(a, "%s %s", key, e->argv[i]);
        return key;
}

static int add_place(struct places *p, const struct environment *e)
{
        for (size_t i = 0; i < p->count; i++)
                if (strcmp(p->list[i].id, e->id) == 0)
                        return say(arena_printf(&p->arena, "the environment %s is named twice", e->id));
        struct remote *r = &p->remotes[p->count];
        struct farhand_options *o = &p->options[p->count];
        *r = (struct remote){ .environment = e };
        *o = (struct farhand_options)FARHAND_OPTIONS_INIT;
        remote_apply(r, o);
        o->client_name = "farhand unified";
        p->list[p->count++] = (struct unified_environment){ .id = e->id,
                                                            .options = o,
                                                            .is_local = remote_is_local(r),
                                                            .key = environment_key(&p->arena, e) };
        return 0;
}

static void make_room(struct places *p, size_t count)
{
        p->remotes = arena_zalloc(&p->arena, count * sizeof(*p->remotes));
        p->options = arena_zalloc(&p->arena, count * sizeof(*p->options));
        p->list = arena_zalloc(&p->arena, count * sizeof(*p->list));
}

/* Finds the environment that an option names, and adds it. NULL, NULL: the primary one, and behind it all others. */
static int add_named(struct places *p, const char *url, const char *name)
{
        struct environments all;
        struct err err = ERR_INIT;
        int r = environments_load(&p->arena, url, name, &all, &err);
        if (r < 0)
                return say(err.text);
        if (!environments_default(&all))
                return say(all.is_disabled ? "the configuration says that there is no environment"
                                           : "the configuration names no default environment; say which with "
                                             "--env NAME");
        if (url || name)
                return add_place(p, environments_default(&all));
        make_room(p, all.count);
        r = add_place(p, environments_default(&all));
        for (size_t i = 0; r == 0 && i < all.count; i++)
                if (i != all.default_index)
                        r = add_place(p, &all.list[i]);
        return r;
}

static int find_places(struct places *p, const struct wishes *w)
{
        if (!w->url && w->names.count == 0)
                return add_named(p, NULL, NULL);
        make_room(p, w->names.count + 1);
        int r = w->url ? add_named(p, w->url, NULL) : 0;
        for (size_t i = 0; r == 0 && i < w->names.count; i++)
                r = add_named(p, NULL, w->names.items[i]);
        return r;
}

/* Gives the first environment the directory of -C. On this machine that may be relative, and without -C it is our working directory. */
static int choose_directories(struct places *p, const char *cwd)
{
        char *here = getcwd(NULL, 0);
        if (!here)
                return say("there is no working directory");
        const char *ours = arena_dup(&p->arena, slice_from_str(here));
        free(here);
        for (size_t i = 0; i < p->count; i++)
                p->list[i].cwd = p->list[i].is_local ? ours : NULL;
        if (!cwd)
                return 0;
        if (cwd[0] != '/' && !p->list[0].is_local)
                return say("-C: the directory on another machine must be an absolute path");
        p->list[0].cwd = cwd[0] == '/' ? cwd : arena_printf(&p->arena, "%s/%s", ours, cwd);
        return 0;
}

/* ---- permissions ---- */

/* Makes the default profile. *ret stays NULL when there shall be no sandbox. */
static int make_profile(struct arena *a, const struct wishes *w, const char **ret)
{
        if (w->is_read_only + w->is_workspace_write + w->is_open + (w->profile_file != NULL) > 1)
                return say(
                        "only one of --read-only, --workspace-write, --profile and --no-sandbox can be used");
        if (w->is_open)
                return 0;
        if (!w->profile_file) {
                _free_ char *usual = permissions_usual(!w->is_read_only, w->has_network);
                *ret = arena_dup(a, slice_from_str(usual));
                return 0;
        }
        if (w->has_network)
                return say("--network is for --read-only and --workspace-write: the profile says it itself");
        _buf_ struct buf file = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES);
        int r = fd_read_file(w->profile_file, LIMIT_APPROVAL_TEXT_BYTES, &file);
        if (r < 0)
                return say(arena_printf(a, "--profile %s: %s", w->profile_file, errno_text(r)));
        *ret = arena_dup(a, buf_slice(&file));
        return 0;
}

static struct cut_budget make_budget(const struct wishes *w)
{
        if (w->max_bytes > 0)
                return (struct cut_budget){ .unit = CUT_BYTES, .bytes = w->max_bytes };
        if (w->max_tokens > 0)
                return (struct cut_budget){ .bytes = cut_token_bytes(w->max_tokens) };
        return CUT_NO_BUDGET;
}

/* ---- the command ---- */

static int talk(struct places *p, const struct wishes *w, enum approval_policy policy, const char *profile)
{
        struct err err = ERR_INIT;
        struct unified_options options = {
                .environments = p->list,
                .environment_count = p->count,
                .no_login = w->no_login,
                .poll_most_ms = w->poll_most_ms,
                .state_dir = store_directory(&p->arena),
                .budget = make_budget(w),
        };
        struct approvals_asker asker;
        struct talk *t = talk_new();
        talk_prepare(t, &options, &asker);
        options.approvals = approvals_new(policy, profile, &asker, &err);
        struct unified *table = options.approvals ? unified_new(&options, &err) : NULL;
        int code = FAILED;
        if (table)
                code = talk_run(t, table, options.approvals);
        else
                (void)say(err.text);
        unified_free(table);
        approvals_free(options.approvals);
        talk_free(t);
        return code;
}

static int run(const struct wishes *w)
{
        struct places places = { 0 };
        enum approval_policy policy = APPROVAL_ON_REQUEST;
        const char *profile = NULL;
        int code = FAILED;
        if (w->approval && !approval_policy_find(w->approval, &policy))
                code = args_refuse("approval", w->approval, "never, on-request, on-failure or untrusted") ==
                                       ARGS_BAD
                               ? 2
                               : FAILED;
        else if (find_places(&places, w) == 0 && choose_directories(&places, w->cwd) == 0 &&
                 make_profile(&places.arena, w, &profile) == 0)
                code = talk(&places, w, policy, profile);
        arena_release(&places.arena);
        return code;
}

int cmd_unified(int argc, char **argv)
{
        struct wishes w = { 0 };
        const struct arg table[] = {
                { "env", ARG_LIST, "NAME", "an environment of environments.toml; more than one may be given",
                  .target = &w.names, .offers = OFFER_ENVIRONMENT },
                { "url", ARG_STRING, "URL",
                  "the server to use: ws://HOST:PORT, wss://HOST, unix:/PATH, ssh://HOST", .target = &w.url },
                { "cwd", ARG_STRING, "DIR", "the workspace (default: this directory; elsewhere the server's)",
                  .letter = 'C', .target = &w.cwd, .offers = OFFER_DIRECTORY },
                { "approval", ARG_STRING, "POLICY",
                  "when to ask: never, on-request (the default), on-failure or untrusted",
                  .target = &w.approval },
                { "read-only", ARG_FLAG, NULL, "commands may read everything and write nothing",
                  .target = &w.is_read_only },
                { "workspace-write", ARG_FLAG, NULL,
                  "commands may write in the workspace and in /tmp; this is the default",
                  .target = &w.is_workspace_write },
                { "profile", ARG_STRING, "FILE", "a permission profile (JSON)", .target = &w.profile_file,
                  .offers = OFFER_FILE },
                { "no-sandbox", ARG_FLAG, NULL, "commands may do everything", .target = &w.is_open },
                { "network", ARG_FLAG, NULL, "--read-only and --workspace-write leave the network open",
                  .target = &w.has_network },
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
        int code = 2;
        enum args_result parsed = args_parse(&spec, argc, argv, NULL);
        if (parsed == ARGS_HELP)
                code = 0;
        else if (parsed == ARGS_OK)
                code = run(&w);
        arg_list_release(&w.names);
        return code;
}
