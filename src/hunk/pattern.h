/* pattern: the lines that a hunk looks for, and which of them a line of the file is equal to.
 *
 * Equal means one thing at each of four levels; what is equal at one level is equal at all looser ones. At each level the lines of the hunk
 * fall into classes of equal lines, numbered from 1 in the order in which they were added. A line of the file has a class at a level, or 0
 * when it is equal to no line of the hunk.
 */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "hunk/lines.h"

enum level {
        LEVEL_EXACT,
        LEVEL_END,     /* white space at the end does not count */
        LEVEL_TRIMMED, /* white space at both ends does not count */
        LEVEL_ALIKE,   /* as LEVEL_TRIMMED, and typographic characters count as those of ASCII (text.h) */
        LEVEL_COUNT,
};

struct pattern {
        struct arena *arena;
        struct map texts[LEVEL_COUNT]; /* a text as the level sees it, to its class */
        uint32_t class_count[LEVEL_COUNT];
        uint32_t (*classes)[LEVEL_COUNT]; /* of each line that was added */
        size_t count;
        size_t longest; /* bytes of the longest line */
        char *scratch;  /* room for a text at LEVEL_ALIKE */
        uint64_t *
                filter; /* bits, chosen by a signature: a line whose bit is not set has no class at any level */
        unsigned filter_bits;
};

/* `longest` is the number of bytes of the longest line that will be added, `count` how many there will be. */
void pattern_init(struct pattern *p, struct arena *a, size_t longest, size_t count);
void pattern_release(struct pattern *p);

/* Adds a line, which must live as long as the pattern. Its index is the number of lines before. */
void pattern_add(struct pattern *p, struct slice text);

/* How many bytes a line of a file can have between the white space at its ends and yet be equal to a line of the pattern. */
NODISCARD size_t pattern_longest_match(const struct pattern *p);

/* Finds the classes of a line at all levels. Returns false when it has none; *ret is not written then. */
NODISCARD bool pattern_find(const struct pattern *p, const struct line *line,
                            uint32_t ret[static LEVEL_COUNT]);
/* Returns the class of a line at one level, or 0. */
NODISCARD uint32_t pattern_find_at(const struct pattern *p, const struct line *line, enum level level);
