/* env_test: the steps that build the environment of a child, and the variables that never reach it. */
#include "policy/env.h"

#include "unit.h"

static const char *const inherited[] = {
        "API_KEY=k",
        "BAR_ONE=1",
        "BAR_TWO=2",
        "FOO=foo",
        "GH_TOKEN=t",
        "HOME=/h",
        "LANG=C",
        "my_secret=s3",
        "Path=/usr/bin",
        "SHELL=/bin/bash",
        "TMPDIR=/ws/tmp",
        "no equals sign",
        "EMPTY=",
        "EQ=a=b",
        "=C:=x",
        "FARHAND_TOKEN=f",
        NULL,
};

/* Makes variables from a text such as "A=1 B=2"; returns their number. A name ends at the first '='; `/` in it stands for '='. */
static size_t vars_from(struct arena *a, const char *text, struct env_var **ret)
{
        struct slice rest = slice_from_str(text);
        size_t n = 0;

        *ret = arena_alloc(a, (rest.n + 1) * sizeof(**ret));
        while (rest.p && rest.n > 0) {
                struct slice value = slice_split(&rest, ' '), name = slice_split(&value, '=');
                char *copy = arena_dup(a, name);
                for (size_t i = 0; i < name.n; i++)
                        copy[i] = copy[i] == '/' ? '=' : copy[i];
                (*ret)[n++] = (struct env_var){ slice_from(copy, name.n), value };
        }
        return n;
}

static size_t patterns_from(struct arena *a, const char *text, struct slice **ret)
{
        struct slice rest = slice_from_str(text);
        size_t n = 0;

        *ret = arena_alloc(a, (rest.n + 1) * sizeof(**ret));
        while (rest.p && rest.n > 0)
                (*ret)[n++] = slice_split(&rest, ' ');
        return n;
}

static const char *joined(struct arena *a, const char *const *env)
{
        const char *text = "";

        for (size_t i = 0; env[i]; i++)
                text = arena_printf(a, "%s%s%s", text, i ? " " : "", env[i]);
        return text;
}

struct row {
        enum env_inherit inherit;
        bool ignores_default_excludes;
        const char *exclude, *set, *include_only, *request;
        const char *expected;
};

#define NONE ENV_INHERIT_NONE
#define CORE ENV_INHERIT_CORE
#define ALL ENV_INHERIT_ALL

