/* pattern: compiles patterns and matches paths against them.
 *
 * A pattern is an automaton without backtracking. Each token of each alternative, and the end of each alternative, is one bit of
 * a set. A set holds the positions in the pattern that a path may have reached. A character moves the set: a bit whose token
 * takes the character moves on by one, and a bit at a star also stays. Then tokens that may be empty are skipped:
 *
 *     STAR   any run inside a component          stays at every character but `/`
 *     ALL    `**` at the end: all that follows   stays at every character
 *     DIRS   `**` and its slash, elsewhere       stays at every character, skipped only where a component begins
 *
 * None of the three follows another of its kind, and DIRS comes before the others, so one pass in that order is enough.
 */
#include "policy/pattern_internal.h"

#include <errno.h>

enum { ASCII = 128 };

struct pattern {
        struct slice prefix;         /* the directory above every match (pattern_prefix) */
        size_t words;                /* how many words a set has */
        const struct token **tokens; /* the token of each bit; NULL: takes no character */
        size_t positions;
        uint64_t *start;             /* the set after the prefix and a slash */
        uint64_t *accept;            /* the bits of the ends of alternatives */
        uint64_t *star, *all, *dirs; /* the bits of the tokens STAR, ALL and DIRS */
        uint64_t *takes;             /* a set for each ASCII character: the bits whose token takes it */
};

/* ---- Sets of positions */

