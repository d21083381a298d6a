/* ssh_test: the arguments of ssh, and what the script on the far machine says. */
#include "transport/ssh.h"

#include "unit.h"

#include <errno.h>

static size_t count_of(const char *const *argv)
{
        size_t n = 0;
        while (argv[n])
                n++;
        return n;
}

static bool has(const char *const *argv, const char *text)
{
        for (; *argv; argv++)
                if (strcmp(*argv, text) == 0)
                        return true;
        return false;
}

TEST(user_host_and_port_reach_ssh_as_such)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct endpoint e;
        eq_int(endpoint_parse("ssh://me@far.example:2222", &e, &err), 0);
        const char *const *argv = ssh_argv(&a, NULL, &e, false);
        size_t n = count_of(argv);
        eq_str(argv[0], "ssh");
        eq_str(argv[n - 7], "-l");
        eq_str(argv[n - 6], "me");
        eq_str(argv[n - 5], "-p");
        eq_str(argv[n - 4], "2222");
        eq_str(argv[n - 3], "--");
        eq_str(argv[n - 2], "far.example");
        ok(!has(argv, "BatchMode=yes"));
        ok(has(ssh_argv(&a, "/opt/ssh", &e, true), "BatchMode=yes"));
        eq_str(ssh_argv(&a, "/opt/ssh", &e, true)[0], "/opt/ssh");
        endpoint_release(&e);

        eq_int(endpoint_parse("ssh://far", &e, &err), 0);
        argv = ssh_argv(&a, NULL, &e, false);
        ok(!has(argv, "-l"));
        ok(!has(argv, "-p"));
        endpoint_release(&e);
}

TEST(any_login_shell_can_take_the_script)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct endpoint e;
        eq_int(endpoint_parse("ssh://far", &e, &err), 0);
        const char *const *argv = ssh_argv(&a, NULL, &e, false);
        const char *command = argv[count_of(argv) - 1], *begin = "exec sh -c '";
        size_t n = strlen(command);
        ok(strncmp(command, begin, strlen(begin)) == 0);
        ok(command[n - 1] == '\'');
        /* csh knows neither lines nor exclamation marks inside of single quotes; fish knows backslashes there. */
        eq_u64(strcspn(command + strlen(begin), "'\\!\n\r\t"), n - strlen(begin) - 1);
        endpoint_release(&e);
}

static void line_is(const char *text, enum ssh_word word, const char *first, const char *second)
{
        struct ssh_said said;
        print_message("%s", text);
        eq_u64(ssh_next(slice_from_str(text), &said), strlen(text));
        eq_int(said.word, word);
        eq_slice(word == SSH_NEED ? said.machine : said.step, slice_from_str(first));
        eq_slice(word == SSH_NEED ? said.system : said.text, slice_from_str(second));
}

TEST(lines_of_the_script_are_told_from_noise)
{
        line_is("farhand-ssh ready\n", SSH_READY, "", "");
        line_is("farhand-ssh need x86_64 Linux\n", SSH_NEED, "x86_64", "Linux");
        line_is("farhand-ssh need\n", SSH_NEED, "", "");
        line_is("farhand-ssh fail put head: No space left on device\n", SSH_FAIL, "put",
                "head: No space left on device");
        line_is("farhand-ssh fail\n", SSH_FAIL, "", "");
        line_is("farhand-ssh\n", SSH_NOISE, "", "");
        line_is("farhand-ssh else\n", SSH_NOISE, "", "");
        line_is(" farhand-ssh ready\n", SSH_NOISE, "", "");
        line_is("\n", SSH_NOISE, "", "");

        struct ssh_said said;
        eq_u64(ssh_next(S(""), &said), 0);
        eq_u64(ssh_next(S("farhand-ssh ready"), &said), 0);
        eq_u64(ssh_next(S("a\nfarhand-ssh ready\n"), &said), 2);

        char longest[200];
        memset(longest, 'x', sizeof(longest));
        memcpy(longest, "farhand-ssh need ", 17);
        longest[sizeof(longest) - 1] = '\n';
        eq_u64(ssh_next(slice_from(longest, sizeof(longest)), &said), sizeof(longest));
        eq_u64(said.machine.n, SSH_WORD_MAX);
}

static void refusal_says(const char *line, const char *part)
{
        struct ssh_said said;
        struct err err = ERR_INIT;
        struct endpoint e = { .kind = ENDPOINT_SSH, .host = (char[]){ "far" } };
        ok(ssh_next(slice_from_str(line), &said) > 0);
        eq_int(ssh_refused(&e, &said, &err), -EPROTO);
        print_message("%s\n", err.text);
        ok(strstr(err.text, part) != NULL);
        ok(strncmp(err.text, "far: ", 5) == 0);
        ok(!strchr(err.text, '\x1b'));
}

TEST(what_the_far_machine_lacks_is_told_in_words)
{
        refusal_says("farhand-ssh fail put head: \x1b[2JNo space left on device\n",
                     "No space left on device");
        refusal_says("farhand-ssh fail digest\n", "its digest differs");
        refusal_says("farhand-ssh fail run sh: Permission denied\n", "noexec");
        refusal_says("farhand-ssh fail version farhand 9\n", "`farhand 9`");
        refusal_says("farhand-ssh fail \x1b[2J\n", "could not be started");
}

TEST(the_end_of_ssh_is_told_by_its_code)
{
        static const struct {
                int status, code;
                const char *part;
        } rows[] = {
                { 255 << 8, -ECONNREFUSED, "did not reach far" },
                { -1, -ECONNREFUSED, "did not reach far" },
                { 127 << 8, -EPROTO, "no sh" },
                { 1 << 8, -ECONNRESET, "ended with code 1" },
                { 9, -ECONNREFUSED, "was ended by signal 9" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct err err = ERR_INIT;
                struct endpoint e = { .kind = ENDPOINT_SSH, .host = (char[]){ "far" } };
                eq_int(ssh_ended(&e, rows[i].status, &err), rows[i].code);
                ok(strstr(err.text, rows[i].part) != NULL);
        }
}