TEST(a_policy_filters_sets_and_is_overlaid_in_this_order)
{
        static const struct row rows[] = {
                { NONE, false, "", "", "", "", "" },
                { CORE, true, "", "", "", "", "HOME=/h LANG=C Path=/usr/bin SHELL=/bin/bash TMPDIR=/ws/tmp" },
                { ALL, true, "", "", "", "",
                  "API_KEY=k BAR_ONE=1 BAR_TWO=2 FOO=foo GH_TOKEN=t HOME=/h LANG=C my_secret=s3 "
                  "Path=/usr/bin "
                  "SHELL=/bin/bash TMPDIR=/ws/tmp EMPTY= EQ=a=b =C:=x" },
                { ALL, false, "", "", "", "",
                  "BAR_ONE=1 BAR_TWO=2 FOO=foo HOME=/h LANG=C Path=/usr/bin SHELL=/bin/bash TMPDIR=/ws/tmp "
                  "EMPTY= EQ=a=b =C:=x" },
                { ALL, false, "BAR_* f?o =*", "", "", "",
                  "HOME=/h LANG=C Path=/usr/bin SHELL=/bin/bash TMPDIR=/ws/tmp EMPTY= EQ=a=b" },
                /* `set` is not filtered by the excludes, but by includeOnly. */
                { CORE, false, "*", "FOO=set MY_TOKEN=kept", "", "", "FOO=set MY_TOKEN=kept" },
                { ALL, true, "", "ZED=1 BAR_THREE=3", "bar_* PATH", "",
                  "BAR_ONE=1 BAR_TWO=2 Path=/usr/bin BAR_THREE=3" },
                /* A name that is set again keeps its place. */
                { CORE, true, "", "HOME=/set", "", "LANG=req NEW=1",
                  "HOME=/set LANG=req Path=/usr/bin SHELL=/bin/bash TMPDIR=/ws/tmp NEW=1" },
                /* The request is not filtered at all, and wins. */
                { NONE, false, "*", "A=policy", "A", "A=env B_TOKEN=x", "A=env B_TOKEN=x" },
                { NONE, false, "", "A=policy B=1", "B", "A=env", "B=1 A=env" },
                /* Names that differ in case are different variables. */
                { NONE, false, "", "A=3", "", "a=1 A=2", "A=2 a=1" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct env_policy policy = {
                        .inherit = rows[i].inherit,
                        .ignores_default_excludes = rows[i].ignores_default_excludes,
                };
                struct env_var *request;
                policy.exclude_count = patterns_from(&a, rows[i].exclude, &policy.exclude);
                policy.include_only_count = patterns_from(&a, rows[i].include_only, &policy.include_only);
                policy.set_count = vars_from(&a, rows[i].set, &policy.set);
                size_t n = vars_from(&a, rows[i].request, &request);
                eq_str(joined(&a, env_build(&a, &policy, inherited, request, n, NULL)), rows[i].expected);
        }
}

TEST(without_a_policy_the_environment_is_that_of_the_request)
{
        static const struct {
                const char *request, *shell, *expected;
        } rows[] = {
                { "", NULL, "" },
                { "A=1 B= C=x=y", NULL, "A=1 B= C=x=y" },
                { "A=1 A=2", NULL, "A=2" },
                { "A/B=x", NULL, "A=B=x" },
                { "A/B=x A=y", NULL, "A=B=x A=y" },
                { "=x A=1", NULL, "=x A=1" },
                { "/C=x", NULL, "=C=x" },
                { "", "/bin/sh", "SHELL=/bin/sh" },
                { "SHELL= A=1", "/bin/sh", "SHELL= A=1" },
                { "shell=q", "/bin/sh", "shell=q SHELL=/bin/sh" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct env_var *request;
                size_t n = vars_from(&a, rows[i].request, &request);
                eq_str(joined(&a, env_build(&a, NULL, inherited, request, n, rows[i].shell)),
                       rows[i].expected);
        }
}

TEST(secrets_of_servers_never_pass)
{
        static const char *const names[] = {
                "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
                "NODE_REPL_AUTH_TOKEN",
                "OPENAI_FEDERATION_RULE_ID",
                "OPENAI_IDENTITY_TOKEN_FILE",
                "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
                "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE",
                "FARHAND_TOKEN",
                "farhand_token",
                "Node_Repl_Auth_Token",
                "FARHAND_TOKEN=x", /* the child would see FARHAND_TOKEN */
        };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct env_var var = { slice_from_str(names[i]), S("z") };
                const char *const own[] = { arena_printf(&a, "%s=z", names[i]), "FARHAND_TOKENS=1", NULL };
                struct env_policy all = { .inherit = ALL, .ignores_default_excludes = true };
                struct env_policy set = { .inherit = NONE, .set = &var, .set_count = 1 };

                eq_str(joined(&a, env_build(&a, NULL, own, &var, 1, NULL)), "");
                eq_str(joined(&a, env_build(&a, &set, own, NULL, 0, NULL)), "");
                eq_str(joined(&a, env_build(&a, &all, own, NULL, 0, NULL)), "FARHAND_TOKENS=1");
        }
}

TEST(a_removed_shell_is_replaced_on_a_terminal)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice exclude = S("SHELL");
        struct env_policy policy = { .inherit = CORE, .exclude = &exclude, .exclude_count = 1 };
        const char **env = env_build(&a, &policy, inherited, NULL, 0, "/bin/zsh");

        eq_str(env_get(env, "SHELL"), "/bin/zsh");
}

TEST(later_duplicates_in_the_servers_own_environment_win)
{
        _arena_ struct arena a = ARENA_INIT;
        static const char *const own[] = { "A=1", "B=2", "A=3", "", NULL };
        struct env_policy policy = { .inherit = ALL };

        eq_str(joined(&a, env_build(&a, &policy, own, NULL, 0, NULL)), "A=3 B=2");
}

TEST(values_are_found_by_whole_names)
{
        static const char *const env[] = { "AB=1", "A=2", "A=3", "E=", "=x", NULL };

        eq_str(env_get(env, "A"), "2");
        eq_str(env_get(env, "AB"), "1");
        eq_str(env_get(env, "E"), "");
        ok(!env_get(env, "B"));
        ok(!env_get(env, "a"));
}

TEST(many_variables_cost_no_more_than_their_number)
{
        enum { COUNT = 100000 };
        _arena_ struct arena a = ARENA_INIT;
        struct env_var *vars = arena_alloc(&a, COUNT * sizeof(*vars));

        for (size_t i = 0; i < COUNT; i++)
                vars[i] = (struct env_var){ slice_from_str(arena_printf(&a, "N%zu", i)), S("v") };
        struct env_policy policy = { .inherit = NONE, .set = vars, .set_count = COUNT };
        const char **env = env_build(&a, &policy, inherited, vars, COUNT, NULL);
        size_t n = 0;
        while (env[n])
                n++;
        eq_u64(n, COUNT); /* a quadratic search would take longer than a test may */
        eq_str(env[COUNT - 1], "N99999=v");
}

TEST(scrubbing_takes_secrets_out_and_wipes_them)
{
        char token[] = "FARHAND_TOKEN=abc", home[] = "HOME=/h", lower[] = "openai_identity_token_file=x",
             last[] = "Z=1";
        char *environment[] = { token, home, lower, last, NULL };
        env_scrub(environment);
        eq_str(environment[0], "HOME=/h");
        eq_str(environment[1], "Z=1");
        ok(!environment[2]);
        for (size_t i = 0; i < sizeof(token); i++)
                eq_int(token[i], 0);
        eq_int(lower[0], 0);
}