static void add(uint64_t *set, size_t bit)
{
        set[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool is_empty(const struct pattern *p, const uint64_t *set)
{
        for (size_t w = 0; w < p->words; w++)
                if (set[w])
                        return false;
        return true;
}

static bool accepts(const struct pattern *p, const uint64_t *set)
{
        for (size_t w = 0; w < p->words; w++)
                if (set[w] & p->accept[w])
                        return true;
        return false;
}

static bool token_takes(const struct token *t, uint32_t c)
{
        switch (t->kind) {
        case TOKEN_CHAR:
                return t->c == c;
        case TOKEN_ANY:
                return c != '/';
        case TOKEN_CLASS:
                for (size_t i = 0; i < t->range_count; i++)
                        if (c >= t->ranges[i].first && c <= t->ranges[i].last)
                                return !t->is_negated;
                return t->is_negated;
        default:
                return false;
        }
}

/* Returns the bits of word `w` whose token takes a character that is not ASCII. */
static uint64_t takes_slowly(const struct pattern *p, const uint64_t *set, size_t w, uint32_t c)
{
        uint64_t ret = 0;
        for (uint64_t left = set[w]; left; left &= left - 1) {
                size_t bit = 64 * w + (size_t)__builtin_ctzll(left);
                if (p->tokens[bit] && token_takes(p->tokens[bit], c))
                        ret |= left & -left;
        }
        return ret;
}

/* Moves `set` over one character. Bits only move up, so the top bits of each word carry into the next. The last bit of an
 * alternative never moves, so no bit crosses into the next alternative. */
static void move(const struct pattern *p, uint64_t *set, uint32_t c)
{
        uint64_t carry = 0, passed_dirs = 0, passed_stars = 0; /* top bits of the word below */

        for (size_t w = 0; w < p->words; w++) {
                uint64_t now = set[w];
                uint64_t taken = now == 0    ? 0
                                 : c < ASCII ? now & p->takes[c * p->words + w]
                                             : takes_slowly(p, set, w, c);
                uint64_t next = taken << 1 | carry | (now & (p->all[w] | p->dirs[w]));
                carry = taken >> 63;
                if (c != '/') {
                        next |= now & p->star[w];
                } else {
                        uint64_t dirs = next & p->dirs[w];
                        next |= dirs << 1 | passed_dirs;
                        passed_dirs = dirs >> 63;
                }
                uint64_t stars = next & (p->star[w] | p->all[w]);
                next |= stars << 1 | passed_stars;
                passed_stars = stars >> 63;
                set[w] = next;
        }
}

/* Moves a set of one word over all of `s`; nearly every pattern fits one word. */
static uint64_t run_word(const struct pattern *p, uint64_t now, struct slice s)
{
        const uint64_t star = p->star[0], all = p->all[0], dirs = p->dirs[0];

        while (s.n > 0 && now) {
                size_t bytes = 1;
                uint32_t c = (unsigned char)s.p[0];
                uint64_t next;
                if (c < ASCII) {
                        next = (now & p->takes[c]) << 1;
                } else {
                        c = pattern_char(s, &bytes);
                        next = takes_slowly(p, &now, 0, c) << 1;
                }
                next |= now & (all | dirs | (c != '/' ? star : 0));
                if (c == '/')
                        next |= (next & dirs) << 1;
                now = next | (next & (star | all)) << 1;
                s = slice_from(s.p + bytes, s.n - bytes);
        }
        return now;
}

/* Moves `set` over all of `s`. */
static void run(const struct pattern *p, uint64_t *set, struct slice s)
{
        if (p->words == 1) {
                set[0] = run_word(p, set[0], s);
                return;
        }
        while (s.n > 0) {
                size_t bytes = 1;
                uint32_t c = (unsigned char)s.p[0];
                if (c >= ASCII)
                        c = pattern_char(s, &bytes);
                move(p, set, c);
                s = slice_from(s.p + bytes, s.n - bytes);
        }
}

/* ---- Compiling a pattern */

static bool components_equal(const struct component *a, const struct component *b)
{
        if (!a->is_literal || !b->is_literal || a->count != b->count)
                return false;
        for (size_t i = 0; i < a->count; i++)
                if (a->tokens[i].c != b->tokens[i].c)
                        return false;
        return true;
}

/* Returns how many components the prefix has. */
static size_t common_count(const struct alternatives *alts)
{
        for (size_t n = 0;; n++)
                for (size_t i = 0; i < alts->count; i++)
                        if (n + 1 >= alts->list[i].count ||
                            !components_equal(&alts->list[i].components[n], &alts->list[0].components[n]))
                                return n;
}

static struct slice prefix_text(struct arena *a, const struct alternative *alt, size_t components)
{
        char *text = arena_alloc(a, PATTERN_BYTES_MAX + 2);
        size_t n = 0;

        for (size_t i = 0; i < components; i++) {
                text[n++] = '/';
                for (size_t j = 0; j < alt->components[i].count; j++) {
                        struct slice c = alt->components[i].tokens[j].text;
                        memcpy(text + n, c.p, c.n);
                        n += c.n;
                }
        }
        if (n == 0)
                text[n++] = '/';
        text[n] = '\0';
        return slice_from(text, n);
}

static bool is_globstar(const struct component *c)
{
        return c->count == 1 && c->tokens[0].kind == TOKEN_STAR_STAR;
}

static bool is_star(const struct token *t)
{
        return t->kind == TOKEN_STAR || t->kind == TOKEN_STAR_STAR;
}

/* Writes the bits of a pattern that is being compiled. While `p->tokens` is NULL the bits are only counted. */
struct builder {
        struct pattern *p;
        size_t at;
};

static void emit(struct builder *b, const struct token *takes, uint64_t *set)
{
        if (b->p->tokens) {
                b->p->tokens[b->at] = takes;
                if (set)
                        add(set, b->at);
        }
        b->at++;
}

static void emit_component(struct builder *b, const struct component *c)
{
        for (size_t i = 0; i < c->count; i++) {
                const struct token *t = &c->tokens[i];
                if (!is_star(t))
                        emit(b, t, NULL);
                else if (i == 0 || !is_star(t - 1))
                        emit(b, NULL, b->p->star);
        }
}

static void emit_alternative(struct builder *b, const struct alternative *alt, size_t from)
{
        static const struct token slash = { .kind = TOKEN_CHAR, .c = '/' };

        if (b->p->tokens)
                add(b->p->start, b->at);
        for (size_t i = from; i < alt->count; i++) {
                const struct component *c = &alt->components[i];
                bool is_last = i + 1 == alt->count;
                if (!is_globstar(c)) {
                        emit_component(b, c);
                        if (!is_last)
                                emit(b, &slash, NULL);
                } else if (is_last) {
                        emit(b, NULL, b->p->all);
                } else if (!is_globstar(&alt->components[i + 1])) {
                        emit(b, NULL, b->p->dirs);
                }
        }
        emit(b, NULL, b->p->accept);
}

static size_t emit_all(struct pattern *p, const struct alternatives *alts, size_t from)
{
        struct builder b = { p, 0 };
        for (size_t i = 0; i < alts->count; i++)
                emit_alternative(&b, &alts->list[i], from);
        return b.at;
}

static void make_room(struct arena *a, struct pattern *p, size_t positions)
{
        p->positions = positions;
        p->words = (positions + 63) / 64;
        p->tokens = arena_zalloc(a, positions * sizeof(*p->tokens));

        uint64_t *sets = arena_zalloc(a, (5 + ASCII) * p->words * sizeof(*sets));
        uint64_t **const named[] = { &p->start, &p->accept, &p->star, &p->all, &p->dirs, &p->takes };
        for (size_t i = 0; i < ARRAY_LEN(named); i++)
                *named[i] = sets + i * p->words;
}

/* Skips the tokens at the beginning that may be empty, as `move` does after a slash. */
static void close_start(struct pattern *p)
{
        for (size_t i = 0; i + 1 < p->positions; i++) {
                uint64_t bit = UINT64_C(1) << i % 64,
                         passes = p->star[i / 64] | p->all[i / 64] | p->dirs[i / 64];
                if (p->start[i / 64] & passes & bit)
                        add(p->start, i + 1);
        }
}

int pattern_compile(struct arena *a, struct slice text, const struct pattern **ret, struct err *err)
{
        struct alternatives alts;
        struct slice own = { arena_dup(a, text), text.n };
        int r = pattern_parse(a, own, &alts, err);
        if (r < 0)
                return r;

        struct pattern *p = arena_new(a, struct pattern);
        size_t common = common_count(&alts);
        p->prefix = prefix_text(a, &alts.list[0], common);

        size_t positions = emit_all(p, &alts, common);
        if (positions > PATTERN_POSITIONS_MAX)
                return err_set(err, 0, -EINVAL, "invalid deny-read glob pattern `%.*s`: %s", SLICE(text),
                               "its alternatives are too long");
        make_room(a, p, positions);
        emit_all(p, &alts, common);
        close_start(p);
        for (size_t i = 0; i < positions; i++)
                for (uint32_t c = 0; p->tokens[i] && c < ASCII; c++)
                        if (token_takes(p->tokens[i], c))
                                add(p->takes + c * p->words, i);
        *ret = p;
        return 0;
}

/* ---- Matching paths */

struct slice pattern_prefix(const struct pattern *p)
{
        return p->prefix;
}

size_t pattern_words(const struct pattern *p)
{
        return p->words;
}

void pattern_enter(const struct pattern *p, uint64_t *ret_state)
{
        memcpy(ret_state, p->start, p->words * sizeof(*ret_state));
}

bool pattern_step(const struct pattern *p, const uint64_t *state, struct slice name, uint64_t *ret_below)
{
        uint64_t room[PATTERN_POSITIONS_MAX / 64];
        size_t bytes = p->words * sizeof(*room);

        memcpy(room, state, bytes);
        run(p, room, name);
        bool is_match = accepts(p, room);
        if (ret_below) {
                move(p, room, '/');
                for (size_t w = 0; w < p->words; w++)
                        ret_below[w] =
                                room[w] & ~p->accept[w]; /* nothing follows the end of an alternative */
        }
        return is_match;
}

/* Returns the part of `path` below the prefix; p == NULL when `path` is not below the prefix. */
static struct slice below_prefix(const struct pattern *p, struct slice path)
{
        size_t n = p->prefix.n == 1 ? 0 : p->prefix.n;

        if (path.n < n + 2 || !slice_starts(path, slice_from(p->prefix.p, n)) || path.p[n] != '/')
                return (struct slice){ NULL, 0 };
        return slice_from(path.p + n + 1, path.n - n - 1);
}

bool pattern_matches(const struct pattern *p, struct slice path)
{
        struct slice rest = below_prefix(p, path);
        return rest.p && pattern_step(p, p->start, rest, NULL);
}

bool pattern_covers(const struct pattern *p, struct slice path)
{
        uint64_t state[PATTERN_POSITIONS_MAX / 64];
        struct slice rest = below_prefix(p, path);

        pattern_enter(p, state);
        while (rest.p)
                if (pattern_step(p, state, slice_split(&rest, '/'), state))
                        return true;
        return false;
}

bool pattern_may_match_below(const struct pattern *p, struct slice directory)
{
        uint64_t state[PATTERN_POSITIONS_MAX / 64];
        struct slice rest = below_prefix(p, directory);

        if (rest.p) {
                (void)pattern_step(
                        p, p->start, rest,
                        state); /* only the state below counts, not whether the directory itself matches */
                return !is_empty(p, state);
        }
        /* Is the directory the prefix, or above it? */
        struct slice above = directory.n == 1 ? S("") : directory;
        return slice_starts(p->prefix, above) && (p->prefix.n == above.n || p->prefix.p[above.n] == '/');
}
