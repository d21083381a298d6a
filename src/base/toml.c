/* toml: see toml.h. TOML 1.0 (toml.io/en/v1.0.0) but for dates.
 *
 * Recursive descent over the text; recursion is bounded because every table and array knows its depth. The
 * tree's nodes are `struct toml` with private fields behind: how a table came to be (which decides what may
 * still be added to it) and a hash trie of the members, so that a file of many keys is not searched again and
 * again for repeated ones.
 */
#include "base/toml.h"

#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>

#define DEPTH_MAX 32
#define NUMBER_BYTES_MAX 128 /* longer than any number that means something */

/* How a node came to be. */
enum origin {
        BY_VALUE,  /* key = value; inline tables too: nothing can be added later */
        BY_PATH,   /* [a.b] made `a`; [a] may still come, once, or dotted keys */
        BY_HEADER, /* [a] */
        BY_DOTS,   /* a.b = 1 made `a`; only dotted keys may add to it */
        BY_ITEMS,  /* the array that [[a]] adds to */
};

struct node {
        struct toml toml; /* must be first */
        struct node *last;
        struct node *members[4]; /* hash trie of the members of a table */
        struct node *branch[4];  /* of the trie that this node is in */
        enum origin origin;
        unsigned depth;
};

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

struct key {
        struct slice name;
        struct position at;
        bool has_more; /* a dot follows */
};

static bool parse_value(struct parser *ps, struct node *node);

static struct position here(struct parser *ps)
{
        for (; ps->mark < ps->p; ps->mark++)
                ps->mark_column += (*ps->mark & 0xc0) != 0x80;
        return (struct position){ ps->line, ps->mark_column };
}

/* Always false. */
PRINTF_LIKE(3, 4) static bool fail(struct parser *ps, struct position at, const char *fmt, ...)
{
        char text[256];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        err_set(ps->err, 0, -EINVAL, "line %u, column %u: %s", at.line, at.column, text);
        return false;
}

static int peek(const struct parser *ps)
{
        return ps->p < ps->end ? (uint8_t)*ps->p : -1;
}

static bool looking_at(const struct parser *ps, struct slice s)
{
        return slice_starts(slice_from(ps->p, (size_t)(ps->end - ps->p)), s);
}

/* Moves over `s` if it is next. */
static bool accept(struct parser *ps, struct slice s)
{
        if (!looking_at(ps, s))
                return false;
        ps->p += s.n;
        return true;
}

static bool accept_newline(struct parser *ps)
{
        if (!accept(ps, S("\n")) && !accept(ps, S("\r\n")))
                return false;
        ps->line++;
        ps->mark = ps->p;
        ps->mark_column = 1;
        return true;
}

static void skip_blanks(struct parser *ps)
{
        while (peek(ps) == ' ' || peek(ps) == '\t')
                ps->p++;
}

static bool is_control(int c)
{
        return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f;
}

/* Blanks and a comment, up to the end of the line. */
static bool skip_comment(struct parser *ps)
{
        skip_blanks(ps);
        if (peek(ps) != '#')
                return true;
        while (ps->p < ps->end && !looking_at(ps, S("\n")) && !looking_at(ps, S("\r\n"))) {
                if (is_control(peek(ps)))
                        return fail(ps, here(ps), "control character in a comment");
                ps->p++;
        }
        return true;
}

/* Blanks, comments and line ends: what may stand between the items of an array. */
static bool skip_lines(struct parser *ps)
{
        do {
                if (!skip_comment(ps))
                        return false;
        } while (accept_newline(ps));
        return true;
}

/* What is next, for messages. */
static const char *describe(struct parser *ps, char *room, size_t size)
{
        size_t n = utf8_sequence(ps->p, (size_t)(ps->end - ps->p));

        if (ps->p == ps->end)
                return "the end of the file";
        if (*ps->p == '\n' || looking_at(ps, S("\r\n")))
                return "the end of the line";
        if (is_control(peek(ps)))
                snprintf(room, size, "the control character 0x%02x", peek(ps));
        else
                snprintf(room, size, "'%.*s'", (int)n, ps->p);
        return room;
}

