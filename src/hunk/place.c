/* place: two walks over the lines of a file.
 *
 * The place of a chunk depends on all that comes behind it: an exact match at the end of the file wins over a loose one before. So the
 * first walk finds, for each item (a context text, or the old lines of a chunk) and each level, where its last match is. Then the
 * second walk knows at each item which level wins: the strictest whose last match is not before the walk. It goes on to the
 * first match at that level.
 */
#include "hunk/place.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "hunk/automaton.h"
#include "hunk/compose.h"
#include "hunk/pattern.h"
#include "hunk/place_internal.h"

#include <errno.h>

#define NOT_FOUND 1

/* What is looked for. Its lines are those of the pattern from `first` on. */
struct item {
        const struct patch_chunk *chunk;
        size_t first, count;
        bool is_context;               /* the text behind the "@@ " of the chunk */
        uint32_t node[LEVEL_COUNT];    /* of all lines, in the automaton of the level */
        uint32_t shorter[LEVEL_COUNT]; /* of all but the last one */
};

struct search {
        struct arena *arena; /* for what is needed until the end of the search */
        struct pattern pattern;
        struct item *items;
        size_t item_count, longest_item;
        /* One for each level. Levels at which the same lines are equal share one. */
        struct automaton *automata[LEVEL_COUNT];
        uint64_t *matched
                [LEVEL_COUNT]; /* for each node: how many lines the walk had seen at its last match; 0: none */
        struct lines lines;
        struct file_shape file;
        uint64_t position; /* how many lines the second walk has passed */
        uint64_t offset;   /* how many bytes the second walk has passed */
        uint64_t *offsets; /* a ring: the offset of line i is at i % (longest_item + 1) */
        uint32_t *border;  /* of the item at hand (find_match) */
        struct composer composer;
};

/* ---- the lines and patch chunks of a hunk as a sequence of items ---- */

static bool is_old(const struct patch_line *line)
{
        return line->kind != PATCH_LINE_ADDED;
}

static void measure(const struct hunk *h, size_t *ret_lines, size_t *ret_longest)
{
        *ret_lines = *ret_longest = 0;
        for (size_t i = 0; i < h->chunk_count; i++) {
                const struct patch_chunk *c = &h->chunks[i];
                *ret_lines += c->old_count + (c->context.p != NULL);
                *ret_longest = MAX(*ret_longest, c->context.n);
                for (size_t k = 0; k < c->line_count; k++)
                        if (is_old(&c->lines[k]))
                                *ret_longest = MAX(*ret_longest, c->lines[k].text.n);
        }
}

static void add_items(struct search *s, const struct patch_chunk *c)
{
        if (c->context.p) {
                s->items[s->item_count++] = (struct item){
                        .chunk = c, .first = s->pattern.count, .count = 1, .is_context = true
                };
                pattern_add(&s->pattern, c->context);
        }
        if (!c->old_count)
                return;
        s->items[s->item_count++] =
                (struct item){ .chunk = c, .first = s->pattern.count, .count = c->old_count };
        for (size_t i = 0; i < c->line_count; i++)
                if (is_old(&c->lines[i]))
                        pattern_add(&s->pattern, c->lines[i].text);
}

static void make_items(struct search *s, const struct hunk *h)
{
        size_t lines, longest;

        measure(h, &lines, &longest);
        pattern_init(&s->pattern, s->arena, longest, lines);
        s->items = arena_alloc(s->arena, (2 * h->chunk_count) * sizeof(*s->items));
        for (size_t i = 0; i < h->chunk_count; i++)
                add_items(s, &h->chunks[i]);
        for (size_t i = 0; i < s->item_count; i++)
                s->longest_item = MAX(s->longest_item, s->items[i].count);
        s->offsets = arena_alloc(s->arena, (s->longest_item + 1) * sizeof(*s->offsets));
        s->border = arena_alloc(s->arena, (s->longest_item + 1) * sizeof(*s->border));
}

/* Makes the automaton of a level: all items grow by one line at a time, because shorter nodes must be made first. */
static struct automaton *make_automaton(struct search *s, enum level level)
{
        struct automaton *m = arena_new(s->arena, struct automaton);
        struct item **growing = arena_alloc(s->arena, (s->item_count + 1) * sizeof(*growing));
        size_t count = s->item_count;

        automaton_init(m, s->arena, s->pattern.count);
        for (size_t i = 0; i < count; i++)
                growing[i] = &s->items[i];
        for (size_t depth = 0; count; depth++) {
                size_t left = 0;
                for (size_t i = 0; i < count; i++) {
                        struct item *item = growing[i];
                        uint32_t node = item->node[level];
                        item->shorter[level] = node;
                        item->node[level] =
                                automaton_extend(m, node, s->pattern.classes[item->first + depth][level]);
                        if (depth + 1 < item->count)
                                growing[left++] = item;
                }
                count = left;
        }
        return m;
}

