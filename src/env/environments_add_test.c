/* environments_add_test: what an addition writes, which text stays as it was, and which additions are refused. */
#include "env/environments_add.h"

#include "base/limits.h"
#include "base/mem.h"
#include "env/environments_toml.h"

#include "unit.h"

#include <errno.h>

#define URL_ENTRY "[[environments]]\nid = \"new\"\nurl = \"ws://h\"\n"
static const struct environment_addition by_url = { .id = "new", .url = "ws://h" };
static const struct environment_addition as_default = { .id = "new", .url = "ws://h", .is_default = true };

static void adds(const char *text, const struct environment_addition *add, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice out;

        if (environments_add(&a, slice_from_str(text), "/d/e.toml", add, &out, &err) < 0)
                fail_msg("%s", err.text);
        eq_str(out.p, expect);
        eq_u64(out.n, strlen(expect));
}

static void refuses(const char *text, const struct environment_addition *add, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice out = S("untouched");

        ok(environments_add(&a, slice_from_str(text), "/d/e.toml", add, &out, &err) < 0);
        eq_str(err.text, expect);
        eq_slice(out, S("untouched"));
}

TEST(an_entry_is_appended_and_the_rest_stays)
{
        adds("", &by_url, URL_ENTRY);
        adds("# note", &by_url, "# note\n\n" URL_ENTRY);
        adds("\r\n  include_local\t=false\r\n", &by_url, "\r\n  include_local\t=false\r\n\n" URL_ENTRY);
        adds("[[environments]]\nid='a'\nprogram='p'\n[environments.env]\nA='b' # c\n", &by_url,
             "[[environments]]\nid='a'\nprogram='p'\n[environments.env]\nA='b' # c\n\n" URL_ENTRY);
}

TEST(program_arguments_and_tokens_are_written_as_toml)
{
        static const char *const args[] = { "--listen", "two words", "\"quo\\ted\"\n", "" };
        adds("",
             &(struct environment_addition){ .id = "b", .program = "/bin/p", .args = args, .arg_count = 4 },
             "[[environments]]\nid = \"b\"\nprogram = \"/bin/p\"\nargs = [\"--listen\", \"two words\", "
             "\"\\\"quo\\\\ted\\\"\\n\", \"\"]\n");
        adds("", &(struct environment_addition){ .id = "b", .url = "ws://h", .token_file = "/t" },
             "[[environments]]\nid = \"b\"\nurl = \"ws://h\"\ntoken_file = \"/t\"\n");
        adds("", &(struct environment_addition){ .id = "b", .url = "ws://h", .token_env = "T" },
             "[[environments]]\nid = \"b\"\nurl = \"ws://h\"\ntoken_env = \"T\"\n");
}

TEST(the_default_is_replaced_where_it_stands)
{
        static const char *const values[][2] = {
                { "default = 'local' # x\n", "default = \"new\" # x\n" },
                { "  \"default\"=\"no\\u006ee\"", "  \"default\"=\"new\"" },
                { "'default' \t=\t'none'\r\n", "'default' \t=\t\"new\"\r\n" },
                { "default = \"\"\"\nlocal\"\"\"\n", "default = \"new\"\n" },
                { "default = '''local'''#'\n", "default = \"new\"#'\n" },
                { "# \xc3\xbc default = 'x'\ninclude_local = true\ndefault = 'local'\n",
                  "# \xc3\xbc default = 'x'\ninclude_local = true\ndefault = \"new\"\n" },
        };
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                bool has_end = values[i][1][strlen(values[i][1]) - 1] == '\n';
                _free_ char *expect = mem_printf("%s%s" URL_ENTRY, values[i][1], has_end ? "\n" : "\n\n");
                adds(values[i][0], &as_default, expect);
        }
}

TEST(a_default_is_the_first_line_when_there_was_none)
{
        adds("", &as_default, "default = \"new\"\n\n" URL_ENTRY);
        adds("# note\n[[environments]]\nid='a'\nprogram='p'\n", &as_default,
             "default = \"new\"\n# note\n[[environments]]\nid='a'\nprogram='p'\n\n" URL_ENTRY);
}

TEST(an_addition_that_could_not_be_read_again_is_refused)
{
        static const struct environment_addition both = { .id = "b", .url = "ws://h", .program = "p" };
        static const struct environment_addition neither = { .id = "b" };
        static const struct environment_addition http = { .id = "b", .url = "http://h" };
        static const struct environment_addition local = { .id = "local", .url = "ws://h" };
        static const struct environment_addition not_utf8 = { .id = "b", .program = "\xff" };
        static const struct environment_addition quote = { .id = "a\"\n#",
                                                           .url = "ws://h",
                                                           .is_default = true };

        refuses("x", &by_url,
                "failed to parse environment config `/d/e.toml`: line 1, column 2: "
                "expected '=' behind the key, found the end of the file");
        refuses("default='x'", &by_url, "/d/e.toml: default environment `x` is not configured");
        refuses("[[environments]]\nid='new'\nprogram='p'", &by_url,
                "cannot be added: /d/e.toml: environment id `new` is duplicated");
        refuses("", &both,
                "cannot be added: /d/e.toml: environment `b` must set exactly one of url or program");
        refuses("", &neither,
                "cannot be added: /d/e.toml: environment `b` must set exactly one of url or program");
        refuses("", &http, "cannot be added: /d/e.toml: environment url `http://h` must use ws:// or wss://");
        refuses("", &local, "cannot be added: /d/e.toml: environment id `local` is reserved");
        refuses("", &quote,
                "cannot be added: /d/e.toml: environment id `a\"\\x0a#` must contain only ASCII letters, "
                "numbers, '-' or '_'");
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice out;
        eq_int(environments_add(&a, S(""), NULL, &not_utf8, &out, &err), -EINVAL);
        eq_int(environments_add(&a, S("environments = []"), NULL, &by_url, &out, &err), -EINVAL);
        ok(strstr(err.text, "cannot be added: failed to parse environment config: line 3, column 3: ") !=
           NULL);
}

TEST(a_file_does_not_grow_beyond_its_limit)
{
        _free_ char *text = mem_alloc(LIMIT_ENVIRONMENTS_BYTES + 1);
        memset(text, '\n', LIMIT_ENVIRONMENTS_BYTES);
        text[LIMIT_ENVIRONMENTS_BYTES] = '\0';
        refuses(text, &by_url, "the file would have more than 1048576 bytes");
        refuses(text, &as_default, "the file would have more than 1048576 bytes");
}