static bool fail_expected(struct parser *ps, const char *what)
{
        char room[40];
        const char *found = describe(ps, room, sizeof(room));

        return fail(ps, here(ps), "expected %s, found %s", what, found);
}

/* ---- strings ---- */

static char *put_utf8(char *out, uint32_t c)
{
        if (c < 0x80) {
                *out++ = (char)c;
                return out;
        }
        if (c < 0x800) {
                *out++ = (char)(0xc0 | c >> 6);
        } else {
                if (c < 0x10000) {
                        *out++ = (char)(0xe0 | c >> 12);
                } else {
                        *out++ = (char)(0xf0 | c >> 18);
                        *out++ = (char)(0x80 | (c >> 12 & 63));
                }
                *out++ = (char)(0x80 | (c >> 6 & 63));
        }
        *out++ = (char)(0x80 | (c & 63));
        return out;
}

static int digit_value(int c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* Behind \u or \U. Nothing longer than its escape comes out, so the caller's room is enough. */
static bool parse_code_point(struct parser *ps, struct position at, int digits, char **out)
{
        uint32_t c = 0;

        for (int i = 0; i < digits; i++, ps->p++) {
                int v = digit_value(peek(ps));
                if (v > 15)
                        return fail(ps, at, "expected %d hexadecimal digits in the escape", digits);
                c = c << 4 | (uint32_t)v;
        }
        if (c == 0)
                return fail(ps, at, "a string cannot hold a NUL");
        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return fail(ps, at, "the escape is not a Unicode character");
        *out = put_utf8(*out, c);
        return true;
}

/* Behind a backslash; `at` is where that stands. */
static bool parse_escape(struct parser *ps, struct position at, bool is_multi, char **out)
{
        static const char names[] = "btnfr\"\\", meanings[] = "\b\t\n\f\r\"\\";
        int c = peek(ps);

        if (is_multi) { /* backslash at the end of a line: everything blank goes, up to the next text */
                const char *start = ps->p;
                skip_blanks(ps);
                if (accept_newline(ps)) {
                        do
                                skip_blanks(ps);
                        while (accept_newline(ps));
                        return true;
                }
                ps->p = start;
        }

        const char *name = c > 0 ? strchr(names, c) : NULL;
        if (name) {
                ps->p++;
                *(*out)++ = meanings[name - names];
                return true;
        }
        if (c != 'u' && c != 'U')
                return fail(ps, at, "unknown escape in a string");
        ps->p++;
        return parse_code_point(ps, at, c == 'u' ? 4 : 8, out);
}

/* Bytes up to the closing quotes, or SIZE_MAX: an upper bound of what the string holds. */
static size_t string_size(const struct parser *ps, struct slice quotes, bool is_basic)
{
        for (const char *p = ps->p; ps->end - p >= (ptrdiff_t)quotes.n; p++) {
                if (memcmp(p, quotes.p, quotes.n) == 0)
                        return (size_t)(p - ps->p);
                if (*p == '\\' && is_basic)
                        p++;
                else if (*p == '\n' && quotes.n == 1)
                        break;
        }
        return SIZE_MAX;
}

/* Any of the four kinds; the opening quote is next. */
static bool parse_string(struct parser *ps, struct slice *ret)
{
        struct position start = here(ps);
        bool is_basic = peek(ps) == '"';
        bool is_multi = looking_at(ps, is_basic ? S("\"\"\"") : S("'''"));
        struct slice quotes = slice_from(ps->p, is_multi ? 3 : 1);

        ps->p += quotes.n;
        if (is_multi)
                accept_newline(ps);
        size_t size = string_size(ps, quotes, is_basic);
        if (size == SIZE_MAX)
                return fail(ps, start, "the string is not closed");

        char *text = arena_alloc(ps->arena, size + 3); /* two quotes before the closing ones, and a NUL */
        char *out = text;
        while (!looking_at(ps, quotes)) {
                if (is_multi && accept_newline(ps)) {
                        *out++ = '\n';
                } else if (is_control(peek(ps))) {
                        return fail(ps, here(ps), "control character in a string");
                } else if (is_basic && peek(ps) == '\\') {
                        struct position at = here(ps);
                        ps->p++;
                        if (!parse_escape(ps, at, is_multi, &out))
                                return false;
                } else {
                        *out++ = *ps->p++;
                }
        }

        /* Of four or five quotes in a row the first are text. */
        for (int i = 0; is_multi && i < 2 && ps->end - ps->p > 3 && ps->p[3] == quotes.p[0]; i++)
                *out++ = *ps->p++;
        ps->p += quotes.n;
        *out = '\0';
        *ret = slice_from(text, (size_t)(out - text));
        return true;
}

/* ---- numbers ---- */

static bool is_decimal(char c)
{
        return c >= '0' && c <= '9';
}

/* Digits of `base`, with single underscores between digits, from *p on: false when there are none or an
 * underscore is out of place. */
static bool scan_digits(const char **p, const char *end, int base)
{
        const char *start = *p;

        for (; *p < end; ++*p) {
                if (**p == '_' ? *p == start || (*p)[-1] == '_' : digit_value((uint8_t) * *p) >= base)
                        break;
        }
        return *p > start && (*p)[-1] != '_';
}

/* The digits were checked. False when the number does not fit. */
static bool digits_to_integer(struct slice digits, int base, bool is_negative, int64_t *ret)
{
        uint64_t magnitude = 0, max = (uint64_t)INT64_MAX + is_negative;

        for (size_t i = 0; i < digits.n; i++) {
                if (digits.p[i] == '_')
                        continue;
                if (ckd_mul(&magnitude, magnitude, (uint64_t)base) ||
                    ckd_add(&magnitude, magnitude, (uint64_t)digit_value((uint8_t)digits.p[i])) ||
                    magnitude > max)
                        return false;
        }
        *ret = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
        return true;
}

/* `s` is a checked decimal float. strtod takes the decimal point of the locale; the program stays in "C". */
static bool text_to_real(struct slice s, double *ret)
{
        char text[NUMBER_BYTES_MAX + 1];
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] != '_')
                        text[n++] = s.p[i];
        text[n] = '\0';
        *ret = strtod(text, NULL);
        return !isinf(*ret);
}

