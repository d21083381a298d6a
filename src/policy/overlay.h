/* overlay: additional permissions on top of a profile, for one command, turn or session (docs/PERMISSIONS.md). Pure.
 *
 * An overlay is not a profile: it has no kind, it changes only what it mentions, and it has no meaning without a profile.
 * Only its entries that deny take permissions away.
 */
#pragma once

#include "base/err.h"
#include "policy/profile.h"
#include "policy/rules.h"

/* The most bytes of patterns times bytes of paths in an intersection; more is refused. Real intersections need a hundredth. */
#define OVERLAY_WORK_MAX (16 << 20)

struct overlay {
        bool has_network_word, has_network; /* whether the member `enabled` was present, and its value */
        bool has_files;                     /* the member file_system was present, even if empty */
        struct profile_entry *entries;
        size_t count;
        uint64_t glob_depth; /* 0: no bound */
};

/* Returns the canonical name of a path; only links at the top level of the file system are followed. The result is in the
 * arena, or the path itself. A NULL function leaves paths unchanged. */
typedef struct slice (*overlay_canonical)(void *arg, struct arena *a, struct slice path);

/* Removes empty parts and duplicates. Returns 0, or -EINVAL with err filled for a pattern that does not deny. */
NODISCARD int overlay_normalize(struct arena *a, const struct overlay *o, overlay_canonical canonical,
                                void *arg, struct overlay *ret, struct err *err);

/* Joins two overlays. The result opens the network when one of them does, and otherwise does not mention the network. */
void overlay_merge(struct arena *a, const struct overlay *base, const struct overlay *more,
                   struct overlay *ret);

/* Returns the profile with the overlay applied. The kind does not change, and neither do the files of a profile that is not
 * restricted. */
void overlay_apply(struct arena *a, const struct profile *base, const struct overlay *o, struct profile *ret);

/* Limits `granted` to what `requested` asks for, as absolute paths and patterns of `place`. An entry of `granted` stays when
 * the request grants at least as much at its path. Denials of either side at, above or below that path stay, and so do
 * weaker accesses of the request below it. The result never grants anything that one of the two does not grant. Returns
 * 0, or -EINVAL or another -errno with err filled when a side cannot be resolved or has a malformed pattern. */
NODISCARD int overlay_intersect(struct arena *a, const struct overlay *requested,
                                const struct overlay *granted, const struct place *place, struct overlay *ret,
                                struct err *err);
