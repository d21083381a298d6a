/* args: option tables for the command lines.
 *
 * One table per subcommand gives parsing, help, and the rows from which scripts make completions and check the manual pages.
 *
 * `--name VALUE` or `--name=VALUE`; `-x VALUE` or `-xVALUE`; flags of one letter can be written together, and the last of them
 * may take a value: `-itC DIR`. `--` ends the options. `-h` and `--help` are known to every table; so is `--help-table`, alone:
 * it prints the rows and is not meant for people. A subcommand must parse its arguments before it does anything else.
 */
#pragma once

#include "base/compat.h"

enum arg_kind { ARG_FLAG, ARG_STRING, ARG_U64, ARG_LIST };

/* What a shell can offer where a value or an operand is wanted. OFFER_CLIENT: an MCP client that we know. OFFER_COMMAND: a program, and then
 * whatever it takes. */
enum arg_offer { OFFER_NOTHING, OFFER_FILE, OFFER_DIRECTORY, OFFER_ENVIRONMENT, OFFER_CLIENT, OFFER_COMMAND };

/* The values of an option that may be given more than once, in their order. Begins as { 0 }. */
struct arg_list {
        const char **items; /* the values in order; the strings belong to argv */
        size_t count;
};

struct arg {
        const char *name; /* without the dashes */
        enum arg_kind kind;
        const char *value;     /* name of the value in the help: "FILE" */
        const char *help;      /* one line */
        void *target;          /* bool *, const char **, uint64_t *, or struct arg_list * */
        char letter;           /* 't': also -t; 0: none. 'h' is taken */
        enum arg_offer offers; /* what a shell offers as the value */
        uint64_t min, max;     /* ARG_U64; max 0 = no bound */
        bool *given;           /* set when the option was there; may be NULL */
};

struct args {
        const char *usage;       /* "farhand serve [OPTIONS]" */
        const char *about;       /* one sentence */
        const struct arg *table; /* ends with name == NULL */
        /* Options may stand behind operands too, as in `cp A B --recursive`. Otherwise they end at the first operand, so that
         * what follows it (a command with options of its own) is not looked at. */
        bool is_mixed;
        enum arg_offer operands; /* what a shell offers as an operand */
        enum arg_offer behind;   /* what a shell offers behind `--`, if that is something else */
};

enum args_result { ARGS_OK, ARGS_HELP, ARGS_BAD };

/* Parses argv[1…]. *ret_rest is the index of the first operand; NULL: operands are refused. With `is_mixed` argv is put in order:
 * all operands are at its end. ARGS_HELP: help or the rows were printed to stdout, exit 0. ARGS_BAD: the complaint was printed to
 * stderr, exit 2. Strings point into argv; the caller releases lists, whatever the result. */
NODISCARD enum args_result args_parse(const struct args *spec, int argc, char **argv, int *ret_rest);
/* Returns the exit code of a command that goes no further: 0 after ARGS_HELP, 2 after ARGS_BAD. */
NODISCARD int args_exit_code(enum args_result result);
/* Prints that `value` is not valid for the option `name`; `choices` says which values are. Returns ARGS_BAD. */
enum args_result args_refuse(const char *name, const char *value, const char *choices);
/* Is this command line the request for the rows? */
NODISCARD bool args_wants_table(int argc, char **argv);

void arg_list_release(struct arg_list *list);
#define _arg_list_ CLEANUP(arg_list_release)
