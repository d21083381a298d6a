/* exec_rules_test: how commands are matched with rules. What rules are refused, and with which words, is in tests/vectors/rules.json,
 * which tests/integration/test_cmd_rules.py runs. */
#include "rules/exec_rules.h"

#include "base/limits.h"
#include "rules/exec_verdict_json.h"

#include "unit.h"

static struct exec_rules *load(const char *text)
{
        struct err err = ERR_INIT;
        const struct exec_rules_text one = { "t.rules", slice_from_str(text) };
        struct exec_rules *rules = exec_rules_new(&one, 1, "/cwd", &err);

        eq_str(err.text, "");
        assert_non_null(rules);
        return rules;
}

/* Returns the JSON about a command; its words are separated by blanks. */
static const char *match(struct arena *a, const struct exec_rules *rules, const char *line, bool is_resolving)
{
        struct slice rest = slice_from_str(line), words[16];
        struct exec_command command = { .words = words, .is_resolving = is_resolving, .cwd = "/cwd" };
        struct exec_verdict v;
        struct jsonw w;
        struct buf out = BUF_INIT(10000);

        while (rest.p)
                words[command.count++] = slice_split(&rest, ' ');
        exec_rules_match(rules, a, &command, &v);
        jsonw_begin(&w, &out);
        exec_verdict_write(&w, &command, &v);
        assert_int_equal(jsonw_end(&w), 0);
        const char *text = arena_dup(a, buf_slice(&out));
        buf_release(&out);
        return text;
}

TEST(all_rules_that_match_are_told_and_the_strictest_decides)
{
        _arena_ struct arena a = ARENA_INIT;
        _exec_rules_ struct exec_rules *rules =
                load("prefix_rule(['a', ['b', 'c']], 'forbidden', justification='no')\n"
                     "prefix_rule([['a', 'x']])\n"
                     "prefix_rule(['a', 'c'], 'prompt')\n");

        eq_u64(exec_rules_count(rules), 4);
        eq_str(match(&a, rules, "a c d", false),
               "{\"matchedRules\":["
               "{\"prefixRuleMatch\":{\"matchedPrefix\":[\"a\",\"c\"],\"decision\":\"forbidden\","
               "\"justification\":\"no\"}},"
               "{\"prefixRuleMatch\":{\"matchedPrefix\":[\"a\"],\"decision\":\"allow\"}},"
               "{\"prefixRuleMatch\":{\"matchedPrefix\":[\"a\",\"c\"],\"decision\":\"prompt\"}}],"
               "\"decision\":\"forbidden\"}");
        eq_str(match(&a, rules, "x y", false),
               "{\"matchedRules\":[{\"prefixRuleMatch\":{\"matchedPrefix\":[\"x\"],\"decision\":\"allow\"}}],"
               "\"decision\":\"allow\"}");
        eq_str(match(&a, rules, "A c", false), "{\"matchedRules\":[]}");
        eq_str(match(&a, rules, "/bin/a c", false), "{\"matchedRules\":[]}");
}

TEST(a_path_matches_rules_for_its_base_name_where_the_host_allows_it)
{
        _arena_ struct arena a = ARENA_INIT;
        _exec_rules_ struct exec_rules *rules =
                load("host_executable('git', ['/usr/bin//git', '/cwd/bin/git'])\n"
                     "host_executable('none', [])\n"
                     "prefix_rule(['git', 'push'], 'prompt')\n"
                     "prefix_rule(['none'])\n"
                     "prefix_rule(['free'])\n"
                     "prefix_rule(['/opt/free', 'x'], 'forbidden')\n");
        static const struct {
                const char *line, *resolved;
        } table[] = {
                { "/usr/bin/git push", "/usr/bin/git" },
                { "/usr/lib/../bin/./git push", "/usr/bin/git" },
                { "bin/git push", "/cwd/bin/git" },
                { "./bin//git push", "/cwd/bin/git" },
                { "/usr/local/bin/git push", NULL },
                { "/usr/bin/git pull", NULL },
                { "/bin/none", NULL },
                { "/bin/free", "/bin/free" },
                { "../free", "/free" },
                { "/opt/free y",
                  "/opt/free" }, /* the rule for the path does not match, so rules for the base name may */
                { "/", NULL },
                { "", NULL },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                const char *json = match(&a, rules, table[i].line, true);
                if (table[i].resolved)
                        ok(strstr(json, arena_printf(&a, "\"resolvedProgram\":\"%s\"", table[i].resolved)));
                else
                        eq_str(json, "{\"matchedRules\":[]}");
                eq_str(match(&a, rules, table[i].line, false), "{\"matchedRules\":[]}");
        }
        ok(!strstr(match(&a, rules, "/opt/free x", true), "resolvedProgram"));
        ok(!strstr(match(&a, rules, "git push", true), "resolvedProgram"));
}