static bool parse_radix(struct parser *ps, struct position at, struct slice token, struct node *node)
{
        int base = token.p[1] == 'x' ? 16 : token.p[1] == 'o' ? 8 : 2;
        const char *p = token.p + 2, *end = token.p + token.n;

        if (!scan_digits(&p, end, base) || p != end)
                return fail(ps, at, "not a number of base %d", base);
        node->toml.type = TOML_INTEGER;
        if (!digits_to_integer(slice_from(token.p + 2, token.n - 2), base, false, &node->toml.integer))
                return fail(ps, at, "the integer does not fit into 64 bits");
        return true;
}

static bool parse_decimal(struct parser *ps, struct position at, struct slice token, struct node *node)
{
        bool is_signed = token.p[0] == '+' || token.p[0] == '-';
        const char *digits = token.p + is_signed, *p = digits, *end = token.p + token.n;
        bool is_good = scan_digits(&p, end, 10) && (*digits != '0' || p - digits == 1);
        struct slice whole = slice_from(digits, (size_t)(p - digits));

        if (is_good && p == end) {
                node->toml.type = TOML_INTEGER;
                if (!digits_to_integer(whole, 10, token.p[0] == '-', &node->toml.integer))
                        return fail(ps, at, "the integer does not fit into 64 bits");
                return true;
        }
        if (is_good && *p == '.') {
                p++;
                is_good = scan_digits(&p, end, 10);
        }
        if (is_good && p < end && (*p == 'e' || *p == 'E')) {
                p++;
                p += p < end && (*p == '+' || *p == '-');
                is_good = scan_digits(&p, end, 10);
        }
        if (!is_good || p != end)
                return fail(ps, at, "not a number");
        node->toml.type = TOML_FLOAT;
        if (!text_to_real(token, &node->toml.real))
                return fail(ps, at, "the number is too large");
        return true;
}

