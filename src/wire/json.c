/* json: parses a text in one pass and without recursion into tokens in the arena.
 *
 * The parser keeps a stack of the containers that are open and appends a token per value and key. Every index is
 * checked against n: the vector scan loads the padding behind the text, but never uses its content. The words of the
 * errors, and the columns, are those that clients of the reference server see: "peek" errors point at the offending byte, others
 * behind what was consumed.
 *
 * Duplicate keys: as long as an object has few, short, plain keys each new one is compared with those before it. Any
 * other object is checked when it closes, with a keyed hash over the unescaped keys, so that no choice of keys is slow.
 */
#include "wire/json.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/utf8.h"
#include "wire/json_scan.h"

#include <errno.h>
#include <stdarg.h>

#define COMPARED_KEYS_MAX 16
#define COMPARED_KEY_BYTES_MAX 64
#define TOKENS_FIRST_MIN 16
#define TOKENS_FIRST_MAX 256

static_assert(BUF_PADDING >= 15, "json_scan_padded reads so far behind the text");

struct frame {
        uint32_t token;     /* the index of the container's token */
        uint32_t key_count; /* of an object: how many keys it has so far */
        bool wants_hash;    /* duplicate keys are looked for when the object closes */
};

struct parser {
        struct arena *arena;
        const char *s;
        size_t n, i;
        struct json *tokens;
        uint32_t count, allocated;
        uint32_t values; /* tokens that are not keys */
        uint32_t depth;
        bool has_hash_key;
        uint64_t hash_key[2]; /* random, because keys come from clients; drawn when first needed */
        struct json_error *error;
        struct frame frames[JSON_DEPTH_MAX - 1];
};

/* What the parser reads next. Errors are negative. */
enum step { STEP_VALUE, STEP_AFTER_VALUE, STEP_END };

/* Sets the error text, with the line and the column of the position `consumed`; columns are counted in bytes. Returns -EINVAL. */
PRINTF_LIKE(3, 4) static int fail(struct parser *p, size_t consumed, const char *fmt, ...)
{
        size_t line = 1;

        /* A hostile text may be all newlines: so they are counted in one pass that the compiler can vectorize. */
        consumed = MIN(consumed, p->n);
        for (size_t i = 0; i < consumed; i++)
                line += p->s[i] == '\n';
        const char *newline = consumed ? memrchr(p->s, '\n', consumed) : NULL;
        size_t line_start = newline ? (size_t)(newline - p->s) + 1 : 0;

        va_list ap;
        va_start(ap, fmt);
        int r = vsnprintf(p->error->text, sizeof(p->error->text), fmt, ap);
        va_end(ap);

        size_t used = MIN((size_t)MAX(r, 0), sizeof(p->error->text) - 1);
        (void)snprintf(p->error->text + used, sizeof(p->error->text) - used, " at line %zu column %zu", line,
                       consumed - line_start);
        return -EINVAL;
}

static int fail_eof(struct parser *p, const char *what)
{
        return fail(p, p->n, "EOF while parsing %s", what);
}

static inline bool at_end(const struct parser *p)
{
        return p->i >= p->n;
}

static inline void skip_blanks(struct parser *p)
{
        while (p->i < p->n &&
               (p->s[p->i] == ' ' || p->s[p->i] == '\n' || p->s[p->i] == '\t' || p->s[p->i] == '\r'))
                p->i++;
}

static inline struct json *push(struct parser *p, enum json_type type, size_t off, size_t len)
{
        if (p->count == p->allocated) {
                uint32_t more = p->allocated * 2;

                p->tokens = arena_grow(p->arena, p->tokens, p->allocated * sizeof(struct json),
                                       more * sizeof(struct json));
                p->allocated = more;
        }

        struct json *t = &p->tokens[p->count++];
        *t = (struct json){
                .type = (uint8_t)type,
                .end = p->count,
                .off = (uint32_t)off,
                .len = (uint32_t)len,
        };
        return t;
}

/* Strings */

