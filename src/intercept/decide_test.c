/* decide_test: what happens with the start of a program: the rules first, then the options. */
#include "intercept/decide.h"

#include "unit.h"

static struct exec_rules *load(const char *text)
{
        struct err err = ERR_INIT;
        const struct exec_rules_text one = { "t.rules", slice_from_str(text) };
        struct exec_rules *rules = exec_rules_new(&one, 1, NULL, &err);

        eq_str(err.text, "");
        assert_non_null(rules);
        return rules;
}

/* Decides about a line: the file, then the arguments after argv[0], separated by blanks. */
static struct intercept_verdict decide(struct intercept_options options, const char *text, const char *line)
{
        _arena_ struct arena a = ARENA_INIT;
        _exec_rules_ struct exec_rules *rules = load(text);
        struct slice rest = slice_from_str(line), argv[16] = { S("argv0") };
        struct intercept_exec exec = { .cwd = S("/cwd"), .argv = argv, .argc = 1 };
        struct intercept_verdict v;

        exec.file = slice_split(&rest, ' ');
        while (rest.p)
                argv[exec.argc++] = slice_split(&rest, ' ');
        intercept_decide(&options, rules, &a, &exec, &v);
        if (v.rule) {
                eq_str(v.rule->text_name, "t.rules");
                v.rule =
                        (const struct exec_rule
                                 *)&options; /* any address: the rules are freed, and tests ask only whether one matched */
        }
        return v;
}

#define eq_verdict(v, action_, accepted_, has_rule)                    \
        do {                                                           \
                struct intercept_verdict v_ = (v);                     \
                eq_str(intercept_action_name(v_.action), action_);     \
                eq_str(intercept_action_name(v_.accepted), accepted_); \
                eq_int(v_.rule != NULL, has_rule);                     \
        } while (0)

#define RULES                                                         \
        "prefix_rule(['allow'])\nprefix_rule(['prompt'], 'prompt')\n" \
        "prefix_rule(['forbid'], 'forbidden')\nprefix_rule(['rm'])\n" \
        "prefix_rule(['rm', '-i'], 'prompt')\nprefix_rule(['rm', '-i', 'x'], 'forbidden')\n"

TEST(rules_decide_before_the_heuristic)
{
        const struct intercept_options o = { 0 };

        eq_verdict(decide(o, RULES, "/bin/allow"), "escalate", "escalate", true);
        eq_verdict(decide(o, RULES, "/bin/prompt a b"), "ask", "escalate", true);
        eq_verdict(decide(o, RULES, "/bin/forbid"), "deny", "deny", true);
        eq_str(decide(o, RULES, "/bin/forbid").reason, "Execution forbidden by policy");
        eq_verdict(decide(o, RULES, "/bin/rm -rf /"), "escalate", "escalate", true);
        eq_verdict(decide(o, RULES, "/bin/rm -i"), "ask", "escalate", true);
        eq_verdict(decide(o, RULES, "/bin/rm -i x"), "deny", "deny", true);
        eq_verdict(decide(o, RULES, "/bin/ls"), "run", "run", false);
        eq_verdict(decide(o, "", "/bin/rm -rf /"), "ask", "run", false);
}

TEST(nobody_is_asked_when_prompts_are_denied)
{
        const struct intercept_options o = { .on_prompt = INTERCEPT_PROMPT_DENY };

        eq_verdict(decide(o, RULES, "/bin/prompt"), "deny", "deny", true);
        eq_str(decide(o, RULES, "/bin/prompt").reason, INTERCEPT_FORBIDDEN);
        eq_verdict(decide(o, "", "/bin/rm -f x"), "deny", "deny", false);
        eq_str(decide(o, "", "/bin/rm -f x").reason, INTERCEPT_FORBIDDEN);
        eq_verdict(decide(o, RULES, "/bin/allow"), "escalate", "escalate", true);
        eq_verdict(decide(o, RULES, "/bin/ls"), "run", "run", false);

        const struct intercept_options asks = { .on_prompt = INTERCEPT_PROMPT_DENY,
                                                .on_unmatched = INTERCEPT_UNMATCHED_ASK };
        eq_verdict(decide(asks, RULES, "/bin/ls"), "deny", "deny", false);
}

TEST(the_options_say_what_happens_without_a_rule)
{
        const struct intercept_options runs = { .on_unmatched = INTERCEPT_UNMATCHED_RUN };
        const struct intercept_options asks = { .on_unmatched = INTERCEPT_UNMATCHED_ASK };

        eq_verdict(decide(runs, "", "/bin/rm -rf /"), "run", "run", false);
        eq_verdict(decide(runs, RULES, "/bin/prompt"), "ask", "escalate", true);
        eq_verdict(decide(asks, "", "/bin/ls"), "ask", "run", false);
        eq_verdict(decide(asks, RULES, "/bin/allow"), "escalate", "escalate", true);
}

TEST(the_program_is_its_file_and_never_argv_0)
{
        _arena_ struct arena a = ARENA_INIT;
        _exec_rules_ struct exec_rules *rules = load(RULES);
        const struct slice argv[] = { S("forbid") };
        const struct intercept_options o = { 0 };
        const struct intercept_exec as_other = { S("/bin/ls"), S("/cwd"), argv, 1 },
                                    bare = { S("./forbid"), S("/cwd"), NULL, 0 };
        struct intercept_verdict v;

        intercept_decide(&o, rules, &a, &as_other, &v);
        eq_int(v.action, INTERCEPT_RUN);
        intercept_decide(&o, rules, &a, &bare, &v);
        eq_int(v.action, INTERCEPT_DENY);
        eq_slice(v.rule->program, S("forbid"));
        eq_slice(intercept_path(&a, &bare), S("/cwd/forbid"));
}

TEST(a_path_matches_rules_for_its_base_name_where_its_host_is_listed)
{
        const char *const text = "prefix_rule(['git'])\nhost_executable('git', ['/usr/bin/git'])\n"
                                 "prefix_rule(['/opt/tool'], 'forbidden')\nprefix_rule(['tool'])\n";
        const struct intercept_options base = { 0 }, full = { .names = INTERCEPT_FULL };

        eq_verdict(decide(base, text, "/usr/bin/git log"), "escalate", "escalate", true);
        eq_verdict(decide(base, text, "/usr/bin/../bin/git log"), "escalate", "escalate", true);
        eq_verdict(decide(base, text, "./git log"), "run", "run", false);
        eq_verdict(decide(full, text, "/usr/bin/git log"), "escalate", "escalate", true);
        eq_verdict(decide(full, text, "/tmp/git log"), "run", "run", false);
        eq_verdict(decide(full, text, "/bin/tool"), "escalate", "escalate", true);
        eq_verdict(decide(base, text, "/opt/tool"), "deny", "deny", true);
        eq_verdict(decide(full, text, "/opt/tool"), "deny", "deny", true);
}

TEST(of_rules_for_the_path_and_for_the_base_name_the_strictest_decides_unless_names_are_full)
{
        const char *const text = "prefix_rule(['/opt/tool'])\nprefix_rule(['tool'], 'forbidden')\n";
        const struct intercept_options base = { 0 }, full = { .names = INTERCEPT_FULL };

        eq_verdict(decide(base, text, "/opt/tool"), "deny", "deny", true);
        eq_verdict(decide(full, text, "/opt/tool"), "escalate", "escalate", true);
        eq_verdict(decide(full, text, "/usr/tool"), "deny", "deny", true);
}
