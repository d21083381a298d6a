/* pattern_parse: parses the text of a pattern into tokens, expands its braces, and cleans the components.
 *
 * Braces are expanded over tokens, not over text, so that two characters that come together do not form a new special
 * token. EXPANDED_TOKENS_MAX bounds the work, however deep the braces are nested.
 */
#include "policy/pattern_internal.h"

#include "base/utf8.h"

#include <errno.h>

#define EXPANDED_TOKENS_MAX ((size_t)128 * 1024)

#define INVALID_BYTE_BASE 0x110000u

struct tokens {
        struct token *list;
        size_t count;
};

static int malformed(struct err *err, struct slice text, const char *why)
{
        return err_set(err, 0, -EINVAL, "invalid deny-read glob pattern `%.*s`: %s", SLICE(text), why);
}

uint32_t pattern_char(struct slice s, size_t *ret_bytes)
{
        const unsigned char *p = (const unsigned char *)s.p;
        size_t n = utf8_sequence(s.p, s.n);

        *ret_bytes = n > 0 ? n : 1;
        switch (n) {
        case 1:
                return p[0];
        case 2:
                return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
        case 3:
                return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        case 4:
                return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
        default:
                return INVALID_BYTE_BASE + p[0];
        }
}

/* ---- Reading tokens */

static struct slice rest_from(struct slice s, size_t at)
{
        return slice_from(s.p + at, s.n - at);
}

/* Returns the position of the `]` that closes the class whose content begins at `at`; 0 when nothing closes it. A `]` that comes
 * first belongs to the content. */
static size_t class_end(struct slice text, size_t at)
{
        if (at >= text.n)
                return 0;
        const char *end = memchr(text.p + at + 1, ']', text.n - at - 1);
        return end ? (size_t)(end - text.p) : 0;
}

/* Reads the ranges between `at` and `end`. A `-` in the first or last place stands for itself. */
static int read_class(struct arena *a, struct slice text, size_t at, size_t end, struct token *ret)
{
        struct char_range *ranges = arena_alloc(a, (end - at + 1) * sizeof(*ranges));
        size_t count = 0;
        bool is_open = false; /* the `-` of a range was read, its end was not */

        while (at < end) {
                size_t bytes;
                uint32_t c = pattern_char(slice_from(text.p + at, end - at), &bytes);
                at += bytes;
                if (is_open) {
                        if (c < ranges[count - 1].first)
                                return -EINVAL;
                        ranges[count - 1].last = c;
                        is_open = false;
                } else if (c == '-' && count > 0) {
                        is_open = true;
                } else {
                        ranges[count++] = (struct char_range){ c, c };
                }
        }
        if (is_open)
                ranges[count++] = (struct char_range){ '-', '-' };
        ret->ranges = ranges;
        ret->range_count = count;
        return 0;
}

/* Reads a class that begins with the `[` at *at, or the character `[` when nothing closes the class. */
static int read_bracket(struct arena *a, struct slice text, size_t *at, struct token *ret)
{
        size_t begin = *at + 1;
        bool is_negated = begin < text.n && (text.p[begin] == '!' || text.p[begin] == '^');
        size_t end = class_end(text, begin + is_negated);

        if (end == 0) {
                *ret = (struct token){ .kind = TOKEN_CHAR, .c = '[', .text = slice_from(text.p + *at, 1) };
                ++*at;
                return 0;
        }
        *ret = (struct token){ .kind = TOKEN_CLASS, .is_negated = is_negated };
        *at = end + 1;
        return read_class(a, text, begin + is_negated, end, ret);
}

static void read_char(struct slice text, size_t *at, struct token *ret)
{
        size_t bytes;
        uint32_t c = pattern_char(rest_from(text, *at), &bytes);

        *ret = (struct token){ .kind = TOKEN_CHAR, .c = c, .text = slice_from(text.p + *at, bytes) };
        *at += bytes;
}

static void read_stars(struct slice text, size_t *at, struct token *ret)
{
        size_t n = 0;
        while (*at < text.n && text.p[*at] == '*') {
                n++;
                ++*at;
        }
        *ret = (struct token){ .kind = n == 2 ? TOKEN_STAR_STAR : TOKEN_STAR };
}

static int tokenize(struct arena *a, struct slice text, struct tokens *ret, struct err *err)
{
        struct token *list = arena_alloc(a, text.n * sizeof(*list));
        size_t count = 0, at = 0, depth = 0;

        while (at < text.n) {
                struct token *t = &list[count++];
                char c = text.p[at];
                if (c == '[') {
                        if (read_bracket(a, text, &at, t) < 0)
                                return malformed(err, text, "a range that ends before it begins");
                } else if (c == '*') {
                        read_stars(text, &at, t);
                } else if (c == '?') {
                        *t = (struct token){ .kind = TOKEN_ANY };
                        at++;
                } else if (c == '{' || (c == ',' && depth > 0) || c == '}') {
                        if (c == '}' && depth == 0)
                                return malformed(err, text, "a `}` without its `{`");
                        *t = (struct token){ .kind = c == '{'   ? TOKEN_OPEN
                                                     : c == ',' ? TOKEN_COMMA
                                                                : TOKEN_CLOSE };
                        depth = c == '{' ? depth + 1 : c == '}' ? depth - 1 : depth;
                        at++;
                } else {
                        at += c == '\\';
                        if (at == text.n)
                                return malformed(err, text, "nothing behind the last `\\`");
                        read_char(text, &at, t);
                }
        }
        if (depth > 0)
                return malformed(err, text, "a `{` without its `}`");
        *ret = (struct tokens){ list, count };
        return 0;
}