/* Checks the four digits behind "\u", which begin at p->i, and the second half of a surrogate pair. */
static int check_unicode_escape(struct parser *p)
{
        if (p->n - p->i < 4)
                return fail_eof(p, "a string");
        int high = json_hex4(p->s + p->i);
        p->i += 4;
        if (high < 0)
                return fail(p, p->i, "invalid escape");
        if (!json_is_surrogate(high))
                return 0;
        if (high >= 0xdc00)
                return fail(p, p->i, "lone leading surrogate in hex escape");

        for (int k = 0; k < 2; k++) {
                if (at_end(p))
                        return fail_eof(p, "a string");
                if (p->s[p->i++] != "\\u"[k])
                        return fail(p, p->i, "unexpected end of hex escape");
        }
        if (p->n - p->i < 4)
                return fail_eof(p, "a string");
        int low = json_hex4(p->s + p->i);
        p->i += 4;
        if (low < 0)
                return fail(p, p->i, "invalid escape");
        if (low < 0xdc00 || low > 0xdfff)
                return fail(p, p->i, "lone leading surrogate in hex escape");
        return 0;
}

/* Checks the escape whose backslash is at p->i. */
static int check_escape(struct parser *p)
{
        if (p->n - p->i < 2) {
                p->i = p->n;
                return fail_eof(p, "a string");
        }

        char c = p->s[p->i + 1];
        p->i += 2;
        switch (c) {
        case '"':
        case '\\':
        case '/':
        case 'b':
        case 'f':
        case 'n':
        case 'r':
        case 't':
                return 0;
        case 'u':
                return check_unicode_escape(p);
        default:
                return fail(p, p->i, "invalid escape");
        }
}

/* Skips a run of characters beyond ASCII, because the scan for plain bytes would stop at each of them. Returns false when the text
 * is not UTF-8. */
static bool skip_utf8(struct parser *p)
{
        while (p->i < p->n && (unsigned char)p->s[p->i] >= 0x80) {
                size_t k = utf8_sequence(p->s + p->i, p->n - p->i);
                if (k == 0) {
                        p->i++;
                        return false;
                }
                p->i += k;
        }
        return true;
}

/* Reads the string whose opening quote is at p->i, and pushes its token. p->i is behind the closing quote afterwards. */
static int read_string(struct parser *p)
{
        size_t start = ++p->i;
        bool has_escape = false, is_utf8 = true;

        for (;;) {
                p->i = json_scan_padded(p->s, p->i, p->n);
                if (at_end(p))
                        return fail_eof(p, "a string");

                char c = p->s[p->i];
                if (c == '"')
                        break;
                if (c == '\\') {
                        has_escape = true;
                        int r = check_escape(p);
                        if (r < 0)
                                return r;
                } else if ((unsigned char)c >= 0x80) {
                        is_utf8 &= skip_utf8(p);
                } else {
                        return fail(p, p->i + 1,
                                    "control character (\\u0000-\\u001F) found while parsing a string");
                }
        }

        size_t len = p->i++ - start;
        if (!is_utf8)
                return fail(p, p->i, "invalid unicode code point");
        push(p, JSON_STRING, start, len)->has_escape = has_escape;
        return 0;
}

/* Numbers and words */

static inline bool is_digit_at(const struct parser *p)
{
        return p->i < p->n && p->s[p->i] >= '0' && p->s[p->i] <= '9';
}

static int read_digits(struct parser *p)
{
        if (at_end(p))
                return fail_eof(p, "a value");
        if (!is_digit_at(p))
                return fail(p, p->i + 1, "invalid number");
        while (is_digit_at(p))
                p->i++;
        return 0;
}

static int read_number(struct parser *p)
{
        size_t start = p->i;
        int r;

        if (p->s[p->i] == '-')
                p->i++;
        if (!at_end(p) && p->s[p->i] == '0') {
                p->i++;
                if (is_digit_at(p))
                        return fail(p, p->i + 1, "invalid number");
        } else if ((r = read_digits(p)) < 0) {
                return r;
        }

        if (!at_end(p) && p->s[p->i] == '.') {
                p->i++;
                if ((r = read_digits(p)) < 0)
                        return r;
        }
        if (!at_end(p) && (p->s[p->i] == 'e' || p->s[p->i] == 'E')) {
                p->i++;
                if (!at_end(p) && (p->s[p->i] == '+' || p->s[p->i] == '-'))
                        p->i++;
                if ((r = read_digits(p)) < 0)
                        return r;
        }
        (void)push(p, JSON_NUMBER, start, p->i - start);
        return 0;
}

