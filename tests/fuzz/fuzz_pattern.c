/* fuzz_pattern: a pattern and a path, a line each. The automaton gives the same result as a slow, backtracking matcher, for the
 * path and for every directory above it; so does a walk by states; and nothing matches below a directory that the automaton
 * would skip. */
#include "base/mem.h"
#include "base/utf8.h"
#include "policy/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX 40 /* longer texts take too long with backtracking */

/* The special items of a pattern; their numbers are above those of characters and of bytes that are none (char_of). */
enum { ANY = 0x200000, STAR, STAR_STAR, CLASS };

/* One item of a pattern without braces. */
struct item {
        uint32_t kind;    /* a character, or a special item */
        struct slice set; /* CLASS: its text, from `[` to `]` */
};

struct items {
        struct item list[4 * TEXT_MAX];
        size_t n;
};

static uint32_t char_of(struct slice s, size_t *bytes)
{
        static const unsigned char lead[] = { 0, 0xff, 0x1f, 0x0f, 0x07 };
        size_t n = utf8_sequence(s.p, s.n);
        *bytes = MAX(n, (size_t)1);
        if (n == 0)
                return 0x110000u + (unsigned char)s.p[0];
        uint32_t c = (unsigned char)s.p[0] & lead[n];
        for (size_t i = 1; i < n; i++)
                c = c << 6 | ((unsigned char)s.p[i] & 0x3fu);
        return c;
}

static size_t set_end(struct slice t, size_t at) /* behind the `]`, or 0 */
{
        at++;
        if (at < t.n && (t.p[at] == '!' || t.p[at] == '^'))
                at++;
        for (at++; at < t.n; at++)
                if (t.p[at] == ']')
                        return at + 1;
        return 0;
}

static bool set_has(struct slice set, uint32_t c)
{
        bool is_negated = set.p[1] == '!' || set.p[1] == '^', has = false, is_range = false;
        uint32_t list[TEXT_MAX], last[TEXT_MAX];
        size_t n = 0;
        for (size_t at = 1 + is_negated, bytes; at < set.n - 1; at += bytes) {
                uint32_t x = char_of(slice_from(set.p + at, set.n - 1 - at), &bytes);
                if (is_range) {
                        last[n - 1] = x;
                        is_range = false;
                } else if (x == '-' && n > 0) {
                        is_range = true;
                } else {
                        list[n] = last[n] = x;
                        n++;
                }
        }
        if (is_range)
                has = c == '-';
        for (size_t i = 0; i < n; i++)
                has = has || (c >= list[i] && c <= last[i]);
        return has != is_negated;
}

/* Is `s` matched by the items from `i` on? `is_begin`: a component begins here. */
static bool match(const struct items *p, size_t i, struct slice s, bool is_begin)
{
        size_t bytes = 0;
        uint32_t c = s.n ? char_of(s, &bytes) : 0;
        struct slice rest = slice_from(s.p + bytes, s.n - bytes);

        if (i == p->n)
                return s.n == 0;
        const struct item *it = &p->list[i];
        if (it->kind == STAR_STAR && i + 1 == p->n)
                return s.n > 0;
        if (it->kind == STAR_STAR) { /* with the slash behind it */
                if (is_begin && match(p, i + 2, s, true))
                        return true;
                return s.n > 0 && match(p, i, rest, c == '/');
        }
        if (it->kind == STAR)
                return match(p, i + 1, s, false) || (s.n > 0 && c != '/' && match(p, i, rest, false));
        if (s.n == 0)
                return false;
        if (it->kind == ANY)
                return c != '/' && match(p, i + 1, rest, false);
        if (it->kind == CLASS)
                return set_has(it->set, c) && match(p, i + 1, rest, c == '/');
        return c == it->kind && match(p, i + 1, rest, c == '/');
}

/* Removes empty components and `.`, and each `..` with the component before it. */
static void clean(const struct items *in, struct items *out)
{
        out->n = 0;
        for (size_t i = 0; i < in->n;) {
                size_t end = i;
                while (end < in->n && in->list[end].kind != '/')
                        end++;
                size_t n = end - i;
                bool dot = n >= 1 && in->list[i].kind == '.',
                     dots = n == 2 && dot && in->list[i + 1].kind == '.';
                if (dots) {
                        while (out->n > 0 && out->list[--out->n].kind != '/')
                                ;
                } else if (n > 0 && !(n == 1 && dot)) {
                        out->list[out->n++] = (struct item){ '/', { NULL, 0 } };
                        for (; i < end; i++)
                                out->list[out->n++] = in->list[i];
                }
                i = end + 1;
        }
        for (size_t i = 0; i < out->n; i++)
                if (out->list[i].kind == STAR_STAR &&
                    (out->list[i - 1].kind != '/' || (i + 1 < out->n && out->list[i + 1].kind != '/')))
                        out->list[i].kind = STAR;
}

static bool match_text(struct slice t, const struct items *before, struct slice path);

