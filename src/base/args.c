/* args: option tables for the command lines.
 *
 * Parsing stops at the first operand, so that what follows it (a command with options of its own) is not
 * looked at.
 */
#include "base/args.h"

#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#define OPTIONS_MAX 64 /* bits of `seen` */

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

/* Writes "--name <VALUE>" into `out` as snprintf does; returns its length. */
static int option_spelling(const struct arg *arg, char *out, size_t size)
{
        if (arg->kind == ARG_FLAG)
                return snprintf(out, size, "--%s", arg->name);
        return snprintf(out, size, "--%s <%s>", arg->name, arg->value ? arg->value : "VALUE");
}

static void print_help(const struct args *spec)
{
        char left[128];
        int width = (int)strlen("-h, --help");

        for (const struct arg *arg = spec->table; arg->name; arg++) {
                int n = option_spelling(arg, NULL, 0);
                width = MAX(width, n);
        }

        if (spec->about)
                printf("%s\n\n", spec->about);
        printf("Usage: %s\n\nOptions:\n", spec->usage);
        for (const struct arg *arg = spec->table; arg->name; arg++) {
                (void)option_spelling(arg, left, sizeof(left));
                printf("  %-*s  %s\n", width, left, arg->help ? arg->help : "");
        }
        printf("  %-*s  %s\n", width, "-h, --help", "Print this help");
        fflush(stdout);
}

static const struct arg *find_option(const struct args *spec, struct slice name)
{
        for (const struct arg *arg = spec->table; arg->name; arg++)
                if (slice_eq(slice_from_str(arg->name), name))
                        return arg;
        return NULL;
}

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
        }
        if (result == ARGS_OK && arg->given)
                *arg->given = true;
        return result;
}

/* Parses the option at argv[*i], and the value behind it where the option takes one; *i moves past both. */
static enum args_result parse_option(const struct args *spec, int argc, char **argv, int *i, uint64_t *seen)
{
        struct slice rest = slice_from_str(argv[(*i)++] + 2);
        struct slice name = slice_split(&rest, '=');
        const char *value = rest.p; /* NULL without '='; else the end of the argument, so it has a NUL */

        const struct arg *arg = find_option(spec, name);
        if (!arg)
                return complain(spec, "unexpected argument '--%.*s'", SLICE(name));

        size_t index = (size_t)(arg - spec->table);
        must(index < OPTIONS_MAX);
        if (*seen & (uint64_t)1 << index)
                return complain(spec, "the argument '--%s' cannot be used more than once", arg->name);
        *seen |= (uint64_t)1 << index;

        if (arg->kind == ARG_FLAG) {
                if (value)
                        return complain(spec, "unexpected value '%s' for '--%s'", value, arg->name);
                return store(spec, arg, NULL);
        }

        /* In `--a --b` the value of `--a` was probably forgotten. A value that begins with dashes must be written `--a=--b`. */
        if (!value && *i < argc && !slice_starts(slice_from_str(argv[*i]), S("--")))
                value = argv[(*i)++];
        if (!value) {
                char spelling[128];
                (void)option_spelling(arg, spelling, sizeof(spelling));
                return complain(spec, "a value is required for '%s'", spelling);
        }
        return store(spec, arg, value);
}

enum args_result args_parse(const struct args *spec, int argc, char **argv, int *ret_rest)
{
        uint64_t seen = 0;
        int i = 1;

        while (i < argc) {
                struct slice arg = slice_from_str(argv[i]);

                if (slice_eq(arg, S("--"))) {
                        i++;
                        break;
                }
                if (slice_eq(arg, S("-h")) || slice_eq(arg, S("--help"))) {
                        print_help(spec);
                        return ARGS_HELP;
                }
                if (!slice_starts(arg, S("-")) || arg.n == 1)
                        break;
                if (!slice_starts(arg, S("--")))
                        return complain(spec, "unexpected argument '%s'", argv[i]);

                enum args_result result = parse_option(spec, argc, argv, &i, &seen);
                if (result != ARGS_OK)
                        return result;
        }

        if (!ret_rest && i < argc) {
                fprintf(stderr, "error: unexpected argument '%s'\n", argv[i]);
                return ARGS_BAD;
        }
        if (ret_rest)
                *ret_rest = MIN(i, argc);
        return ARGS_OK;
}

enum args_result args_refuse(const char *name, const char *value, const char *choices)
{
        fprintf(stderr, "error: invalid value '%s' for '--%s': %s\n", value, name, choices);
        return ARGS_BAD;
}
