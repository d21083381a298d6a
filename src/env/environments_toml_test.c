/* environments_toml_test: every key, every rule with its text, and files that are broken or hostile. */
#include "env/environments_toml.h"

#include "base/buf.h"
#include "base/limits.h"

#include "unit.h"

#include <errno.h>

#define ENTRY "[[environments]]\n"

static void reads(struct arena *a, struct slice text, const char *path, struct environments *ret)
{
        struct err err = ERR_INIT;

        if (environments_parse(a, text, path, ret, &err) < 0)
                fail_msg("%s", err.text);
}

/* Checks that `text`, which has no path, is refused with the error `expect`. */
static void refuses(struct slice text, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct environments e = { .count = 77 };

        eq_int(environments_parse(&a, text, NULL, &e, &err), -EINVAL);
        eq_str(err.text, expect);
        eq_u64(e.count, 77);
}

static const struct slice whole = {
        "default = 'box' # comment\ninclude_local = true\n" ENTRY
        "id = 'devbox'\nurl = ' wss://d.example:9000 '\n"
        "connect_timeout_sec = 2.5\ninitialize_timeout_sec = 3\ntoken_file = 'd.token'\n" ENTRY
        "id = \"box\"\nprogram = ' ssh '\nargs = ['box', '', 'two words']\ncwd = 'sub/dir'\n"
        "[environments.env]\nA = '1'\n'B-x' = ''\n" ENTRY
        "id = 's_1'\nurl = 'unix:/run/s'\ntoken_env = 'T_1'\n" ENTRY "id = 'far'\nurl = 'ssh://me@host'\n",
        0
};

static struct slice whole_text(void)
{
        return slice_from_str(whole.p);
}

TEST(every_key_is_read)
{
        _arena_ struct arena a = ARENA_INIT;
        struct environments e;

        reads(&a, whole_text(), "/home/u/.config/farhand/environments.toml", &e);
        eq_u64(e.count, 5);
        eq_u64(e.default_index, 2);
        ok(!e.is_disabled);
        eq_str(e.source, "/home/u/.config/farhand/environments.toml");
        eq_str(e.list[0].id, "local");
        eq_int(e.list[0].kind, ENVIRONMENT_LOCAL);

        const struct environment *one = &e.list[1];
        eq_str(one->id, "devbox");
        eq_int(one->kind, ENVIRONMENT_URL);
        eq_str(one->url, "wss://d.example:9000");
        eq_u64(one->connect_timeout_ms, 2500);
        eq_u64(one->initialize_timeout_ms, 3000);
        eq_str(one->token_file, "/home/u/.config/farhand/d.token");
        ok(!one->token_env && !one->argv && !one->cwd && one->env_count == 0);

        one = environments_default(&e);
        eq_str(one->id, "box");
        eq_int(one->kind, ENVIRONMENT_COMMAND);
        eq_str(one->argv[0], "ssh");
        eq_str(one->argv[1], "box");
        eq_str(one->argv[2], "");
        eq_str(one->argv[3], "two words");
        ok(!one->argv[4] && !one->url && !one->token_file && !one->token_env);
        eq_str(one->cwd, "/home/u/.config/farhand/sub/dir");
        eq_u64(one->env_count, 2);
        eq_str(one->env[0].name, "A");
        eq_str(one->env[0].value, "1");
        eq_str(one->env[1].name, "B-x");
        eq_str(one->env[1].value, "");
        eq_u64(one->connect_timeout_ms, 0);
        eq_u64(one->initialize_timeout_ms, 10000);

        one = environments_find(&e, S("s_1"));
        eq_int(one->kind, ENVIRONMENT_URL);
        eq_str(one->token_env, "T_1");
        eq_u64(one->connect_timeout_ms, 10000);
        eq_int(environments_find(&e, S("far"))->kind, ENVIRONMENT_SSH);
        ok(!environments_find(&e, S("FAR")));
}

TEST(the_copies_do_not_need_the_text)
{
        _arena_ struct arena a = ARENA_INIT;
        struct environments e;
        char *text = arena_dup(&a, whole_text());

        reads(&a, slice_from_str(text), "/etc/environments.toml", &e);
        memset(text, 'x', strlen(text));
        eq_str(e.list[1].url, "wss://d.example:9000");
        eq_str(e.list[2].env[1].name, "B-x");
}

