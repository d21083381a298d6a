/* pattern: which paths a glob of a permission profile means (PERMISSIONS.md 1.3). Pure.
 *
 * `*` and `?` stay inside one component, `**` crosses them; `[ab]`, `[!a]`, `{a,b}`; an unclosed `[` is a literal;
 * case counts; hidden names are names. What matches a directory matches everything below it. Bounded: a hostile
 * pattern costs at most |pattern| x |path| per alternative, and there are at most PATTERN_ALTERNATIVES_MAX.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

#define PATTERN_ALTERNATIVES_MAX 64

struct pattern; /* compiled */

/* `text` is absolute. -EINVAL with err: a malformed pattern is refused, never ignored. */
NODISCARD int pattern_compile(struct arena *a, struct slice text, const struct pattern **ret,
                              struct err *err);

/* Does it match the path itself? (Of what lies below a match the caller knows: every prefix is asked.) */
NODISCARD bool pattern_matches(const struct pattern *p, struct slice path);
/* The path or any directory above it. */
NODISCARD bool pattern_covers(const struct pattern *p, struct slice path);
/* Could something below this directory match? For a walk that leaves the rest alone; may say yes too often. */
NODISCARD bool pattern_may_match_below(const struct pattern *p, struct slice directory);

/* The directory above all that can match: the components before the first with a special character, each alternative's
 * common part. "/" when there is none. */
NODISCARD struct slice pattern_prefix(const struct pattern *p);