/* ---- Expanding braces */

/* Returns the position of the first open brace; `in->count` when there is none. */
static size_t find_open(const struct tokens *in)
{
        size_t i = 0;
        while (i < in->count && in->list[i].kind != TOKEN_OPEN)
                i++;
        return i;
}

/* Returns the position of the comma or closing brace that ends the choice which begins at `at`. */
static size_t choice_end(const struct tokens *in, size_t at)
{
        size_t depth = 0;
        for (;; at++) {
                enum token_kind kind = in->list[at].kind;
                if (depth == 0 && (kind == TOKEN_COMMA || kind == TOKEN_CLOSE))
                        return at;
                depth += kind == TOKEN_OPEN;
                depth -= kind == TOKEN_CLOSE;
        }
}

static struct tokens joined(struct arena *a, const struct tokens *in, const size_t cuts[4])
{
        size_t head = cuts[0], choice = cuts[2] - cuts[1], tail = in->count - cuts[3];
        struct token *list = arena_alloc(a, (head + choice + tail) * sizeof(*list));

        memcpy(list, in->list, head * sizeof(*list));
        memcpy(list + head, in->list + cuts[1], choice * sizeof(*list));
        memcpy(list + head + choice, in->list + cuts[3], tail * sizeof(*list));
        return (struct tokens){ list, head + choice + tail };
}

/* Replaces list[at], whose first brace is at `open`, by one list of tokens for each choice in that brace: the first in its place,
 * the others at the end of `list`. */
static int multiply(struct arena *a, struct tokens *list, size_t *count, size_t at, size_t open,
                    size_t *budget)
{
        struct tokens in = list[at];
        size_t close = open, begin = open + 1;

        do
                close = choice_end(&in, close + 1);
        while (in.list[close].kind == TOKEN_COMMA);

        for (bool is_first = true; begin <= close; is_first = false) {
                size_t end = choice_end(&in, begin);
                struct tokens out = joined(a, &in, (size_t[4]){ open, begin, end, close + 1 });
                if (out.count + 1 > *budget || (!is_first && *count == PATTERN_ALTERNATIVES_MAX))
                        return -E2BIG;
                *budget -= out.count + 1;
                list[is_first ? at : (*count)++] = out;
                begin = end + 1;
        }
        return 0;
}

/* ---- Splitting into components */

static bool is_dots(const struct component *c, size_t n)
{
        if (!c->is_literal || c->count != n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (c->tokens[i].c != '.')
                        return false;
        return true;
}

static bool is_separator(const struct token *t)
{
        return t->kind == TOKEN_CHAR && t->c == '/';
}

static struct component next_component(const struct tokens *in, size_t *at)
{
        struct component c = { .tokens = in->list + *at, .is_literal = true };

        for (; *at < in->count && !is_separator(&in->list[*at]); ++*at) {
                c.is_literal = c.is_literal && in->list[*at].kind == TOKEN_CHAR;
                c.count++;
        }
        ++*at; /* the slash */
        return c;
}

static int clean(struct arena *a, const struct tokens *in, struct alternative *ret)
{
        struct component *list = arena_alloc(a, (in->count + 1) * sizeof(*list));
        size_t count = 0;

        for (size_t at = 0; at < in->count;) {
                struct component c = next_component(in, &at);
                if (c.count == 0 || is_dots(&c, 1))
                        continue;
                if (!is_dots(&c, 2)) {
                        list[count++] = c;
                        continue;
                }
                /* A `*` may match a link or nothing, so a `..` after it cannot remove a known component. */
                if (count > 0 && !list[count - 1].is_literal)
                        return -EINVAL;
                count -= count > 0;
        }
        *ret = (struct alternative){ list, count };
        return 0;
}

int pattern_parse(struct arena *a, struct slice text, struct alternatives *ret, struct err *err)
{
        struct tokens list[PATTERN_ALTERNATIVES_MAX] = { 0 };
        size_t count = 1, budget = EXPANDED_TOKENS_MAX;

        if (text.n == 0 || text.p[0] != '/')
                return malformed(err, text, "it is not absolute");
        if (text.n > PATTERN_BYTES_MAX || slice_has_nul(text))
                return malformed(err, text, "it is too long, or holds a NUL");
        int r = tokenize(a, text, &list[0], err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < count; i++) {
                for (size_t open; (open = find_open(&list[i])) < list[i].count;)
                        if (multiply(a, list, &count, i, open, &budget) < 0)
                                return malformed(err, text, "its braces stand for too many patterns");
                if (clean(a, &list[i], &ret->list[i]) < 0)
                        return malformed(err, text, "a `..` behind a component with special characters");
                if (ret->list[i].count == 0)
                        return malformed(err, text, "it means the root directory");
        }
        ret->count = count;
        return 0;
}
