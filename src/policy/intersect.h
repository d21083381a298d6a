/* intersect: computes what two permission profiles both allow. Pure.
 *
 * The caller limits a requested profile by one that has authority over it: the result allows nothing that either profile
 * forbids. Profiles that cannot be compared by name alone are refused: external ones, roots that depend on the machine or
 * on the request, optional entries, symbolic links.
 */
#pragma once

#include "base/err.h"
#include "policy/profile.h"

/* Tells whether a path is a symbolic link or lies below one. A NULL function means that no path of the profiles does. */
typedef bool (*path_has_link)(void *arg, struct slice path);

/* Computes the intersection of two profiles. The result is disabled only when both are; otherwise it has the kind of the more
 * limited profile. It points into the arena and into both profiles. Returns 0, or -EINVAL with err filled when the two cannot be
 * compared. */
NODISCARD int profile_intersect(struct arena *a, const struct profile *authority,
                                const struct profile *requested, path_has_link has_link, void *arg,
                                struct profile *ret, struct err *err);

/* Makes the same profile without write access and without network. Returns false for an external profile, whose readable paths
 * are not known; *ret is not written then. */
NODISCARD bool profile_intersect_read_only(struct arena *a, const struct profile *p, struct profile *ret);
