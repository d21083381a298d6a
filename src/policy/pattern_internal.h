/* pattern_internal: the tokens and alternatives that pattern_parse.c makes from the text of a pattern, for pattern.c. */
#pragma once

#include "policy/pattern.h"

enum token_kind {
        TOKEN_CHAR,      /* this character */
        TOKEN_ANY,       /* `?` */
        TOKEN_CLASS,     /* `[…]` */
        TOKEN_STAR,      /* `*` */
        TOKEN_STAR_STAR, /* `**`, which is special as a whole component */
        TOKEN_OPEN,      /* `{`. Alternatives hold no TOKEN_OPEN, TOKEN_COMMA or TOKEN_CLOSE */
        TOKEN_COMMA,
        TOKEN_CLOSE,
};

struct char_range {
        uint32_t first, last;
};

struct token {
        enum token_kind kind;
        bool is_negated;    /* TOKEN_CLASS */
        uint32_t c;         /* TOKEN_CHAR: the character, as pattern_char returns it */
        struct slice text;  /* TOKEN_CHAR: the bytes of the character */
        size_t range_count; /* TOKEN_CLASS */
        const struct char_range *ranges;
};

struct component {
        const struct token *tokens;
        size_t count;
        bool is_literal; /* characters only */
};

/* One of the patterns without braces that a pattern stands for. It is clean: at least one component, none empty, `.` or `..`. */
struct alternative {
        struct component *components;
        size_t count;
};

struct alternatives {
        struct alternative list[PATTERN_ALTERNATIVES_MAX];
        size_t count;
};

/* Returns the character at the beginning of `s`, which is not empty, and its length. A byte that is not UTF-8
 * becomes a character above all Unicode characters. */
uint32_t pattern_char(struct slice s, size_t *ret_bytes);

/* Parses `text`, which must live as long as the arena. Returns 0, or -EINVAL with err filled. */
NODISCARD int pattern_parse(struct arena *a, struct slice text, struct alternatives *ret, struct err *err);