static int read_word(struct parser *p, enum json_type type, struct slice word)
{
        size_t start = p->i;

        for (size_t k = 0; k < word.n; k++) {
                if (at_end(p))
                        return fail_eof(p, "a value");
                if (p->s[p->i++] != word.p[k])
                        return fail(p, p->i, "expected ident");
        }
        (void)push(p, type, start, word.n);
        return 0;
}

/* Keys */

/* Returns as much of a key as an error text shows, cut between characters. */
static struct slice key_excerpt(struct slice key)
{
        const size_t max = 80;

        if (key.n <= max)
                return key;
        key.n = max;
        while (key.n > 0 && ((unsigned char)key.p[key.n] & 0xc0) == 0x80)
                key.n--;
        return key;
}

static int fail_duplicate(struct parser *p, const struct json *token, struct slice key)
{
        struct slice shown = key_excerpt(key);

        return fail(p, (size_t)token->off + token->len + 1, "duplicate JSON object key `%.*s%s`",
                    SLICE(shown), shown.n < key.n ? "…" : "");
}

/* Compares the key that was pushed last with the keys before it. */
static int compare_keys(struct parser *p, const struct frame *f)
{
        const struct json *key = &p->tokens[p->count - 1];
        struct slice text = slice_from(p->s + key->off, key->len);

        for (const struct json *k = &p->tokens[f->token + 1]; k < key; k = &p->tokens[k[1].end])
                if (k->len == text.n && memcmp(p->s + k->off, text.p, text.n) == 0)
                        return fail_duplicate(p, key, text);
        return 0;
}

/* Looks for duplicates among all keys of an object that has just been closed. A slot holds 32 bits of a key's hash above the index
 * of its token; no key is token 0, so 0 is a free slot. At most half of the slots are taken. */
static int hash_keys(struct parser *p, const struct json *object, uint32_t key_count)
{
        const struct json_doc doc = { .text = p->s, .tokens = p->tokens, .count = p->count };
        size_t mask = ((size_t)1 << (33 - __builtin_clz(key_count))) - 1;
        _free_ uint64_t *slots = mem_zalloc((mask + 1) * sizeof(*slots));

        if (!p->has_hash_key)
                random_bytes(p->hash_key, sizeof(p->hash_key));
        p->has_hash_key = true;

        json_each (key, &doc, object) {
                struct slice text = json_string(p->arena, &doc, key);
                uint64_t hash = map_hash(p->hash_key, text);
                size_t i = hash & mask;

                for (; slots[i] != 0; i = (i + 1) & mask)
                        if (slots[i] >> 32 == hash >> 32 &&
                            slice_eq(json_string(p->arena, &doc, &p->tokens[(uint32_t)slots[i]]), text))
                                return fail_duplicate(p, key, text);
                slots[i] = (hash >> 32 << 32) | (uint64_t)(key - p->tokens);
        }
        return 0;
}

/* Reads a key, its colon and the blanks behind it. */
static int read_key(struct parser *p, bool is_first)
{
        struct frame *f = &p->frames[p->depth - 1];
        int r;

        if (at_end(p))
                return fail_eof(p, is_first ? "an object" : "a value");
        if (p->s[p->i] != '"')
                return fail(p, p->i + 1,
                            p->s[p->i] == '}' && !is_first ? "trailing comma" : "key must be a string");
        if ((r = read_string(p)) < 0)
                return r;

        const struct json *key = &p->tokens[p->count - 1];
        if (++f->key_count > COMPARED_KEYS_MAX || key->len > COMPARED_KEY_BYTES_MAX || key->has_escape)
                f->wants_hash = true;
        if (!f->wants_hash && (r = compare_keys(p, f)) < 0)
                return r;

        skip_blanks(p);
        if (at_end(p))
                return fail_eof(p, "an object");
        if (p->s[p->i] != ':')
                return fail(p, p->i + 1, "expected `:`");
        p->i++;
        skip_blanks(p);
        return STEP_VALUE;
}

/* Containers */

