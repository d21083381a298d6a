/* fuzz_rules: any bytes are read as a .rules text: that gives either a set of rules, or an error of one printable line with a position.
 * One more rule is added to a good text, which keeps its bytes and then has a rule for the command. The same bytes are also split into
 * words, and read as the text of a script. */
#include "base/utf8.h"
#include "rules/exec_heuristic.h"
#include "rules/exec_rules_add.h"
#include "rules/exec_verdict_json.h"
#include "rules/shell_words.h"

#define NAME "t.rules"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

static void check_error(const struct err *err)
{
        check(err->code < 0 && strncmp(err->text, NAME ":", sizeof(NAME)) == 0);
        for (const char *p = err->text; *p; p++)
                check((uint8_t)*p >= ' ' && *p != 0x7f);
}

static void check_match(struct arena *a, const struct exec_rules *rules, const struct exec_command *command,
                        size_t least)
{
        _buf_ struct buf json = BUF_INIT(1 << 24);
        struct exec_verdict v;
        struct jsonw w;

        exec_rules_match(rules, a, command, &v);
        check(v.count >= least && v.count <= exec_rules_count(rules));
        for (size_t i = 0; i < v.count; i++)
                check(v.matches[i]->rest_count < command->count && v.matches[i]->decision <= v.decision &&
                      slice_eq(v.matches[i]->program, v.program) && v.matches[i]->line > 0);
        check(!v.resolved.p || (command->is_resolving && v.resolved.p[0] == '/'));
        jsonw_begin(&w, &json);
        exec_verdict_write(&w, command, &v);
        check(jsonw_end(&w) == 0 && utf8_is_valid(buf_slice(&json)));
}

static void check_add(struct arena *a, struct slice text, const struct exec_rules *rules)
{
        static const struct slice words[] = { S("fuzz \"new\"\n"), S("\\\x01'") };
        const struct exec_rule_addition add = {
                .words = words, .count = 2, .decision = EXEC_PROMPT, .justification = "why"
        };
        const struct exec_rules_text old = { NAME, text };
        const struct exec_command command = { .words = words, .count = 2 };
        struct err err = ERR_INIT;
        struct slice out;

        if (exec_rules_add(a, &old, "/d", &add, &out, &err) < 0) {
                check(!strstr(err.text, "was meant"));
                return;
        }
        check(slice_starts(out, text));
        const struct exec_rules_text new = { NAME, out };
        _exec_rules_ struct exec_rules *after = exec_rules_new(&new, 1, "/d", &err);
        check(after && exec_rules_count(after) == exec_rules_count(rules) + 1);
        check_match(a, after, &command, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice text = slice_from(data, size);
        struct err err = ERR_INIT;
        const struct exec_rules_text one = { NAME, text };
        static const struct slice paths[] = { S("/usr/bin/git"), S("status") },
                                  names[] = { S("git"), S("push") };
        const struct exec_command by_path = { .words = paths, .count = 2, .is_resolving = true, .cwd = "/d" };
        const struct exec_command by_name = { .words = names, .count = 2 };

        _exec_rules_ struct exec_rules *rules = exec_rules_new(&one, 1, "/d", &err);
        if (rules) {
                check_match(&a, rules, &by_path, 0);
                check_match(&a, rules, &by_name, 0);
                check_add(&a, text, rules);
        } else {
                check_error(&err);
        }

        struct slice *words;
        size_t count;
        if (shell_words_split(&a, text, &words, &count) == 0)
                (void)exec_heuristic_decide(words, count);
        const struct slice script[] = { S("sh"), S("-c"), text };
        (void)exec_heuristic_decide(script, 3);
        return 0;
}