static bool is_date(struct slice s)
{
        size_t n = 0;

        while (n < s.n && is_decimal(s.p[n]))
                n++;
        return n < s.n && ((n == 4 && s.p[n] == '-') || (n == 2 && s.p[n] == ':'));
}

/* A value that is no string, array or table: a run of letters, digits and signs. */
static bool parse_word(struct parser *ps, struct node *node)
{
        struct position at = here(ps);
        const char *start = ps->p;

        while (ps->p < ps->end &&
               (digit_value(peek(ps)) < 16 || (peek(ps) >= 'g' && peek(ps) <= 'z') ||
                (peek(ps) >= 'G' && peek(ps) <= 'Z') || (*ps->p && strchr("_+-.:", *ps->p))))
                ps->p++;

        struct slice token = slice_from(start, (size_t)(ps->p - start));
        if (token.n == 0)
                return fail_expected(ps, "a value");
        if (token.n > NUMBER_BYTES_MAX)
                return fail(ps, at, "not a value");

        if (slice_eq(token, S("true")) || slice_eq(token, S("false"))) {
                node->toml.type = TOML_BOOL;
                node->toml.boolean = token.n == 4;
                return true;
        }
        bool is_signed = token.p[0] == '+' || token.p[0] == '-';
        struct slice bare = slice_from(token.p + is_signed, token.n - is_signed);
        if (slice_eq(bare, S("inf")) || slice_eq(bare, S("nan"))) {
                node->toml.type = TOML_FLOAT;
                node->toml.real = bare.p[0] == 'n' ? (double)NAN : token.p[0] == '-' ? -HUGE_VAL : HUGE_VAL;
                return true;
        }
        if (is_date(token))
                return fail(ps, at, "dates and times are not supported");
        if (bare.n == 0 || !is_decimal(bare.p[0]))
                return fail(ps, at, "expected a value; a string needs quotes");
        if (!is_signed && token.n >= 2 && token.p[0] == '0' && strchr("xob", token.p[1]))
                return parse_radix(ps, at, token, node);
        return parse_decimal(ps, at, token, node);
}

/* ---- tables ---- */

/* The key for a message: what would break or flood a line of text is not shown. */
static struct slice shown(struct slice key)
{
        for (size_t i = 0; i < key.n; i++)
                if (is_control((uint8_t)key.p[i]))
                        return S("(key with control characters)");
        return key.n > 80 ? S("(long key)") : key;
}

static struct node *node_new(struct parser *ps, struct node *parent, struct position at)
{
        struct node *node = arena_new(ps->arena, struct node);

        node->toml.line = at.line;
        node->toml.column = at.column;
        node->depth = parent ? parent->depth + 1 : 0;
        if (!parent)
                return node;
        if (parent->last)
                parent->last->toml.next = &node->toml;
        else
                parent->toml.first = &node->toml;
        parent->last = node;
        return node;
}

/* The node becomes a table or an array: this is where depth, and with it recursion, ends. */
static bool node_open(struct parser *ps, struct node *node, enum toml_type type, enum origin origin)
{
        if (node->depth > DEPTH_MAX)
                return fail(ps, here(ps), "nested deeper than %d", DEPTH_MAX);
        node->toml.type = type;
        node->origin = origin;
        return true;
}

