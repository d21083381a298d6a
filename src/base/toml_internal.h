/* toml_internal: what the files of the TOML parser share: the text (toml_text.c), strings, numbers and booleans
 * (toml_scalar.c), and keys, tables and arrays (toml.c). */
#pragma once

#include "base/toml.h"

struct position {
        unsigned line, column;
};

struct parser {
        struct arena *arena;
        const char *p, *end;
        const char *mark; /* column `mark_column` of line `line` is here; columns count characters */
        unsigned line, mark_column;
        struct err *err;
};

/* toml_text.c */
bool toml_is_control(int c);
int toml_digit_value(int c); /* the value of a digit of a base up to 16; 99: not a digit */

/* Returns true when the text is UTF-8 without NUL, which all functions below rely on. */
NODISCARD bool toml_check_text(struct parser ps);
struct position toml_here(struct parser *ps);
int toml_peek(const struct parser *ps); /* the next byte; -1 at the end */
bool toml_looking_at(const struct parser *ps, struct slice s);

/* Each of these skips the given text, a line end or blanks, if that is what comes next. */
bool toml_accept(struct parser *ps, struct slice s);
bool toml_accept_newline(struct parser *ps);
void toml_skip_blanks(struct parser *ps);
/* Takes ASCII letters, digits and the characters of `others`; n == 0: another character is next. */
NODISCARD struct slice toml_take_word(struct parser *ps, const char *others);
/* Skips blanks and a comment, up to the end of the line. */
NODISCARD bool toml_skip_comment(struct parser *ps);
/* Skips blanks, comments and line ends, which may stand between the items of an array. */
NODISCARD bool toml_skip_lines(struct parser *ps);

/* Report a mistake in the text. Always return false. */
bool toml_fail(struct parser *ps, struct position at, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool toml_fail_expected(struct parser *ps, const char *what);

/* toml_scalar.c */
/* Parses a string of any of the four kinds; the opening quote is next. */
NODISCARD bool toml_parse_string(struct parser *ps, struct slice *ret);
/* Parses a value that is no string, array or table: a run of letters, digits and signs. */
NODISCARD bool toml_parse_word(struct parser *ps, struct toml *value);
