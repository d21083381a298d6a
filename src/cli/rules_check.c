/* rules_check: `farhand rules check`: prints what rules decide about a command, as the JSON that Codex prints. */
#include "cli/rules.h"

#include "base/args.h"
#include "base/buf.h"
#include "base/printable.h"
#include "rules/exec_verdict_json.h"

#include <errno.h>
#include <stdio.h>

#define JSON_BYTES_MAX (256 * 1024 * 1024) /* a command of 2 MiB that 10,000 rules match would be more */

/* Prints JSON over several lines, with two blanks for each level. The text is JSON that jsonw wrote. */
static void print_pretty(struct slice json)
{
        int level = 0;
        bool is_string = false;

        for (size_t i = 0; i < json.n; i++) {
                char c = json.p[i], next = i + 1 < json.n ? json.p[i + 1] : '\0';
                bool is_open = c == '{' || c == '[', is_close = c == '}' || c == ']';

                if (is_string || c == '"') {
                        putchar(c);
                        if (is_string && c == '\\')
                                putchar(json.p[++i]);
                        else if (c == '"')
                                is_string = !is_string;
                        continue;
                }
                if (is_open && (next == '}' || next == ']')) {
                        printf("%c%c", c, next);
                        i++;
                        continue;
                }
                level += is_open;
                level -= is_close;
                if (is_close)
                        printf("\n%*s", level * 2, "");
                putchar(c);
                if (c == ':')
                        putchar(' ');
                if (is_open || c == ',')
                        printf("\n%*s", level * 2, "");
        }
}

static int print_verdict(const struct exec_command *command, const struct exec_verdict *v, bool is_pretty)
{
        _buf_ struct buf out = BUF_INIT(JSON_BYTES_MAX);
        struct jsonw w;

        jsonw_begin(&w, &out);
        exec_verdict_write(&w, command, v);
        if (jsonw_end(&w) < 0) {
                fprintf(stderr, "error: the answer would have more than %d bytes\n", JSON_BYTES_MAX);
                return 1;
        }
        if (is_pretty)
                print_pretty(buf_slice(&out));
        else
                (void)fwrite(out.p, 1, out.n, stdout);
        putchar('\n');
        return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}

static int check(const struct arg_list *files, char **words, struct exec_command *command, bool is_pretty)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        _exec_rules_ struct exec_rules *rules = rules_files_load(files, &err);
        if (!rules) {
                fprintf(stderr, "error: %s\n", err.text);
                return 1;
        }
        struct slice *list = arena_alloc(&a, command->count * sizeof(*list));
        for (size_t i = 0; i < command->count; i++)
                list[i] = slice_from_str(words[i]);
        command->words = list;
        command->cwd = rules_cwd(&a);

        struct exec_verdict v;
        exec_rules_match(rules, &a, command, &v);
        return print_verdict(command, &v, is_pretty);
}

int rules_check(int argc, char **argv)
{
        _arg_list_ struct arg_list files = { 0 };
        struct exec_command command = { 0 };
        bool is_pretty = false;
        int rest = 0;
        const struct arg table[] = {
                { "rules", ARG_LIST, "FILE", "read these rules only; may be given more than once",
                  .target = &files, .letter = 'r', .offers = OFFER_FILE },
                { "resolve-host-executables", ARG_FLAG, NULL, "let a path match rules for its base name",
                  .target = &command.is_resolving },
                { "pretty", ARG_FLAG, NULL, "print the JSON over several lines", .target = &is_pretty },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand rules check [--rules FILE]... [OPTIONS] [--] COMMAND [ARG...]",
                .about = "Say what rules decide about a command. Nothing is run.",
                .table = table,
                .operands = OFFER_COMMAND,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        if (rest == argc) {
                fprintf(stderr, "error: a command is needed\n\nUsage: %s\n", spec.usage);
                return 2;
        }
        command.count = (size_t)(argc - rest);
        return check(&files, argv + rest, &command, is_pretty);
}
