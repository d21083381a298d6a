/* args: option tables for the command lines. */
#include "base/args.h"

#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#define OPTIONS_MAX 64 /* each option has a bit in parser::seen */

/* How far the parser has come. */
struct parser {
        const struct args *spec;
        int argc;
        char **argv;
        int at;        /* the next argument */
        uint64_t seen; /* options of the table that were given */
};

PRINTF_LIKE(2, 3) static enum args_result complain(const struct args *spec, const char *fmt, ...)
{
        va_list ap;

        fputs("error: ", stderr);
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fprintf(stderr, "\n\nUsage: %s\n\nFor more information, try '--help'.\n", spec->usage);
        return ARGS_BAD;
}

/* ---- help and rows ---- */

/* Writes "--name <VALUE>" into `out` as snprintf does; returns its length. */
static int option_spelling(const struct arg *arg, char *out, size_t size)
{
        if (arg->kind == ARG_FLAG)
                return snprintf(out, size, "--%s", arg->name);
        return snprintf(out, size, "--%s <%s>", arg->name, arg->value ? arg->value : "VALUE");
}

static bool has_letters(const struct args *spec)
{
        for (const struct arg *arg = spec->table; arg->name; arg++)
                if (arg->letter)
                        return true;
        return false;
}

static void print_help(const struct args *spec)
{
        char left[128];
        bool is_indented = has_letters(spec); /* by the width of "-t, " */
        int width = (int)strlen("-h, --help");

        for (const struct arg *arg = spec->table; arg->name; arg++) {
                int n = option_spelling(arg, NULL, 0) + (is_indented ? 4 : 0);
                width = MAX(width, n);
        }

        if (spec->about)
                printf("%s\n\n", spec->about);
        printf("Usage: %s\n\nOptions:\n", spec->usage);
        for (const struct arg *arg = spec->table; arg->name; arg++) {
                char letter[] = { '-', arg->letter, ',', ' ', '\0' };
                const char *indent = arg->letter ? letter : is_indented ? "    " : "";
                (void)option_spelling(arg, left, sizeof(left));
                printf("  %s%-*s  %s\n", indent, width - (int)strlen(indent), left,
                       arg->help ? arg->help : "");
        }
        printf("  %-*s  %s\n", width, "-h, --help", "Print this help");
        fflush(stdout);
}

static const char *const offers[] = {
        [OFFER_NOTHING] = "nothing",         [OFFER_FILE] = "file",     [OFFER_DIRECTORY] = "directory",
        [OFFER_ENVIRONMENT] = "environment", [OFFER_CLIENT] = "client", [OFFER_COMMAND] = "command",
};

/* Prints "option LETTER NAME VALUE OFFER once|many HELP" for each option and one "operands OFFER OFFER-BEHIND-- first|mixed".
 * Cells are separated by tabs, and none is empty: what is not there is a dash. */
static void print_table(const struct args *spec)
{
        for (const struct arg *arg = spec->table; arg->name; arg++) {
                char letter[] = { '-', arg->letter, '\0' };
                bool is_flag = arg->kind == ARG_FLAG;
                printf("option\t%s\t--%s\t%s\t%s\t%s\t%s\n", letter, arg->name,
                       is_flag      ? "-"
                       : arg->value ? arg->value
                                    : "VALUE",
                       offers[arg->offers], arg->kind == ARG_LIST ? "many" : "once",
                       arg->help ? arg->help : "-");
        }
        printf("option\t-h\t--help\t-\tnothing\tonce\tPrint this help\n");
        printf("operands\t%s\t%s\t%s\n", offers[spec->operands],
               offers[spec->behind == OFFER_NOTHING ? spec->operands : spec->behind],
               spec->is_mixed ? "mixed" : "first");
        fflush(stdout);
}

bool args_wants_table(int argc, char **argv)
{
        return argc == 2 && strcmp(argv[1], "--help-table") == 0;
}

/* ---- values ---- */

static enum args_result store_u64(const struct args *spec, const struct arg *arg, const char *value)
{
        uint64_t max = arg->max > 0 ? arg->max : UINT64_MAX, number = 0;

        int r = slice_to_u64(slice_from_str(value), UINT64_MAX, &number);
        if (r == -EINVAL)
                return complain(spec, "invalid value '%s' for '--%s': must be a whole number", value,
                                arg->name);
        if (r < 0 || number > max)
                return complain(spec, "invalid value '%s' for '--%s': must be at most %" PRIu64, value,
                                arg->name, max);
        if (number < arg->min)
                return complain(spec, "invalid value '%s' for '--%s': must be at least %" PRIu64, value,
                                arg->name, arg->min);

        *(uint64_t *)arg->target = number;
        return ARGS_OK;
}

static void add_to_list(struct arg_list *list, const char *value)
{
        /* The room is always a power of two, so the list is full exactly when its count is 0 or a power of two. */
        if ((list->count & (list->count - 1)) == 0)
                list->items = mem_realloc(list->items, MAX(2 * list->count, 1u) * sizeof(*list->items));
        list->items[list->count++] = value;
}

/* Stores the value of an option in its target. `value` is NULL for a flag. */
static enum args_result store(const struct args *spec, const struct arg *arg, const char *value)
{
        enum args_result result = ARGS_OK;