/* Closes the innermost container, whose closing bracket is at p->i. */
static int close_container(struct parser *p)
{
        const struct frame *f = &p->frames[--p->depth];
        struct json *t = &p->tokens[f->token];

        p->i++;
        t->len = (uint32_t)(p->i - t->off);
        t->end = p->count;
        if (f->wants_hash) {
                int r = hash_keys(p, t, f->key_count);
                if (r < 0)
                        return r;
        }
        return STEP_AFTER_VALUE;
}

static int open_container(struct parser *p, enum json_type type)
{
        bool is_object = type == JSON_OBJECT;

        if (p->depth == ARRAY_LEN(p->frames))
                return fail(p, p->i + 1, "recursion limit exceeded");
        (void)push(p, type, p->i, 0);
        p->frames[p->depth++] = (struct frame){ .token = p->count - 1 };

        p->i++;
        skip_blanks(p);
        if (at_end(p))
                return fail_eof(p, is_object ? "an object" : "a list");
        if (p->s[p->i] == (is_object ? '}' : ']'))
                return close_container(p);
        return is_object ? read_key(p, true) : STEP_VALUE;
}

/* Reads the value that must begin at p->i. */
static int read_value(struct parser *p)
{
        int r;

        if (at_end(p))
                return fail_eof(p, "a value");
        if (p->values++ == JSON_VALUES_MAX)
                return fail(p, p->i, "JSON-RPC message exceeds the limit of %d JSON values", JSON_VALUES_MAX);

        switch (p->s[p->i]) {
        case '"':
                r = read_string(p);
                break;
        case '{':
                return open_container(p, JSON_OBJECT);
        case '[':
                return open_container(p, JSON_ARRAY);
        case 'n':
                r = read_word(p, JSON_NULL, S("null"));
                break;
        case 't':
                r = read_word(p, JSON_TRUE, S("true"));
                break;
        case 'f':
                r = read_word(p, JSON_FALSE, S("false"));
                break;
        case '-':
        case '0' ... '9':
                r = read_number(p);
                break;
        default:
                return fail(p, p->i + 1, "expected value");
        }
        return r < 0 ? r : STEP_AFTER_VALUE;
}

/* Reads what follows a value: a comma and what follows that, the end of the container, or the end of the text. */
static int read_after_value(struct parser *p)
{
        if (p->depth == 0)
                return STEP_END;

        bool is_object = p->tokens[p->frames[p->depth - 1].token].type == JSON_OBJECT;
        skip_blanks(p);
        if (at_end(p))
                return fail_eof(p, is_object ? "an object" : "a list");
        if (p->s[p->i] == (is_object ? '}' : ']'))
                return close_container(p);
        if (p->s[p->i] != ',')
                return fail(p, p->i + 1, is_object ? "expected `,` or `}`" : "expected `,` or `]`");

        p->i++;
        skip_blanks(p);
        if (is_object)
                return read_key(p, false);
        if (!at_end(p) && p->s[p->i] == ']')
                return fail(p, p->i + 1, "trailing comma");
        return STEP_VALUE;
}

int json_parse(struct arena *a, struct slice text, struct json_doc *ret, struct json_error *ret_error)
{
        struct parser p; /* not cleared: most of it is frames that are not used */

        p.arena = a;
        p.s = text.p;
        p.n = text.n;
        p.i = 0;
        p.count = p.values = p.depth = 0;
        p.has_hash_key = false;
        p.error = ret_error;
        if (text.n >= UINT32_MAX)
                return fail(&p, 0, "message too long");
        p.allocated = (uint32_t)MIN(MAX(text.n / 8, TOKENS_FIRST_MIN), TOKENS_FIRST_MAX);
        p.tokens = arena_alloc(a, p.allocated * sizeof(struct json));

        skip_blanks(&p);
        int step = STEP_VALUE;
        while (step == STEP_VALUE || step == STEP_AFTER_VALUE)
                step = step == STEP_VALUE ? read_value(&p) : read_after_value(&p);
        if (step < 0)
                return step;

        skip_blanks(&p);
        if (!at_end(&p))
                return fail(&p, p.i + 1, "trailing characters");
        *ret = (struct json_doc){ .text = p.s, .tokens = p.tokens, .count = p.count };
        return 0;
}
