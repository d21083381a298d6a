/* intersect: what two profiles allow both (PERMISSIONS.md 7). Pure.
 *
 * For authority over somebody who asks: the result allows nothing that one of the two forbids. What cannot be compared by
 * name alone is refused: files that somebody else guards, roots that depend on the machine or on the request, optional
 * entries, links.
 */
#pragma once

#include "base/err.h"
#include "policy/profile.h"

/* What only the machine can tell; NULL: no path of the profiles is a link, or below one. */
typedef bool (*path_has_link)(void *arg, struct slice path);

/* Who enforces: nobody when both say so, else what the more limited one says. -EINVAL with err when they cannot be
 * compared. The result lives in the arena and in both profiles. */
NODISCARD int profile_intersect(struct arena *a, const struct profile *authority,
                                const struct profile *requested, path_has_link has_link, void *arg,
                                struct profile *ret, struct err *err);

/* The same profile for somebody who may only read, without network. False for an external one: what it reads is not known,
 * *ret is not written. */
NODISCARD bool profile_intersect_read_only(struct arena *a, const struct profile *p, struct profile *ret);