TEST(absolute_paths_stay_and_relative_ones_need_a_file)
{
        _arena_ struct arena a = ARENA_INIT;
        struct environments e;

        reads(&a, S(ENTRY "id='a'\nprogram='p'\ncwd='/w'\n" ENTRY "id='b'\nurl='ws://h'\ntoken_file='/t'"),
              NULL, &e);
        eq_str(e.list[1].cwd, "/w");
        eq_str(e.list[2].token_file, "/t");
        ok(!e.source);
        reads(&a, S(ENTRY "id='a'\nprogram='p'\ncwd='w'\n"), "environments.toml", &e);
        eq_str(e.list[1].cwd, "w");
        refuses(S(ENTRY "id='a'\nprogram='p'\ncwd='w'\n"), "environment `a` cwd must be absolute");
        refuses(S(ENTRY "id='a'\nurl='ws://h'\ntoken_file='w'\n"),
                "environment `a` token_file must be absolute");
}

TEST(the_default_is_the_named_one_or_local_or_none)
{
        static const struct {
                const char *text;
                const char *id; /* NULL: there is no default */
                size_t count;
        } rows[] = {
                { "", "local", 1 },
                { "# only a comment", "local", 1 },
                { "include_local = true", "local", 1 },
                { "include_local = false", NULL, 0 },
                { "default = 'none'", NULL, 1 },
                { "default = ' NoNe '", NULL, 1 },
                { "default = 'local'", "local", 1 },
                { "default = ' a '\n" ENTRY "id='a'\nprogram='p'", "a", 2 },
                { "include_local = false\n" ENTRY "id='a'\nprogram='p'", NULL, 1 },
                { "include_local = false\ndefault='a'\n" ENTRY "id='a'\nprogram='p'", "a", 1 },
                { "environments = []", "local", 1 },
                { "environments = [{id='a', program='p'}]", "local", 2 },
                { ENTRY "id='Local'\nprogram='p'", "local",
                  2 }, /* only the exact id `local` is reserved, as in other clients */
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct environments e;
                reads(&a, slice_from_str(rows[i].text), NULL, &e);
                const struct environment *one = environments_default(&e);
                eq_str(one ? one->id : "(none)", rows[i].id ? rows[i].id : "(none)");
                eq_u64(e.count, rows[i].count);
                ok(!e.is_disabled);
        }
}

