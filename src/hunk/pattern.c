/* pattern: classes of equal lines, and a filter that keeps most lines of a file away from them. */
#include "hunk/pattern.h"

#include "hunk/text.h"

/* A typographic character has three bytes at most, and becomes one. */
#define BYTES_FOR_ONE 3

void pattern_init(struct pattern *p, struct arena *a, size_t longest, size_t count)
{
        *p = (struct pattern){ .arena = a, .longest = longest, .filter_bits = 12 };
        p->classes = arena_alloc(a, count * sizeof(*p->classes));
        p->scratch = arena_alloc(a, pattern_longest_match(p) + 1);
        while (p->filter_bits < 26 && (1ULL << p->filter_bits) < count * 32)
                p->filter_bits++;
        p->filter = arena_zalloc(a, (1ULL << p->filter_bits) / 8);
        for (int level = 0; level < LEVEL_COUNT; level++)
                map_init(&p->texts[level]);
}

void pattern_release(struct pattern *p)
{
        for (int level = 0; level < LEVEL_COUNT; level++)
                map_release(&p->texts[level]);
}

size_t pattern_longest_match(const struct pattern *p)
{
        return p->longest * BYTES_FOR_ONE;
}

static bool is_ascii(struct slice s)
{
        size_t i = 0;

        for (uint64_t word; s.n - i >= sizeof(word); i += sizeof(word)) {
                memcpy(&word, s.p + i, sizeof(word));
                if (word & 0x8080808080808080)
                        return false;
        }
        for (; i < s.n; i++)
                if ((unsigned char)s.p[i] >= 0x80)
                        return false;
        return true;
}

/* Returns what a level compares of a text; it may lie in the scratch. The text has at most pattern_longest_match() bytes between the white
 * space at its ends. */
static struct slice text_at_level(const struct pattern *p, struct slice text, enum level level)
{
        switch (level) {
        case LEVEL_EXACT:
                return text;
        case LEVEL_END:
                return text_trim_end(text);
        case LEVEL_TRIMMED:
                return text_trim(text);
        case LEVEL_ALIKE:
        case LEVEL_COUNT:
                break;
        }
        text = text_trim(text);
        return is_ascii(text) ? text : slice_from(p->scratch, text_map(text, p->scratch));
}

static uint32_t class_of(const struct pattern *p, struct slice seen, enum level level)
{
        return (uint32_t)(uintptr_t)map_find(&p->texts[level], seen);
}

/* ---- The filter: a signature of a line, which is the same for lines that are equal at any level */

#define SIGNATURE_BYTES 8

/* Bytes that no level takes away, changes or puts in place of others: printable ASCII without what typographic characters become. */
static const bool is_plain[256] = {
        ['!'] = true,
        ['#' ... '&'] = true,
        ['(' ... ','] = true,
        ['.' ... '~'] = true,
};

/* Looks at the first and the last plain bytes of the line, and at none of the others. */
static uint64_t signature(struct slice text)
{
        const unsigned char *start = (const unsigned char *)text.p, *end = start + text.n;
        uint64_t head = 0, tail = 0;
        int n = 0;

        for (const unsigned char *s = start; s < end && n < SIGNATURE_BYTES; s++) {
                if (is_plain[*s]) {
                        head = head << 8 | *s;
                        n++;
                }
        }
        for (const unsigned char *e = end; e > start && n > 0; e--) {
                if (is_plain[e[-1]]) {
                        tail = tail << 8 | e[-1];
                        n--;
                }
        }
        return (head * 0x9e3779b97f4a7c15) ^ (tail * 0xc2b2ae3d27d4eb4f);
}

static uint64_t *filter_word(const struct pattern *p, uint64_t sign, uint64_t *ret_bit)
{
        uint64_t i = (sign * 0x9e3779b97f4a7c15) >> (64 - p->filter_bits);

        *ret_bit = 1ULL << (i % 64);
        return &p->filter[i / 64];
}

static void filter_add(struct pattern *p, struct slice text)
{
        uint64_t bit, *word = filter_word(p, signature(text), &bit);

        *word |= bit;
}

/* May the line have a class? */
static bool passes(const struct pattern *p, struct slice text)
{
        uint64_t bit;

        return (*filter_word(p, signature(text), &bit) & bit) != 0;
}

/* ---- Lines of the hunk, and of the file */

void pattern_add(struct pattern *p, struct slice text)
{
        uint32_t *classes = p->classes[p->count++];

        for (enum level level = 0; level < LEVEL_COUNT; level++) {
                struct slice seen = text_at_level(p, text, level);
                uint32_t class = class_of(p, seen, level);
                if (!class) {
                        class = ++p->class_count[level];
                        if (seen.p == p->scratch)
                                seen.p = arena_dup(p->arena, seen);
                        map_put(&p->texts[level], seen, (void *)(uintptr_t) class);
                        if (level == LEVEL_ALIKE)
                                filter_add(p, seen);
                }
                classes[level] = class;
        }
}

static bool is_out_of_question(const struct pattern *p, const struct line *line)
{
        return line->cut == LINE_TOO_LONG || !passes(p, line->text) ||
               text_trim(line->text).n > pattern_longest_match(p);
}

/* A line that was cut is longer than every line of the pattern, so it has no class at a level that compares what was cut off. */
static uint32_t find_at(const struct pattern *p, const struct line *line, enum level level)
{
        return level < (enum level)line->cut ? 0 : class_of(p, text_at_level(p, line->text, level), level);
}

bool pattern_find(const struct pattern *p, const struct line *line, uint32_t ret[static LEVEL_COUNT])
{
        if (is_out_of_question(p, line))
                return false;
        uint32_t class = find_at(p, line, LEVEL_ALIKE);
        if (!class)
                return false;
        ret[LEVEL_ALIKE] = class;
        for (int level = LEVEL_ALIKE - 1; level >= 0; level--)
                ret[level] = class = class ? find_at(p, line, (enum level)level) : 0;
        return true;
}

uint32_t pattern_find_at(const struct pattern *p, const struct line *line, enum level level)
{
        return is_out_of_question(p, line) ? 0 : find_at(p, line, level);
}