        switch (arg->kind) {
        case ARG_FLAG:
                *(bool *)arg->target = true;
                break;
        case ARG_STRING:
                *(const char **)arg->target = value;
                break;
        case ARG_U64:
                result = store_u64(spec, arg, value);
                break;
        case ARG_LIST:
                add_to_list(arg->target, value);
                break;
        }
        if (result == ARGS_OK && arg->given)
                *arg->given = true;
        return result;
}

/* ---- parsing ---- */

/* Stores an option that was found. `value` is what was attached to it, or NULL; without it the next argument is the value where
 * the option takes one. */
static enum args_result take_option(struct parser *p, const struct arg *arg, const char *value)
{
        size_t index = (size_t)(arg - p->spec->table);
        must(index < OPTIONS_MAX);
        if (arg->kind != ARG_LIST && p->seen & (uint64_t)1 << index)
                return complain(p->spec, "the argument '--%s' cannot be used more than once", arg->name);
        p->seen |= (uint64_t)1 << index;

        if (arg->kind == ARG_FLAG) {
                if (value)
                        return complain(p->spec, "unexpected value '%s' for '--%s'", value, arg->name);
                return store(p->spec, arg, NULL);
        }

        /* In `--a --b` the value of `--a` was probably forgotten. A value that begins with dashes must be written `--a=--b`. */
        if (!value && p->at < p->argc && !slice_starts(slice_from_str(p->argv[p->at]), S("--")))
                value = p->argv[p->at++];
        if (!value) {
                char spelling[128];
                (void)option_spelling(arg, spelling, sizeof(spelling));
                return complain(p->spec, "a value is required for '%s'", spelling);
        }
        return store(p->spec, arg, value);
}

static enum args_result parse_long(struct parser *p)
{
        struct slice rest = slice_from_str(p->argv[p->at++] + 2);
        struct slice name = slice_split(&rest, '=');
        const char *value = rest.p; /* NULL without '='; else the end of the argument, so it has a NUL */

        for (const struct arg *arg = p->spec->table; arg->name; arg++)
                if (slice_eq(slice_from_str(arg->name), name))
                        return take_option(p, arg, value);
        return complain(p->spec, "unexpected argument '--%.*s'", SLICE(name));
}

static const struct arg *find_letter(const struct args *spec, char letter)
{
        for (const struct arg *arg = spec->table; arg->name; arg++)
                if (arg->letter == letter)
                        return arg;
        return NULL;
}

/* Parses a word of letters: flags, and at its end an option with its value, attached or in the next argument. */
static enum args_result parse_letters(struct parser *p)
{
        const char *word = p->argv[p->at++];

        for (const char *letter = word + 1; *letter; letter++) {
                const struct arg *arg = find_letter(p->spec, *letter);
                if (!arg && letter == word + 1)
                        return complain(p->spec, "unexpected argument '%s'", word);
                if (!arg && *letter == 'h') {
                        print_help(p->spec);
                        return ARGS_HELP;
                }
                if (!arg)
                        return complain(p->spec, "unexpected argument '-%s' in '%s'", letter, word);
                if (arg->kind != ARG_FLAG)
                        return take_option(p, arg, letter[1] ? letter + 1 : NULL);

                enum args_result result = take_option(p, arg, NULL);
                if (result != ARGS_OK)
                        return result;
        }
        return ARGS_OK;
}

static enum args_result parse_option(struct parser *p)
{
        const char *word = p->argv[p->at];

        if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
                print_help(p->spec);
                return ARGS_HELP;
        }
        return word[1] == '-' ? parse_long(p) : parse_letters(p);
}

/* `words` begins with `operands` operands, and an option of `count` words follows: moves the option in front of the operands. */
static void move_option_up(char **words, int operands, int count)
{
        for (int i = 0; i < count && operands > 0; i++) {
                char *word = words[operands + i];
                memmove(words + i + 1, words + i, (size_t)operands * sizeof(*words));
                words[i] = word;
        }
}

enum args_result args_parse(const struct args *spec, int argc, char **argv, int *ret_rest)
{
        struct parser p = { .spec = spec, .argc = argc, .argv = argv, .at = 1 };
        int operands = 0; /* how many were found so far; they lie right before argv[p.at] */

        if (args_wants_table(argc, argv)) {
                print_table(spec);
                return ARGS_HELP;
        }
        for (bool is_end = false; p.at < argc && !is_end;) {
                int first = p.at;
                bool is_operand = argv[first][0] != '-' || argv[first][1] == '\0';

                if (is_operand && !spec->is_mixed)
                        break;
                if (is_operand) {
                        p.at++;
                        operands++;
                        continue;
                }
                is_end = strcmp(argv[first], "--") == 0;
                enum args_result result = ARGS_OK;
                if (is_end)
                        p.at++;
                else
                        result = parse_option(&p);
                if (result != ARGS_OK)
                        return result;
                move_option_up(argv + first - operands, operands, p.at - first);
        }

        int rest = MIN(p.at, argc) - operands;
        if (!ret_rest && rest < argc) {
                fprintf(stderr, "error: unexpected argument '%s'\n", argv[rest]);
                return ARGS_BAD;
        }
        if (ret_rest)
                *ret_rest = rest;
        return ARGS_OK;
}

int args_exit_code(enum args_result result)
{
        return result == ARGS_HELP ? 0 : 2;
}

enum args_result args_refuse(const char *name, const char *value, const char *choices)
{
        fprintf(stderr, "error: invalid value '%s' for '--%s': %s\n", value, name, choices);
        return ARGS_BAD;
}

void arg_list_release(struct arg_list *list)
{
        free(list->items);
        *list = (struct arg_list){ 0 };
}