/* Is `path` matched by `t`, whose first brace is at `at`, for one of the choices in that brace? */
static bool match_braces(struct slice t, size_t at, const struct items *before, struct slice path)
{
        size_t depth = 0, begin = at + 1, close = 0, choices[TEXT_MAX][2], n = 0;
        for (size_t i = at; close == 0; i++) {
                size_t end;
                if (t.p[i] == '\\') {
                        i++;
                } else if (t.p[i] == '[' && (end = set_end(t, i)) > 0) {
                        i = end - 1;
                } else if (t.p[i] == '{') {
                        depth++;
                } else if ((t.p[i] == ',' || t.p[i] == '}') && depth == 1) {
                        choices[n][0] = begin;
                        choices[n++][1] = i;
                        begin = i + 1;
                        close = t.p[i] == '}' ? i : 0;
                } else if (t.p[i] == '}') {
                        depth--;
                }
        }
        for (size_t i = 0; i < n; i++) {
                char text[TEXT_MAX];
                size_t head = choices[i][1] - choices[i][0], tail = t.n - close - 1;
                memcpy(text, t.p + choices[i][0], head);
                memcpy(text + head, t.p + close + 1, tail);
                if (match_text(slice_from(text, head + tail), before, path))
                        return true;
        }
        return false;
}

static bool match_text(struct slice t, const struct items *before, struct slice path)
{
        struct items all = *before, cleaned;
        for (size_t at = 0; at < t.n;) {
                size_t end, bytes;
                struct item it = { char_of(slice_from(t.p + at, t.n - at), &bytes), { NULL, 0 } };
                if (it.kind == '{')
                        return match_braces(t, at, &all, path);
                if (it.kind == '\\') {
                        at++;
                        it.kind = char_of(slice_from(t.p + at, t.n - at), &bytes);
                        at += bytes;
                } else if (it.kind == '[' && (end = set_end(t, at)) > 0) {
                        it = (struct item){ CLASS, slice_from(t.p + at, end - at) };
                        at = end;
                } else if (it.kind == '*') {
                        size_t n = 0;
                        for (; at < t.n && t.p[at] == '*'; at++)
                                n++;
                        it.kind = n == 2 ? STAR_STAR : STAR;
                } else {
                        it.kind = it.kind == '?' ? ANY : it.kind;
                        at += bytes;
                }
                all.list[all.n++] = it;
        }
        clean(&all, &cleaned);
        return match(&cleaned, 0, path, false);
}

static bool match_slowly(struct slice pattern, struct slice path)
{
        static const struct items none;
        return match_text(pattern, &none, path);
}

static bool is_clean(struct slice path)
{
        struct slice rest = path;
        if (path.n < 2 || path.p[0] != '/' || slice_has_nul(path))
                return false;
        (void)slice_split(&rest, '/');
        while (rest.p) {
                struct slice part = slice_split(&rest, '/');
                if (part.n == 0 || slice_eq(part, S(".")) || slice_eq(part, S("..")))
                        return false;
        }
        return true;
}

static void check(struct arena *a, const struct pattern *p, struct slice text, struct slice path)
{
        struct slice prefix = pattern_prefix(p);
        size_t skip = prefix.n == 1 ? 0 : prefix.n, covered_at = SIZE_MAX;
        uint64_t *state = arena_zalloc(a, pattern_words(p) * sizeof(*state));

        must(prefix.n == 1 || is_clean(prefix));
        pattern_enter(p, state);
        for (size_t end = 1, begin = 1; end <= path.n; end++) {
                if (end < path.n && path.p[end] != '/')
                        continue;
                struct slice above = slice_from(path.p, end);
                bool is_match = match_slowly(text, above);
                must(pattern_matches(p, above) == is_match);
                if (is_match)
                        covered_at = MIN(covered_at, end);
                must(pattern_covers(p, above) == (covered_at <= end));
                if (is_match) /* a walk must not have skipped a directory above the match */
                        for (size_t i = 1; i < end; i++)
                                must(path.p[i] != '/' || pattern_may_match_below(p, slice_from(path.p, i)));
                if (begin > skip && slice_starts(path, slice_from(prefix.p, skip)) && path.p[skip] == '/')
                        must(pattern_step(p, state, slice_from(path.p + begin, end - begin), state) ==
                             is_match);
                else
                        must(!is_match);
                begin = end + 1;
        }
}

/* Checks the same pattern with an alternative that no path here is long enough for: its states need several words. */
static void check_wide(struct arena *a, const struct pattern *p, struct slice text, struct slice path)
{
        const struct pattern *wide;
        struct err err = ERR_INIT;
        char *more = arena_printf(a, "%.*s{%099d,}", SLICE(text), 0);

        if (pattern_compile(a, slice_from_str(more), &wide, &err) < 0)
                return; /* too many alternatives */
        must(pattern_words(wide) > 1);
        must(pattern_matches(wide, path) == pattern_matches(p, path));
        must(pattern_covers(wide, path) == pattern_covers(p, path));
        must(pattern_may_match_below(wide, path) || !pattern_may_match_below(p, path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice path = slice_from(data, size), text = slice_split(&path, '\n');
        const struct pattern *p;
        struct err err = ERR_INIT;

        int r = pattern_compile(&a, text, &p, &err);
        must(r == 0 || err.text[0]);
        if (r < 0 || !path.p || !is_clean(path))
                return 0;
        /* Patterns come from JSON and are UTF-8, except for a directory in front of them, which has no braces. So invalid UTF-8
         * together with braces cannot happen, and is not compared. */
        bool is_odd = !utf8_is_valid(text) && memchr(text.p, '{', text.n);
        if (text.n <= TEXT_MAX && path.n <= TEXT_MAX && !is_odd) {
                check(&a, p, text, path);
                check_wide(&a, p, text, path);
        } else {
                (void)(pattern_covers(p, path) || pattern_may_match_below(p, path));
        }
        return 0;
}
