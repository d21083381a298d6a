/* exec_rules_add_test: what a text looks like after a rule was added. */
#include "rules/exec_rules_add.h"

#include "base/buf.h"
#include "base/limits.h"

#include "unit.h"

static const struct slice git_push[] = { S("git"), S("push") };

static const char *add(struct arena *a, const char *text, const struct exec_rule_addition *addition)
{
        const struct exec_rules_text old = { "t", slice_from_str(text) };
        struct err err = ERR_INIT;
        struct slice new;

        if (exec_rules_add(a, &old, NULL, addition, &new, &err) < 0)
                return arena_dup(a, slice_from_str(err.text));
        return new.p == old.text.p ? "the same" : new.p;
}

TEST(a_rule_becomes_a_line_at_the_end)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct exec_rule_addition allow = { .words = git_push, .count = 2 };
        const struct exec_rule_addition prompt = {
                .words = git_push, .count = 1, .decision = EXEC_PROMPT, .justification = "say \"why\""
        };
#define LINE "prefix_rule(pattern=[\"git\", \"push\"], decision=\"allow\")\n"

        eq_str(add(&a, "", &allow), LINE);
        eq_str(add(&a, "# mine\r\n\n  # x", &allow), "# mine\r\n\n  # x\n" LINE);
        eq_str(add(&a, "A = ['x']\\\n\n", &allow), "A = ['x']\\\n\n" LINE);
        eq_str(add(&a, LINE, &prompt), LINE
               "prefix_rule(pattern=[\"git\"], decision=\"prompt\", justification=\"say \\\"why\\\"\")\n");
}

TEST(a_line_that_is_there_is_not_added_again)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct exec_rule_addition allow = { .words = git_push, .count = 2 };

        eq_str(add(&a, "# x\n" LINE "# y\n", &allow), "the same");
        eq_str(add(&a, "prefix_rule(pattern=[\"git\", \"push\"], decision=\"allow\")\r\n", &allow),
               "the same");
        eq_str(add(&a, "# " LINE, &allow), "# " LINE LINE);
}

TEST(every_character_survives)
{
        _arena_ struct arena a = ARENA_INIT;
        char all[128];

        for (size_t i = 0; i < sizeof(all); i++)
                all[i] = (char)i;
        const struct slice words[] = { slice_from(all, sizeof(all)),
                                       S("\xc3\xa9\xf0\x9f\x98\x80\xc2\x85\xe2\x80\xa8") };
        const struct exec_rule_addition addition = { .words = words, .count = 2 };
        const struct exec_rules_text old = { "t", S("") };
        struct err err = ERR_INIT;
        struct slice text;

        eq_int(exec_rules_add(&a, &old, NULL, &addition, &text, &err), 0);
        const struct exec_rules_text new = { "t", text };
        _exec_rules_ struct exec_rules *rules = exec_rules_new(&new, 1, NULL, &err);
        const struct exec_command command = { .words = words, .count = 2 };
        struct exec_verdict v;
        exec_rules_match(rules, &a, &command, &v);
        eq_u64(v.count, 1);
}

TEST(what_would_not_be_read_again_is_not_added)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct exec_rule_addition allow = { .words = git_push, .count = 2 };
        const struct exec_rule_addition blank = { .words = git_push, .count = 2, .justification = " " };
        const struct slice bytes[] = { S("\xff") };
        const struct exec_rule_addition not_text = { .words = bytes, .count = 1 };
        const struct exec_rule_addition nothing = { .words = bytes };

        eq_str(add(&a, "for x in []:", &allow), "t:1:1: unsupported Starlark construct: `for`");
        eq_str(add(&a, "", &blank), "cannot be added: t:1:1: invalid rule: justification cannot be empty");
        eq_str(add(&a, "", &not_text), "a word is not UTF-8");
        eq_str(add(&a, "", &nothing), "a rule needs a word");

        _buf_ struct buf full = BUF_INIT(LIMIT_RULES_BYTES);
        while (full.n < LIMIT_RULES_BYTES)
                assert_int_equal(buf_append_char(&full, full.n % 64 == 63 ? '\n' : '#'), 0);
        eq_str(add(&a, full.p, &allow), "t would have more than 1048576 bytes");
}

TEST(a_network_rule_becomes_a_line_at_the_end)
{
        static const struct {
                struct exec_network_addition add;
                const char *want;
        } rows[] = {
                { { "h.test", "http", 0, EXEC_ALLOW, NULL },
                  "network_rule(host=\"h.test\", protocol=\"http\", decision=\"allow\")\n" },
                { { "h.test", "https", 443, EXEC_FORBIDDEN, "why \"so\"" },
                  "network_rule(host=\"h.test\", protocol=\"https\", decision=\"deny\", justification=\"why "
                  "\\\"so\\\"\", ports=[443])\n" },
                { { "fe80::1", "socks5_tcp", 22, EXEC_ALLOW, NULL },
                  "network_rule(host=\"fe80::1\", protocol=\"socks5_tcp\", decision=\"allow\", "
                  "ports=[22])\n" },
                { { "H.test", "http", 0, EXEC_ALLOW, NULL }, "refused" },
                { { "*.h.test", "http", 0, EXEC_ALLOW, NULL }, "refused" },
                { { "x\") prefix_rule([\"a\"]", "http", 0, EXEC_ALLOW, NULL }, "refused" },
                { { "h:80", "http", 0, EXEC_ALLOW, NULL }, "refused" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                const struct exec_rules_text old = { "t", S("# mine\n") };
                struct err err = ERR_INIT;
                struct slice new;
                int r = exec_rules_add_network(&a, &old, NULL, &rows[i].add, &new, &err);
                eq_str(r < 0 ? "refused" : new.p + old.text.n, rows[i].want);
                if (r < 0)
                        continue;
                const struct exec_rules_text again = { "t", new };
                struct slice same;
                eq_int(exec_rules_add_network(&a, &again, NULL, &rows[i].add, &same, &err), 0);
                ok(same.p == new.p);
        }
}