static void make_automata(struct search *s)
{
        for (int level = 0; level < LEVEL_COUNT; level++) {
                if (level > 0 && s->pattern.class_count[level] == s->pattern.class_count[level - 1]) {
                        s->automata[level] = s->automata[level - 1];
                        for (size_t i = 0; i < s->item_count; i++) {
                                s->items[i].node[level] = s->items[i].node[level - 1];
                                s->items[i].shorter[level] = s->items[i].shorter[level - 1];
                        }
                } else {
                        s->automata[level] = make_automaton(s, (enum level)level);
                }
                s->matched[level] =
                        arena_zalloc(s->arena, s->automata[level]->count * sizeof(*s->matched[level]));
        }
}

/* ---- The first walk */

/* Where a node matches, every node matches whose lines are the last lines of that node: passes each match on to those nodes. */
static void spread_matches(struct search *s)
{
        for (int level = 0; level < LEVEL_COUNT; level++) {
                const struct automaton *m = s->automata[level];
                uint64_t *matched = s->matched[level];
                for (uint32_t node = m->count - 1; node > 0; node--)
                        matched[m->fail[node]] = MAX(matched[m->fail[node]], matched[node]);
        }
}

static int walk_first(struct search *s, const struct reader *reader, size_t room, struct err *err)
{
        uint32_t state[LEVEL_COUNT] = { 0 }, class[LEVEL_COUNT];
        bool is_matching = false;
        struct line line;
        int r = lines_begin(&s->lines, s->arena, reader, pattern_longest_match(&s->pattern), room, err);

        if (r < 0)
                return r;
        while ((r = lines_next(&s->lines, &line, err)) > 0) {
                s->file.lines++;
                s->file.bytes = line.next;
                if (pattern_find(&s->pattern, &line, class)) {
                        is_matching = true;
                        for (int level = 0; level < LEVEL_COUNT; level++) {
                                state[level] = automaton_step(s->automata[level], state[level], class[level]);
                                s->matched[level][state[level]] = s->file.lines;
                        }
                } else if (is_matching) {
                        is_matching = false;
                        memset(state, 0, sizeof(state));
                }
        }
        s->file.terminator = s->lines.terminator;
        s->file.is_open = s->lines.is_open;
        spread_matches(s);
        return r;
}

/* ---- The second walk */

/* Takes one line, and remembers its offset. */
static int step(struct search *s, struct line *ret, struct err *err)
{
        int r = lines_next(&s->lines, ret, err);

        if (r <= 0)
                return r < 0 ? r : reader_fail_changed(err);
        s->offsets[s->position % (s->longest_item + 1)] = ret->offset;
        s->position++;
        s->offset = ret->next;
        return 0;
}

/* Walks until the last `count` lines are the first `count` ones of the item (Knuth, Morris and Pratt, 1977). */
static int find_match(struct search *s, const struct item *item, size_t count, enum level level,
                      struct err *err)
{
        uint32_t(*classes)[LEVEL_COUNT] = &s->pattern.classes[item->first];
        uint32_t *border =
                s->border; /* border[i]: the largest number below i of lines with which the first i lines both begin and end */

        border[0] = border[1] = 0;
        for (size_t i = 1; i < count; i++) {
                uint32_t k = border[i];
                while (k && classes[k][level] != classes[i][level])
                        k = border[k];
                border[i + 1] = k + (classes[k][level] == classes[i][level]);
        }
        for (uint32_t matched = 0; matched < count;) {
                struct line line;
                int r = step(s, &line, err);
                if (r < 0)
                        return r;
                uint32_t class = pattern_find_at(&s->pattern, &line, level);
                while (matched && class != classes[matched][level])
                        matched = border[matched];
                matched += class == classes[matched][level];
        }
        return 0;
}