TEST(a_relative_path_is_not_resolved_without_a_working_directory)
{
        _arena_ struct arena a = ARENA_INIT;
        _exec_rules_ struct exec_rules *rules = load("prefix_rule(['git'])\n");
        const struct slice words[] = { S("./git") };
        struct exec_command command = { .words = words, .count = 1, .is_resolving = true };
        struct exec_verdict v;

        exec_rules_match(rules, &a, &command, &v);
        eq_u64(v.count, 0);
        command.cwd = "/";
        exec_rules_match(rules, &a, &command, &v);
        eq_u64(v.count, 1);
        eq_slice(v.resolved, S("/git"));
        command.count = 0;
        exec_rules_match(rules, &a, &command, &v);
        eq_u64(v.count, 0);
}

TEST(words_are_bytes)
{
        _arena_ struct arena a = ARENA_INIT;
        _exec_rules_ struct exec_rules *rules = load("prefix_rule(['a', '\\0', ''])\n");
        const struct slice good[] = { S("a"), S("\0"), S("") }, other[] = { S("a"), S("\xff"), S("") };
        struct exec_command command = { .words = good, .count = 3 };
        struct exec_verdict v;

        exec_rules_match(rules, &a, &command, &v);
        eq_u64(v.count, 1);
        command.words = other;
        exec_rules_match(rules, &a, &command, &v);
        eq_u64(v.count, 0);
}

TEST(rules_know_where_they_stand)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const struct exec_rules_text texts[] = { { "one", S("prefix_rule(['a'])") },
                                                 { "two",
                                                   S("\n\nprefix_rule(['a'])\n"
                                                     "network_rule('X.Y:80', 'https', 'deny', 'why')\n") } };
        _exec_rules_ struct exec_rules *rules = exec_rules_new(texts, 2, NULL, &err);
        const struct slice words[] = { S("a") };
        const struct exec_command command = { .words = words, .count = 1 };
        struct exec_verdict v;
        size_t count;

        exec_rules_match(rules, &a, &command, &v);
        eq_u64(v.count, 2);
        eq_str(v.matches[0]->text_name, "one");
        eq_int(v.matches[0]->line, 1);
        eq_str(v.matches[1]->text_name, "two");
        eq_int(v.matches[1]->line, 3);

        const struct exec_network_rule *network = exec_rules_network(rules, &count);
        eq_u64(count, 1);
        eq_slice(network->host, S("x.y"));
        eq_str(network->protocol, "https");
        eq_int(network->decision, EXEC_FORBIDDEN);
        eq_slice(network->justification, S("why"));
        eq_int(network->line, 4);
}

TEST(hosts_of_network_rules_are_normalised)
{
        static const struct {
                const char *raw, *host;
        } table[] = {
                { "Example.COM.", "example.com" },
                { " x ", "x" },
                { "x:80", "x" },
                { "[::1]", "::1" },
                { "[::1]:443", "::1" },
                { "::1", "::1" },
                { "a:b", "a:b" },
                { "x..", "x" },
                { ":80", ":80" },
                { "a:1:2", "a:1:2" },
                { "a:", "a:" },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _arena_ struct arena a = ARENA_INIT;
                _exec_rules_ struct exec_rules *rules =
                        load(arena_printf(&a, "network_rule('%s', 'http', 'allow')", table[i].raw));
                size_t count;
                eq_slice(exec_rules_network(rules, &count)->host, slice_from_str(table[i].host));
        }
}

