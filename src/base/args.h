/* args: option tables for the command lines.
 *
 * One table per subcommand gives parsing, help and (through scripts) the check against the man page. Long options
 * only, `--name VALUE` or `--name=VALUE`; `--` ends them. `-h` and `--help` are known to every table.
 */
#pragma once

#include "base/compat.h"

enum arg_kind { ARG_FLAG, ARG_STRING, ARG_U64 };

struct arg {
        const char *name; /* without the dashes */
        enum arg_kind kind;
        const char *value; /* name of the value in the help: "FILE" */
        const char *help;  /* one line */
        void *target;      /* bool *, const char **, or uint64_t * */
        uint64_t min, max; /* ARG_U64; max 0 = no bound */
        bool *given;       /* set when the option was there; may be NULL */
};

struct args {
        const char *usage;       /* "farhand serve [OPTIONS]" */
        const char *about;       /* one sentence */
        const struct arg *table; /* ends with name == NULL */
};

enum args_result { ARGS_OK, ARGS_HELP, ARGS_BAD };

/* Parses argv[1…]. *ret_rest is the index of the first operand; NULL: operands are refused. ARGS_HELP: help was printed to
 * stdout, exit 0. ARGS_BAD: the complaint was printed to stderr, exit 2. Strings point into argv. */
NODISCARD enum args_result args_parse(const struct args *spec, int argc, char **argv, int *ret_rest);
/* Prints that `value` is not valid for the option `name`; `choices` says which values are. Returns ARGS_BAD. */
enum args_result args_refuse(const char *name, const char *value, const char *choices);
