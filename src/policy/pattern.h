/* pattern: which paths a glob of a permission profile means (PERMISSIONS.md 1.3). Pure.
 *
 * `*` and `?` stay inside one component, a component `**` is any number of them (at the end: at least one); elsewhere
 * `**` is `*`. `[ab]`, `[a-z]`, `[!a]`, `[^a]`; an unclosed `[` is a literal. `{a,b}` with anything in it, also slashes
 * and braces. `\` takes the next character as it is. Case counts; hidden names are names; a character is one of UTF-8,
 * or a byte that is none. Empty components and `.` say nothing, `..` takes the name before it back. What matches a
 * directory matches everything below it.
 *
 * All alternatives together are one automaton whose states are bits: a path costs |pattern| / 64 steps per character,
 * whatever the pattern is. Paths that are asked about are absolute and clean: no `.`, no empty component, no slash at
 * the end.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

#define PATTERN_BYTES_MAX 4096      /* of its text */
#define PATTERN_ALTERNATIVES_MAX 64 /* that its braces stand for */
#define PATTERN_POSITIONS_MAX 8192  /* characters of all alternatives, behind their common directory */

struct pattern; /* compiled */

/* `text` is absolute. -EINVAL with err: a malformed pattern, or one beyond the bounds, is refused, never ignored. */
NODISCARD int pattern_compile(struct arena *a, struct slice text, const struct pattern **ret,
                              struct err *err);

/* Does it match the path itself? (Of what lies below a match the caller knows: every prefix is asked.) */
NODISCARD bool pattern_matches(const struct pattern *p, struct slice path);
/* The path or any directory above it. */
NODISCARD bool pattern_covers(const struct pattern *p, struct slice path);
/* Could something below this directory match? For a walk that leaves the rest alone; may say yes too often. */
NODISCARD bool pattern_may_match_below(const struct pattern *p, struct slice directory);

/* The directory above all that can match: the components that all alternatives begin with and that hold no special
 * character; not the last one. "/" when there is none. With a NUL behind it. */
NODISCARD struct slice pattern_prefix(const struct pattern *p);

/* The same step by step, for a walk that begins at the prefix. A state belongs to a directory: what is left of the
 * pattern there. It has pattern_words() words; a directory whose state is all zero has nothing below it that matches. */
NODISCARD size_t pattern_words(const struct pattern *p);
void pattern_enter(const struct pattern *p, uint64_t *ret_state); /* of the prefix itself */
/* Does `name` in the directory with this state match? `ret_below`, if not NULL: the state of the name as a directory;
 * it may be `state`. */
bool pattern_step(const struct pattern *p, const uint64_t *state, struct slice name, uint64_t *ret_below);
