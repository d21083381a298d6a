/* starlark_lex: the tokens of a Starlark text.
 *
 * Blanks, comments and joined lines are skipped; so are line ends inside of brackets. The last tokens of a text are a TOKEN_NEWLINE and
 * TOKEN_END; further calls give TOKEN_END again. An error is set once, and the lexer is not used after it.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct starlark_position {
        unsigned line, column; /* from 1; columns count characters */
};

enum token_kind { TOKEN_END, TOKEN_NEWLINE, TOKEN_NAME, TOKEN_INT, TOKEN_STRING, TOKEN_SYMBOL };

struct token {
        enum token_kind kind;
        struct starlark_position at;
        struct slice text;   /* as it is written */
        struct slice string; /* TOKEN_STRING: its bytes */
};

struct starlark_lexer {
        struct arena *arena;
        const char *name; /* of the text */
        const char *p, *end;
        const char *mark; /* column `mark_column` of line `line` is here */
        unsigned line, mark_column;
        unsigned brackets; /* that are open */
        bool is_line_start;
        bool has_ended; /* the last TOKEN_NEWLINE was given */
        struct err *err;
};

/* Begins a text. Returns false with *err when it is not UTF-8. */
NODISCARD bool starlark_lex_begin(struct starlark_lexer *l, struct arena *a, const char *name,
                                  struct slice text, struct err *err);
/* Reads the next token. Returns false with the error that was given to starlark_lex_begin. */
NODISCARD bool starlark_lex_next(struct starlark_lexer *l, struct token *ret);

/* Sets the error "NAME:LINE:COLUMN: …". Always returns false. */
bool starlark_fail(struct starlark_lexer *l, struct starlark_position at, const char *fmt, ...)
        PRINTF_LIKE(3, 4);
/* Fails because something is Starlark, but not of the part that this program knows. Always returns false. */
bool starlark_fail_unsupported(struct starlark_lexer *l, struct starlark_position at, const char *what);

static inline bool token_is(const struct token *t, const char *symbol)
{
        return t->kind == TOKEN_SYMBOL && slice_eq(t->text, slice_from_str(symbol));
}