TEST(network_rules_have_ports_and_the_last_one_for_the_same_counts)
{
        _arena_ struct arena a = ARENA_INIT;
        _exec_rules_ struct exec_rules *rules =
                load("network_rule('a', 'http', 'allow', ports=[22, '8000-8010'])\n"
                     "network_rule('b', 'http', 'allow')\n"
                     "network_rule('a', 'http', 'deny')\n"
                     "network_rule('b', 'https', 'deny')\n"
                     "network_rule('b', 'https', 'prompt')\n"
                     "network_rule('a', 'https', 'deny', ports=[22, '8000-8010'])\n");
        size_t count;
        const struct exec_network_rule **list = exec_rules_network_list(rules, &a, &count);

        eq_u64(count, 3);
        eq_int(list[0]->line, 3);
        eq_int(list[1]->line, 4);
        eq_int(list[2]->line, 6);
        eq_u64(list[2]->port_count, 2);
        eq_int(list[2]->ports[0].from, 22);
        eq_int(list[2]->ports[0].to, 22);
        eq_int(list[2]->ports[1].from, 8000);
        eq_int(list[2]->ports[1].to, 8010);
}

static void refuse(const char *text, const char *error)
{
        struct err err = ERR_INIT;
        const struct exec_rules_text one = { "t", slice_from_str(text) };

        assert_null(exec_rules_new(&one, 1, NULL, &err));
        ok(strncmp(err.text, "t:", 2) == 0);
        if (!strstr(err.text, error))
                eq_str(err.text, error);
}

TEST(limits_are_kept)
{
        _buf_ struct buf text = BUF_INIT(2 * LIMIT_RULES_BYTES);
        struct err err = ERR_INIT;

        for (int i = 0; i < LIMIT_RULES; i++)
                assert_int_equal(buf_append(&text, S("prefix_rule(['a'])\n")), 0);
        exec_rules_free(load(text.p));
        assert_int_equal(buf_append(&text, S("prefix_rule(['a'])\n")), 0);
        refuse(text.p, ":1: there are more than 10000 rules");

        while (text.n <= LIMIT_RULES_BYTES)
                assert_int_equal(buf_append(&text, S("##################\n")), 0);
        refuse(text.p, "the rules have more than 1048576 bytes in all");
        struct slice half = slice_from(text.p, 600000);
        const struct exec_rules_text halves[] = { { "t", S("# one\n") }, { "t", half }, { "t", half } };
        assert_null(exec_rules_new(halves, 3, NULL, &err));

        refuse("prefix_rule(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
               "1,1,1,1,1,"
               "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)",
               "a call has more than 64 arguments");
}

/* A long list or a long word can be named again and again: each use is counted. */
TEST(shared_values_are_counted_each_time_they_are_used)
{
        static const char *const uses[] = {
                "prefix_rule([W])\n",
                "prefix_rule(['a', L])\n",
                "prefix_rule(['a'], justification=W)\n",
                "prefix_rule(['a'], not_match=[W])\n",
                "prefix_rule(['a'], not_match=[L])\n",
                "host_executable('x', ['/' + W])\n",
                "host_executable(W, [])\n",
                "network_rule(W, 'http', 'allow')\n",
        };
        for (size_t i = 0; i < ARRAY_LEN(uses); i++) {
                _buf_ struct buf text = BUF_INIT(LIMIT_RULES_BYTES);
                assert_int_equal(buf_append(&text, S("W = '0123456789abcdef'\nL = ['b']\n")), 0);
                for (int k = 0; k < 11; k++)
                        assert_int_equal(buf_append(&text, S("W = W + W\nL += L\n")), 0);
                for (int k = 0; k < 1000; k++)
                        assert_int_equal(buf_append(&text, slice_from_str(uses[i])), 0);
                if (strncmp(uses[i], "host_executable('x'", 19) == 0)
                        refuse(text.p,
                               "must have basename"); /* this call is refused before its steps are counted */
                else
                        refuse(text.p, "the rules are too large");
        }
}