static struct node *find_or_add(struct parser *ps, struct node *table, const struct key *key,
                                bool *ret_is_new)
{
        uint64_t hash = 14695981039346656037U; /* FNV-1a */

        for (size_t i = 0; i < key->name.n; i++)
                hash = (hash ^ (uint8_t)key->name.p[i]) * 1099511628211U;

        struct node **slot = &table->members[hash >> 62];
        for (hash <<= 2; *slot; hash <<= 2) {
                if (slice_eq((*slot)->toml.key, key->name)) {
                        *ret_is_new = false;
                        return *slot;
                }
                slot = &(*slot)->branch[hash >> 62];
        }
        *slot = node_new(ps, table, key->at);
        (*slot)->toml.key = key->name;
        *ret_is_new = true;
        return *slot;
}

/* One part of a key, with the blanks around it and the dot behind it. */
static bool parse_key(struct parser *ps, struct key *ret)
{
        skip_blanks(ps);
        ret->at = here(ps);
        if (peek(ps) == '"' || peek(ps) == '\'') {
                if (looking_at(ps, S("\"\"\"")) || looking_at(ps, S("'''")))
                        return fail(ps, ret->at, "a key cannot be a multi-line string");
                if (!parse_string(ps, &ret->name))
                        return false;
        } else {
                const char *start = ps->p;
                while (ps->p < ps->end &&
                       (digit_value(peek(ps)) < 16 || (peek(ps) >= 'g' && peek(ps) <= 'z') ||
                        (peek(ps) >= 'G' && peek(ps) <= 'Z') || *ps->p == '_' || *ps->p == '-'))
                        ps->p++;
                if (ps->p == start)
                        return fail_expected(ps, "a key");
                struct slice name = slice_from(start, (size_t)(ps->p - start));
                ret->name = slice_from(arena_dup(ps->arena, name), name.n);
        }
        skip_blanks(ps);
        ret->has_more = accept(ps, S("."));
        return true;
}

static bool fail_repeated(struct parser *ps, const struct key *key, const struct node *first)
{
        return fail(ps, key->at, "'%.*s' is already defined in line %u", SLICE(shown(key->name)),
                    first->toml.line);
}

/* key = value, the key perhaps dotted, into `table`. */
static bool parse_pair(struct parser *ps, struct node *table)
{
        for (;;) {
                struct key key;
                bool is_new;
                if (!parse_key(ps, &key))
                        return false;
                struct node *node = find_or_add(ps, table, &key, &is_new);

                if (key.has_more) {
                        if ((is_new || node->origin == BY_PATH) && !node_open(ps, node, TOML_TABLE, BY_DOTS))
                                return false;
                        if (node->toml.type != TOML_TABLE || node->origin != BY_DOTS)
                                return fail_repeated(ps, &key, node);
                        table = node;
                        continue;
                }
                if (!is_new)
                        return fail_repeated(ps, &key, node);
                if (!accept(ps, S("=")))
                        return fail_expected(ps, "'=' behind the key");
                skip_blanks(ps);
                return parse_value(ps, node);
        }
}

static bool parse_array(struct parser *ps, struct node *array)
{
        if (!node_open(ps, array, TOML_ARRAY, BY_VALUE))
                return false;
        ps->p++;
        for (;;) {
                if (!skip_lines(ps))
                        return false;
                if (accept(ps, S("]")))
                        return true;
                if (!parse_value(ps, node_new(ps, array, here(ps))) || !skip_lines(ps))
                        return false;
                if (!accept(ps, S(",")) && peek(ps) != ']')
                        return fail_expected(ps, "',' or ']' in the array");
        }
}

static bool parse_inline_table(struct parser *ps, struct node *table)
{
        if (!node_open(ps, table, TOML_TABLE, BY_VALUE))
                return false;
        ps->p++;
        skip_blanks(ps);
        if (accept(ps, S("}")))
                return true;
        for (;;) {
                if (!parse_pair(ps, table))
                        return false;
                skip_blanks(ps);
                if (accept(ps, S("}")))
                        return true;
                if (!accept(ps, S(",")))
                        return fail_expected(ps, "',' or '}' in the inline table");
        }
}

