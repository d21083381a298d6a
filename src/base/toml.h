/* toml: the part of TOML that our configuration files use.
 *
 * Tables, arrays of tables, inline tables, dotted and quoted keys, basic and literal strings (also multi-line),
 * integers (all four bases, underscores), floats, booleans, arrays, comments. Dates and anything else are refused with
 * line and column. Keys may not repeat. Input must be UTF-8 without NUL; nesting at most 32.
 *
 * The result is a tree in the caller's arena. Pure; no I/O.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

enum toml_type { TOML_STRING, TOML_INTEGER, TOML_FLOAT, TOML_BOOL, TOML_ARRAY, TOML_TABLE };

struct toml {
        enum toml_type type;
        struct slice key;      /* set for a member of a table */
        unsigned line, column; /* where its key (or, in an array, its value) stands; from 1 */
        struct slice string;
        int64_t integer;
        double real;
        bool boolean;
        struct toml *first, *next; /* members of a table or items of an array, in file order */
};

/* Returns the root table, or NULL with err->text like "line 3, column 7: …". */
NODISCARD struct toml *toml_parse(struct arena *a, struct slice text, struct err *err);

NODISCARD const struct toml *toml_find(const struct toml *table, struct slice key);