TEST(a_time_may_have_fractions_and_only_zero_is_zero)
{
        static const struct {
                const char *text;
                uint64_t ms;
        } rows[] = {
                { "0", 0 },         { "0.0", 0 },
                { "1", 1000 },      { "0.25", 250 },
                { "1.1", 1100 },    { "0.0001", 1 },
                { "1e-300", 1 },    { "8.2", 8200 },
                { "1e3", 1000000 }, { "315360000", 315360000000 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct environments e;
                const char *text =
                        arena_printf(&a, ENTRY "id='a'\nurl='ws://h'\nconnect_timeout_sec=%s", rows[i].text);
                reads(&a, slice_from_str(text), NULL, &e);
                eq_u64(e.list[1].connect_timeout_ms, rows[i].ms);
                eq_u64(e.list[1].initialize_timeout_ms, 10000);
        }
}

TEST(broken_rules_are_named)
{
        static const struct {
                const char *text, *expect;
        } rows[] = {
                { "default = ''", "default environment id cannot be empty" },
                { "default = ' \\t '", "default environment `\\t` is not configured" },
                { "default = \" \\t \"", "default environment id cannot be empty" },
                { "default = 'x'", "default environment `x` is not configured" },
                { "default = \"\\u001b[2J\"", "default environment `\\x1b[2J` is not configured" },
                { "include_local = false\ndefault = 'local'",
                  "default environment `local` is not configured" },
                { ENTRY "id=''\nurl='ws://h'", "environment id cannot be empty" },
                { ENTRY "id=' '\nurl='ws://h'", "environment id cannot be empty" },
                { ENTRY "id=' devbox '\nurl='ws://h'",
                  "environment id ` devbox ` must not contain surrounding whitespace" },
                { ENTRY "id='local'\nurl='ws://h'", "environment id `local` is reserved" },
                { "include_local=false\n" ENTRY "id='local'\nurl='ws://h'",
                  "environment id `local` is reserved" },
                { ENTRY "id='NONE'\nurl='ws://h'", "environment id `NONE` is reserved" },
                { ENTRY
                  "id='a23456789-123456789-123456789-123456789-123456789-123456789-12345'\nurl='ws://h'",
                  "environment id `a23456789-123456789-123456789-123456789-123456789-123456789-12345` cannot "
                  "be "
                  "longer than 64 characters" },
                { ENTRY "id='dev box'\nurl='ws://h'",
                  "environment id `dev box` must contain only ASCII letters, numbers, '-' or '_'" },
                { ENTRY "id=\"a\\u0007b\"\nurl='ws://h'",
                  "environment id `a\\x07b` must contain only ASCII letters, numbers, '-' or '_'" },
                { ENTRY "id='b\xc3\xbc'\nurl='ws://h'",
                  "environment id `b\xc3\xbc` must contain only ASCII letters, numbers, '-' or '_'" },
                { ENTRY "id='a'\nurl='ws://h'\n" ENTRY "id='b'\nprogram='p'\n" ENTRY "id='a'\nprogram='p'",
                  "environment id `a` is duplicated" },
                { ENTRY "id='a'", "environment `a` must set exactly one of url or program" },
                { ENTRY "id='a'\nurl='ws://h'\nprogram='p'",
                  "environment `a` must set exactly one of url or program" },
                { ENTRY "id='a'\nargs=[]", "environment `a` args, env, and cwd require program" },
                { ENTRY "id='a'\nurl='ws://h'\nenv={}",
                  "environment `a` args, env, and cwd require program" },
                { ENTRY "id='a'\nurl='ws://h'\ncwd='/'",
                  "environment `a` args, env, and cwd require program" },
                { ENTRY "id='a'\nprogram='p'\nconnect_timeout_sec=1",
                  "environment `a` connect_timeout_sec requires url" },
                { ENTRY "id='a'\nconnect_timeout_sec=1", "environment `a` connect_timeout_sec requires url" },
                { ENTRY "id='a'\nprogram=' '", "environment `a` program cannot be empty" },
                { ENTRY "id='a'\nurl=' '", "environment url cannot be empty" },
                { ENTRY "id='a'\nurl='http://h'", "environment url `http://h` must use ws:// or wss://" },
                { ENTRY "id='a'\nurl='ws://'", "environment url `ws://` is invalid: it has no host" },
                { ENTRY "id='a'\nprogram='p'\ntoken_file='/t'",
                  "environment `a` token_file and token_env require url" },
                { ENTRY "id='a'\nprogram='p'\ntoken_env='T'",
                  "environment `a` token_file and token_env require url" },
                { ENTRY "id='a'\nurl='ws://h'\ntoken_env='T'\ntoken_file='/t'",
                  "environment `a` must set at most one of token_file or token_env" },
                { ENTRY "id='a'\nurl='ws://h'\ntoken_file=''", "environment `a` token_file cannot be empty" },
                { ENTRY "id='a'\nurl='ws://h'\ntoken_env=''",
                  "environment `a` token_env must be the name of a variable" },
                { ENTRY "id='a'\nurl='ws://h'\ntoken_env='1T'",
                  "environment `a` token_env must be the name of a variable" },
                { ENTRY "id='a'\nurl='ws://h'\ntoken_env='A=B'",
                  "environment `a` token_env must be the name of a variable" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                refuses(slice_from_str(rows[i].text), rows[i].expect);
}

/* Errors of keys and types come before errors of rules, and name a line and a column. */
TEST(unknown_keys_and_wrong_types_are_refused_with_line_and_column)
{
        static const struct {
                const char *text, *expect;
        } rows[] = {
                { "defaults = 'x'", "line 1, column 1: unknown key `defaults`" },
                { "\n  [other]", "line 2, column 4: unknown table `other`" },
                { "\"\\u001b\" = 1", "line 1, column 1: unknown key `\\x1b`" },
                { "default = 1", "line 1, column 1: `default` must be a string" },
                { "include_local = 'yes'", "line 1, column 1: `include_local` must be true or false" },
                { "environments = 1", "line 1, column 1: `environments` must be an array of tables" },
                { "environments = ['a']", "line 1, column 1: `environments` must be an array of tables" },
                { "[environments]\nid='a'", "line 1, column 2: `environments` must be an array of tables" },
                { ENTRY "url='ws://h'", "line 1, column 3: missing key `id`" },
                { ENTRY "id='a'\nhost='h'", "line 3, column 1: unknown key `host`" },
                { ENTRY "id='a'\nargs.x='h'", "line 3, column 1: `args` must be an array of strings" },
                { ENTRY "id=1", "line 2, column 1: `id` must be a string" },
                { ENTRY "id='a'\nurl=['ws://h']", "line 3, column 1: `url` must be a string" },
                { ENTRY "id='a'\nprogram=true", "line 3, column 1: `program` must be a string" },
                { ENTRY "id='a'\nargs='p'", "line 3, column 1: `args` must be an array of strings" },
                { ENTRY "id='a'\nargs=['p', 1]", "line 3, column 1: `args` must be an array of strings" },
                { ENTRY "id='a'\nenv=[]", "line 3, column 1: `env` must be a table of strings" },
                { ENTRY "id='a'\nenv={A=1}", "line 3, column 1: `env` must be a table of strings" },
                { ENTRY "id='a'\nenv={''='x'}", "line 3, column 6: `` is not the name of a variable" },
                { ENTRY "id='a'\nenv={'A=B'='x'}", "line 3, column 6: `A=B` is not the name of a variable" },
                { ENTRY "id='a'\ncwd={}", "line 3, column 1: `cwd` must be a string" },
                { ENTRY "id='a'\ntoken_file=1", "line 3, column 1: `token_file` must be a string" },
                { ENTRY "id='a'\ntoken_env=1", "line 3, column 1: `token_env` must be a string" },
                { ENTRY "id='a'\nconnect_timeout_sec='1'",
                  "line 3, column 1: `connect_timeout_sec` must be a number of seconds from 0 to 315360000" },
                { ENTRY "id='a'\nconnect_timeout_sec=-0.1",
                  "line 3, column 1: `connect_timeout_sec` must be a number of seconds from 0 to 315360000" },
                { ENTRY "id='a'\ninitialize_timeout_sec=nan",
                  "line 3, column 1: `initialize_timeout_sec` must be a number of seconds from 0 to "
                  "315360000" },
                { ENTRY "id='a'\ninitialize_timeout_sec=inf",
                  "line 3, column 1: `initialize_timeout_sec` must be a number of seconds from 0 to "
                  "315360000" },
                { ENTRY "id='a'\ninitialize_timeout_sec=315360001",
                  "line 3, column 1: `initialize_timeout_sec` must be a number of seconds from 0 to "
                  "315360000" },
                /* A wrong type in a later entry is told before a rule that the first entry breaks. */
                { ENTRY "id='none'\n" ENTRY "id=2", "line 4, column 1: `id` must be a string" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                refuses(slice_from_str(rows[i].text),
                        arena_printf(&a, "failed to parse environment config: %s", rows[i].expect));
        }
}

TEST(errors_name_the_file)
{
        _arena_ struct arena a = ARENA_INIT;
        struct environments e;
        struct err err = ERR_INIT;

        eq_int(environments_parse(&a, S("x = 1"), "/d/e\x1b.toml", &e, &err), -EINVAL);
        eq_str(err.text,
               "failed to parse environment config `/d/e\\x1b.toml`: line 1, column 1: unknown key `x`");
        eq_int(environments_parse(&a, S("default = 'x'"), "/d/e.toml", &e, &err), -EINVAL);
        eq_str(err.text, "/d/e.toml: default environment `x` is not configured");
        eq_int(environments_parse(&a, S(ENTRY "id='a'\nurl='x'"), "/d/e.toml", &e, &err), -EINVAL);
        eq_str(err.text, "/d/e.toml: environment url `x` must use ws:// or wss://");
}

/* Wherever the text is cut off, the result is a sound list or an error with a text. */
TEST(every_truncation_is_read_or_refused)
{
        struct slice text = whole_text();

        for (size_t n = 0; n < text.n; n++) {
                _arena_ struct arena a = ARENA_INIT;
                struct environments e = { .count = 77 };
                struct err err = ERR_INIT;
                char *cut = arena_dup(&a, slice_from(text.p, n));
                int r = environments_parse(&a, slice_from(cut, n), "/d/e.toml", &e, &err);
                if (r == 0)
                        ok(e.count <= 5);
                else
                        ok(r == err.code && err.text[0] && e.count == 77);
        }
}

TEST(hostile_bytes_are_refused)
{
        static const struct slice rows[] = {
                { "\xff\xfe", 2 }, { "default = '\xc3'", 13 },      { "default = 'a\0b'", 15 },
                { "\0", 1 },       { "default = \"\\u0000\"", 18 }, { "[[environments]]\nid = 'a", 24 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct environments e;
                struct err err = ERR_INIT;
                eq_int(environments_parse(&a, rows[i], NULL, &e, &err), -EINVAL);
                ok(strncmp(err.text, "failed to parse environment config: line ", 41) == 0);
        }
}

TEST(deep_nesting_is_refused)
{
        _buf_ struct buf text = BUF_INIT(4096);

        eq_int(buf_append(&text, S("default = ")), 0);
        for (int i = 0; i < 64; i++)
                eq_int(buf_append_char(&text, '['), 0);
        for (int i = 0; i < 64; i++)
                eq_int(buf_append_char(&text, ']'), 0);
        _arena_ struct arena a = ARENA_INIT;
        struct environments e;
        struct err err = ERR_INIT;
        eq_int(environments_parse(&a, buf_slice(&text), NULL, &e, &err), -EINVAL);
        ok(strstr(err.text, "line 1") != NULL);
}

TEST(a_huge_file_is_refused)
{
        _buf_ struct buf text = BUF_INIT(2 * LIMIT_ENVIRONMENTS_BYTES);
        _arena_ struct arena a = ARENA_INIT;
        struct environments e;
        struct err err = ERR_INIT;

        while (text.n < LIMIT_ENVIRONMENTS_BYTES)
                eq_int(buf_append_char(&text, '\n'), 0);
        reads(&a, buf_slice(&text), NULL, &e);
        eq_int(buf_append_char(&text, '\n'), 0);
        eq_int(environments_parse(&a, buf_slice(&text), NULL, &e, &err), -EFBIG);
        eq_str(err.text, "failed to parse environment config: it has more than 1048576 bytes");
}

TEST(there_is_a_largest_number_of_environments)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_ENVIRONMENTS_BYTES);
        _arena_ struct arena a = ARENA_INIT;
        struct environments e;

        for (int i = 0; i < LIMIT_ENVIRONMENTS; i++)
                eq_int(buf_printf(&text, ENTRY "id='e%d'\nurl='ws://h'\n", i), 0);
        reads(&a, buf_slice(&text), NULL, &e);
        eq_u64(e.count, LIMIT_ENVIRONMENTS + 1);
        eq_int(buf_printf(&text, ENTRY "id='last'\nurl='ws://h'\n"), 0);
        refuses(buf_slice(&text),
                "failed to parse environment config: line 3073, column 3: more than 1024 environments");
}

TEST(a_long_id_is_shown_in_part)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_ENVIRONMENTS_BYTES);
        _arena_ struct arena a = ARENA_INIT;
        struct environments e;
        struct err err = ERR_INIT;

        eq_int(buf_append(&text, S(ENTRY "id='")), 0);
        for (int i = 0; i < 100000; i++)
                eq_int(buf_append_char(&text, 'x'), 0);
        eq_int(buf_append(&text, S("'\nurl='ws://h'")), 0);
        eq_int(environments_parse(&a, buf_slice(&text), NULL, &e, &err), -EINVAL);
        ok(strstr(err.text, "xxx\u2026` cannot be longer than 64 characters") != NULL);
}
