/* pattern_internal: from the text of a pattern to what its alternatives are made of (pattern_parse.c). */
#pragma once

#include "policy/pattern.h"

enum token_kind {
        TOKEN_CHAR,      /* this character */
        TOKEN_ANY,       /* `?` */
        TOKEN_CLASS,     /* `[…]` */
        TOKEN_STAR,      /* `*` */
        TOKEN_STAR_STAR, /* exactly two: special as a whole component */
        TOKEN_OPEN,      /* the three of braces; gone from alternatives */
        TOKEN_COMMA,
        TOKEN_CLOSE,
};

struct char_range {
        uint32_t first, last;
};

struct token {
        enum token_kind kind;
        bool is_negated;    /* class */
        uint32_t c;         /* char: see pattern_char */
        struct slice text;  /* char: its bytes */
        size_t range_count; /* class */
        const struct char_range *ranges;
};

struct component {
        const struct token *tokens;
        size_t count;
        bool is_literal; /* characters only */
};

/* One of the patterns without braces, cleaned: at least one component, none of them empty, `.` or `..`. */
struct alternative {
        struct component *components;
        size_t count;
};

struct alternatives {
        struct alternative list[PATTERN_ALTERNATIVES_MAX];
        size_t count;
};

/* The character at the beginning of `s`, which is not empty, and the bytes that it has. A byte that is no UTF-8 is a
 * character of its own, beyond all others. */
uint32_t pattern_char(struct slice s, size_t *ret_bytes);

/* `text` must live as long as the arena. -EINVAL with err. */
NODISCARD int pattern_parse(struct arena *a, struct slice text, struct alternatives *ret, struct err *err);