/* Walks to the end of the file. */
static int find_end(struct search *s, struct err *err)
{
        while (s->position < s->file.lines) {
                struct line line;
                int r = step(s, &line, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Walks behind the next match of the first `count` lines of the item, whose nodes are given. Returns 0; NOT_FOUND: there is
 * none, and the walk stays where it is; or what the reader returns. */
static int find(struct search *s, const struct item *item, size_t count,
                const uint32_t nodes[static LEVEL_COUNT], struct err *err)
{
        if (!count)
                return 0;
        if (item->chunk->is_end_of_file && !item->is_context) {
                uint64_t matched = s->matched[LEVEL_ALIKE][nodes[LEVEL_ALIKE]];
                bool is_match = matched && matched == s->file.lines && matched - count >= s->position;
                return is_match ? find_end(s, err) : NOT_FOUND;
        }
        for (int level = 0; level < LEVEL_COUNT; level++) {
                uint64_t matched = s->matched[level][nodes[level]];
                if (matched && matched - count >= s->position)
                        return find_match(s, item, count, (enum level)level, err);
        }
        return NOT_FOUND;
}

/* ---- Chunks in order */

/* Notes the changes of the last `old_count` lines that the walk has passed. */
static void note_block(struct search *s, const struct patch_line *lines, size_t count, size_t old_count)
{
        uint64_t *offsets = arena_alloc(s->arena, (old_count + 1) * sizeof(*offsets));
        uint64_t first = s->position - old_count;

        for (size_t i = 0; i < old_count; i++)
                offsets[i] = s->offsets[(first + i) % (s->longest_item + 1)];
        offsets[old_count] = s->offset;
        compose_block(&s->composer, lines, count, first, offsets);
}

static int place_block(struct search *s, const struct item *item, struct err *err)
{
        const struct patch_chunk *c = item->chunk;
        const struct patch_line *lines = c->lines;
        size_t count = c->line_count, old_count = item->count;
        int r = find(s, item, old_count, item->node, err);

        if (r == NOT_FOUND && compose_ends_empty(c)) {
                r = find(s, item, --old_count, item->shorter, err);
                if (!r)
                        lines = compose_shorten(s->arena, c, &count);
        }
        if (!r)
                note_block(s, lines, count, old_count);
        return r;
}

/* Lines without a place of their own go to the end of the file. */
static void place_at_end(struct search *s, const struct patch_chunk *c)
{
        compose_block(&s->composer, c->lines, c->line_count, s->file.lines, &s->file.bytes);
}

/* Puts the chunks of the hunk in their places. Returns 0, NOT_FOUND with *ret_failed, or what the reader returns. */
static int walk_second(struct search *s, const struct hunk *h, const struct item **ret_failed,
                       struct err *err)
{
        const struct item *item = s->items;
        int r = s->item_count ? lines_rewind(&s->lines, err) : 0;

        for (size_t i = 0; i < h->chunk_count && !r; i++) {
                const struct patch_chunk *c = &h->chunks[i];
                if (c->context.p) {
                        *ret_failed = item;
                        r = find(s, item, item->count, item->node, err);
                        item++;
                }
                if (r)
                        return r;
                if (c->old_count) {
                        *ret_failed = item;
                        r = place_block(s, item, err);
                        item++;
                } else {
                        place_at_end(s, c);
                }
        }
        return r;
}

/* ---- The whole */

static void fail(struct arena *a, const struct item *item, struct slice path, struct patch_error *ret)
{
        const struct patch_chunk *c = item->chunk;
        _buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        bool ok = true;

        if (item->is_context) {
                ok = buf_append(&text, S("Failed to find context '")) == 0 &&
                     buf_append(&text, c->context) == 0 && buf_append(&text, S("' in ")) == 0 &&
                     buf_append(&text, path) == 0;
        } else {
                ok = buf_append(&text, S("Failed to find expected lines in ")) == 0 &&
                     buf_append(&text, path) == 0 && buf_append_char(&text, ':') == 0;
                for (size_t i = 0; i < c->line_count; i++)
                        if (is_old(&c->lines[i]))
                                ok = ok && buf_append_char(&text, '\n') == 0 &&
                                     buf_append(&text, c->lines[i].text) == 0;
        }
        must(ok);
        *ret = (struct patch_error){
                .kind = item->is_context ? PATCH_ERROR_CONTEXT : PATCH_ERROR_LINES,
                .line = c->line,
                .message = slice_from(arena_dup(a, buf_slice(&text)), text.n),
        };
}

int place_find_in(struct arena *scratch, size_t room, struct arena *a, const struct hunk *h,
                  struct slice path, const struct reader *r, struct edits *ret, struct patch_error *ret_error,
                  struct err *err)
{
        struct search s = { .arena = scratch };
        const struct item *failed = NULL;

        make_items(&s, h);
        make_automata(&s);
        int result = walk_first(&s, r, room, err);
        if (!result) {
                s.composer = (struct composer){ .arena = scratch, .file_lines = s.file.lines };
                result = walk_second(&s, h, &failed, err);
        }
        pattern_release(&s.pattern);
        if (result == NOT_FOUND) {
                fail(a, failed, path, ret_error);
                return -ENOENT;
        }
        if (result < 0) {
                struct slice text = slice_from_str(err->text);
                *ret_error = (struct patch_error){ .kind = PATCH_ERROR_READ,
                                                   .message = { arena_dup(a, text), text.n } };
                return result;
        }
        compose_end(&s.composer, a, &s.file, ret);
        return 0;
}

int place_find(struct arena *a, const struct hunk *h, struct slice path, const struct reader *r,
               struct edits *ret, struct patch_error *ret_error, struct err *err)
{
        _arena_ struct arena scratch = ARENA_INIT;

        return place_find_in(&scratch, LINES_ROOM, a, h, path, r, ret, ret_error, err);
}
