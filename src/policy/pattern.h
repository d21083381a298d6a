/* pattern: decides which paths match a glob of a permission profile (docs/PERMISSIONS.md). Pure.
 *
 * `*` and `?` stay inside one component; a component `**` matches any number of components (at the end: at least one), elsewhere
 * `**` means `*`. Classes are `[ab]`, `[a-z]`, `[!a]` and `[^a]`; an unclosed `[` is a literal. Alternatives `{a,b}` may contain
 * anything, also slashes and braces. `\` takes the next character as it is. Case matters. Hidden names match like others. A
 * character is a UTF-8 character, or a byte that is not UTF-8. Empty components and `.` are ignored; `..` removes the component
 * before it. A pattern that matches a directory matches everything below it.
 *
 * All alternatives together are one automaton whose states are bits: a path costs |pattern| / 64 steps per character,
 * whatever the pattern is. Paths passed to these functions are absolute and clean: no `.`, no empty component, no slash
 * at the end.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

#define PATTERN_BYTES_MAX 4096      /* the longest text of a pattern */
#define PATTERN_ALTERNATIVES_MAX 64 /* the most alternatives that braces stand for */
#define PATTERN_POSITIONS_MAX 8192  /* the most characters of all alternatives below the prefix */

struct pattern; /* compiled */

/* Compiles `text`, which is absolute. Returns 0, or -EINVAL with err filled: a malformed pattern, or one beyond the three limits
 * above, is refused, never ignored. */
NODISCARD int pattern_compile(struct arena *a, struct slice text, const struct pattern **ret,
                              struct err *err);

/* Does the pattern match the path itself? pattern_covers also asks about the directories above. */
NODISCARD bool pattern_matches(const struct pattern *p, struct slice path);
/* Does the pattern match the path or a directory above it? */
NODISCARD bool pattern_covers(const struct pattern *p, struct slice path);
/* Could a path below this directory match? If not, a search skips the directory. May return true although nothing can match. */
NODISCARD bool pattern_may_match_below(const struct pattern *p, struct slice directory);

/* Returns the directory that is above every match: the leading components that all alternatives share and that hold no special
 * character, without the last component. "/" when there is none. NUL-terminated. */
NODISCARD struct slice pattern_prefix(const struct pattern *p);

/* The functions below match component by component, for a search that begins at the prefix. A state belongs to a directory and
 * holds the remaining part of the pattern. It has pattern_words() words; nothing below a directory whose state is all zero
 * matches. */
NODISCARD size_t pattern_words(const struct pattern *p);
void pattern_enter(const struct pattern *p, uint64_t *ret_state); /* the state of the prefix */
/* Does `name` in the directory with this state match? `ret_below`, if not NULL, gets the state that the name has as
 * a directory; it may be `state` itself. */
bool pattern_step(const struct pattern *p, const uint64_t *state, struct slice name, uint64_t *ret_below);