static bool parse_value(struct parser *ps, struct node *node)
{
        switch (peek(ps)) {
        case '"':
        case '\'':
                node->toml.type = TOML_STRING;
                return parse_string(ps, &node->toml.string);
        case '[':
                return parse_array(ps, node);
        case '{':
                return parse_inline_table(ps, node);
        default:
                return parse_word(ps, node);
        }
}

/* The last part of a header: [name] or [[name]] in `parent`. NULL on failure. */
static struct node *open_table(struct parser *ps, struct node *parent, const struct key *key, bool is_item)
{
        bool is_new;
        struct node *node = find_or_add(ps, parent, key, &is_new);

        if (is_item) {
                if (is_new && !node_open(ps, node, TOML_ARRAY, BY_ITEMS))
                        return NULL;
                if (node->origin != BY_ITEMS) {
                        fail_repeated(ps, key, node);
                        return NULL;
                }
                struct node *item = node_new(ps, node, key->at);
                return node_open(ps, item, TOML_TABLE, BY_HEADER) ? item : NULL;
        }
        if (!is_new && node->origin != BY_PATH) {
                fail_repeated(ps, key, node);
                return NULL;
        }
        node->toml.line = key->at.line;
        node->toml.column = key->at.column;
        return node_open(ps, node, TOML_TABLE, BY_HEADER) ? node : NULL;
}

/* [a.b] or [[a.b]]. */
static bool parse_header(struct parser *ps, struct node *root, struct node **ret_table)
{
        bool is_item = looking_at(ps, S("[["));
        struct node *table = root;

        ps->p += is_item ? 2 : 1;
        for (;;) {
                struct key key;
                if (!parse_key(ps, &key))
                        return false;
                if (!key.has_more) {
                        table = open_table(ps, table, &key, is_item);
                        break;
                }

                bool is_new;
                struct node *node = find_or_add(ps, table, &key, &is_new);
                if (is_new && !node_open(ps, node, TOML_TABLE, BY_PATH))
                        return false;
                if (node->origin == BY_VALUE)
                        return fail_repeated(ps, &key, node);
                table = node->origin == BY_ITEMS ? node->last : node;
        }
        if (!table)
                return false;
        if (!accept(ps, is_item ? S("]]") : S("]")))
                return fail_expected(ps, is_item ? "']]'" : "']'");
        *ret_table = table;
        return true;
}

/* Everything after this may take the text for UTF-8 without NUL. */
static bool check_text(struct parser ps)
{
        while (ps.p < ps.end) {
                size_t n = utf8_sequence(ps.p, (size_t)(ps.end - ps.p));
                if (n == 0 || *ps.p == '\0')
                        return fail(&ps, here(&ps), n == 0 ? "not UTF-8" : "NUL byte");
                if (!accept_newline(&ps))
                        ps.p += n;
        }
        return true;
}

struct toml *toml_parse(struct arena *a, struct slice text, struct err *err)
{
        const char *start = text.n > 0 ? text.p : "";
        struct parser ps = { a, start, start + text.n, start, 1, 1, err };
        struct node *root = node_new(&ps, NULL, (struct position){ 1, 1 });
        struct node *table = root;

        root->toml.type = TOML_TABLE;
        root->origin = BY_HEADER;
        if (!check_text(ps))
                return NULL;
        for (;;) {
                if (!skip_lines(&ps))
                        return NULL;
                if (ps.p == ps.end)
                        return &root->toml;
                if (peek(&ps) == '[' ? !parse_header(&ps, root, &table) : !parse_pair(&ps, table))
                        return NULL;
                if (!skip_comment(&ps))
                        return NULL;
                if (ps.p < ps.end && !accept_newline(&ps)) {
                        fail_expected(&ps, "the end of the line");
                        return NULL;
                }
        }
}

const struct toml *toml_find(const struct toml *table, struct slice key)
{
        if (!table || table->type != TOML_TABLE)
                return NULL;
        for (const struct toml *member = table->first; member; member = member->next)
                if (slice_eq(member->key, key))
                        return member;
        return NULL;
}
