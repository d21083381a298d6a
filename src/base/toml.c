/* toml: parses TOML 1.0 (toml.io/en/v1.0.0) without dates: keys, tables and arrays. toml_text.c reads the text,
 * toml_scalar.c reads strings, numbers and booleans.
 *
 * Recursive descent over the text; recursion is bounded because every table and array knows its depth. The
 * tree's nodes are `struct toml` with private fields behind: how a table came to be (which decides what may
 * still be added to it) and a hash trie of the members, so that a file of many keys is not searched again and
 * again for repeated ones.
 */
#include "base/toml_internal.h"

#define DEPTH_MAX 32

/* How a node came to be. */
enum origin {
        BY_VALUE,  /* key = value; inline tables too: nothing can be added later */
        BY_PATH,   /* [a.b] made `a`; [a] may still come once, and dotted keys may add to it */
        BY_HEADER, /* [a] */
        BY_DOTS,   /* a.b = 1 made `a`; only dotted keys may add to it */
        BY_ITEMS,  /* the array that [[a]] adds to */
};

struct node {
        struct toml toml; /* must be first */
        struct node *last;
        struct node *members[4]; /* hash trie of the members of a table */
        struct node *branch[4];  /* the nodes below this one in the hash trie of its table */
        enum origin origin;
        unsigned depth;
};

struct key {
        struct slice name;
        struct position at;
        bool has_more; /* a dot follows */
};

static bool parse_value(struct parser *ps, struct node *node);

/* Returns the key as an error text shows it: keys with control characters and long keys are not shown. */
static struct slice shown(struct slice key)
{
        for (size_t i = 0; i < key.n; i++)
                if (toml_is_control((uint8_t)key.p[i]))
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

/* Makes the node a table or an array. The check of the depth here bounds the recursion of the parser. */
static bool node_open(struct parser *ps, struct node *node, enum toml_type type, enum origin origin)
{
        if (node->depth > DEPTH_MAX)
                return toml_fail(ps, toml_here(ps), "nested deeper than %d", DEPTH_MAX);
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

/* Parses one part of a key, with the blanks around it and the dot behind it. */
static bool parse_key(struct parser *ps, struct key *ret)
{
        toml_skip_blanks(ps);
        ret->at = toml_here(ps);
        if (toml_peek(ps) == '"' || toml_peek(ps) == '\'') {
                if (toml_looking_at(ps, S("\"\"\"")) || toml_looking_at(ps, S("'''")))
                        return toml_fail(ps, ret->at, "a key cannot be a multi-line string");
                if (!toml_parse_string(ps, &ret->name))
                        return false;
        } else {
                struct slice name = toml_take_word(ps, "_-");
                if (name.n == 0)
                        return toml_fail_expected(ps, "a key");
                ret->name = slice_from(arena_dup(ps->arena, name), name.n);
        }
        toml_skip_blanks(ps);
        ret->has_more = toml_accept(ps, S("."));
        return true;
}

static bool fail_repeated(struct parser *ps, const struct key *key, const struct node *first)
{
        return toml_fail(ps, key->at, "'%.*s' is already defined in line %u", SLICE(shown(key->name)),
                         first->toml.line);
}

/* Parses `key = value` into `table`; the key may be dotted. */
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
                if (!toml_accept(ps, S("=")))
                        return toml_fail_expected(ps, "'=' behind the key");
                toml_skip_blanks(ps);
                return parse_value(ps, node);
        }
}

static bool parse_array(struct parser *ps, struct node *array)
{
        if (!node_open(ps, array, TOML_ARRAY, BY_VALUE))
                return false;
        ps->p++;
        for (;;) {
                if (!toml_skip_lines(ps))
                        return false;
                if (toml_accept(ps, S("]")))
                        return true;
                if (!parse_value(ps, node_new(ps, array, toml_here(ps))) || !toml_skip_lines(ps))
                        return false;
                if (!toml_accept(ps, S(",")) && toml_peek(ps) != ']')
                        return toml_fail_expected(ps, "',' or ']' in the array");
        }
}

static bool parse_inline_table(struct parser *ps, struct node *table)
{
        if (!node_open(ps, table, TOML_TABLE, BY_VALUE))
                return false;
        ps->p++;
        toml_skip_blanks(ps);
        if (toml_accept(ps, S("}")))
                return true;
        for (;;) {
                if (!parse_pair(ps, table))
                        return false;
                toml_skip_blanks(ps);
                if (toml_accept(ps, S("}")))
                        return true;
                if (!toml_accept(ps, S(",")))
                        return toml_fail_expected(ps, "',' or '}' in the inline table");
        }
}

static bool parse_value(struct parser *ps, struct node *node)
{
        switch (toml_peek(ps)) {
        case '"':
        case '\'':
                node->toml.type = TOML_STRING;
                return toml_parse_string(ps, &node->toml.string);
        case '[':
                return parse_array(ps, node);
        case '{':
                return parse_inline_table(ps, node);
        default:
                return toml_parse_word(ps, &node->toml);
        }
}

/* Opens the table that the last part of a header names, [name] or [[name]] in `parent`. NULL on failure. */
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

/* Parses a header, [a.b] or [[a.b]]. */
static bool parse_header(struct parser *ps, struct node *root, struct node **ret_table)
{
        bool is_item = toml_looking_at(ps, S("[["));
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
        if (!toml_accept(ps, is_item ? S("]]") : S("]")))
                return toml_fail_expected(ps, is_item ? "']]'" : "']'");
        *ret_table = table;
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
        if (!toml_check_text(ps))
                return NULL;
        for (;;) {
                if (!toml_skip_lines(&ps))
                        return NULL;
                if (ps.p == ps.end)
                        return &root->toml;
                if (toml_peek(&ps) == '[' ? !parse_header(&ps, root, &table) : !parse_pair(&ps, table))
                        return NULL;
                if (!toml_skip_comment(&ps))
                        return NULL;
                if (ps.p < ps.end && !toml_accept_newline(&ps)) {
                        toml_fail_expected(&ps, "the end of the line");
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
