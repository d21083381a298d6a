/* starlark: the declarative part of Starlark, the language of .rules files. Pure; no I/O.
 *
 * A text is a list of statements, which are separated by line ends or `;`:
 *
 *     NAME = expression        NAME += expression        function(arguments)        expression
 *
 * An expression is a string, an integer, True, False, None, a NAME, a list, a tuple, or a sum of strings, lists or tuples. Arguments
 * are positional or named. Calls stand alone: they are no part of an expression. Everything else of Starlark (loops, conditions,
 * definitions, operators, indexes, dictionaries, f-strings) is refused with line and column. Error texts are those of the engine that
 * Codex uses, as far as it has the same error.
 *
 * Invariant: no list contains itself, not even by way of other lists.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

enum starlark_type {
        STARLARK_NONE,
        STARLARK_BOOL,
        STARLARK_INT,
        STARLARK_STRING,
        STARLARK_LIST,
        STARLARK_TUPLE,
};

/* Values are shared: a list that has two names is one value, and `+=` changes it for both. */
struct starlark_value {
        enum starlark_type type;
        struct slice text; /* the bytes of a string, the digits of an integer; True or False */
        struct starlark_value **items;
        size_t count, room; /* of the items */
};

struct starlark_argument {
        struct slice name; /* p == NULL: positional */
        const struct starlark_value *value;
};

struct starlark_call {
        size_t function; /* index in starlark_program::functions */
        unsigned line, column;
        const struct starlark_argument
                *arguments; /* the positional ones come first; no name is there twice */
        size_t count;
};

struct starlark_program {
        const char *name; /* of the text, for errors */
        struct slice text;
        const char *const *functions;
        size_t function_count;
        /* Is called for each call, in the order of the text. Values live as long as the arena, but their lists may still grow. Returns
         * 0, or -errno with a text, to which the position is added. */
        int (*call)(void *arg, const struct starlark_call *call, struct err *err);
        void *arg;
        /* How many steps are left: a value that is made, an item that is copied and eight bytes that are joined are one step each. Texts
         * that belong together share the number. */
        size_t *steps;
};

/* Runs a text. The values are in the arena. Returns 0, or -errno with the text "NAME:LINE:COLUMN: …"; columns count characters. */
NODISCARD int starlark_run(struct arena *a, const struct starlark_program *program, struct err *err);

/* Returns the name of the type: "NoneType", "bool", "int", "string", "list", "tuple". */
const char *starlark_type_name(enum starlark_type type);
/* Returns the value as it is written in Starlark, in the arena, printable; a long text is cut. */
NODISCARD const char *starlark_repr(struct arena *a, const struct starlark_value *value);
