/* overlay: permissions beyond a profile, for one command, turn or session (PERMISSIONS.md 7). Pure.
 *
 * A type of its own because it is partial: it never says who enforces, what it does not mention stays as it is, and it is
 * of no use alone. Entries that deny take away; nothing else in it does.
 */
#pragma once

#include "base/err.h"
#include "policy/profile.h"
#include "policy/rules.h"

/* Bytes of patterns times bytes of paths in an intersection; more is refused. Real ones have a hundredth. */
#define OVERLAY_WORK_MAX (16 << 20)

struct overlay {
        bool has_network_word, has_network; /* `enabled` was said, and what */
        bool has_files;                     /* a file_system was there, if only an empty one */
        struct profile_entry *entries;
        size_t count;
        uint64_t glob_depth; /* 0: no bound */
};

/* The file system's name for a path, without following links below its top level; NULL stands for one that changes
 * nothing. The answer lives in the arena or is the path itself. */
typedef struct slice (*overlay_canonical)(void *arg, struct arena *a, struct slice path);

/* Without empty parts and duplicates. -EINVAL with err for a pattern that does not deny. */
NODISCARD int overlay_normalize(struct arena *a, const struct overlay *o, overlay_canonical canonical,
                                void *arg, struct overlay *ret, struct err *err);

/* Both together. The network is open when one of them says so, and else not mentioned. */
void overlay_merge(struct arena *a, const struct overlay *base, const struct overlay *more,
                   struct overlay *ret);

/* The profile that is in force with the overlay on top. A profile that is not restricted keeps its files as they are; none
 * changes its kind. */
void overlay_apply(struct arena *a, const struct profile *base, const struct overlay *o, struct profile *ret);

/* What of `granted` was asked for, as concrete paths and patterns of `place`. An entry that grants stays when the request
 * grants as much at that path; what either side denies within or above it is kept, and so is what the request wants less
 * of below it. The result never grants what one of the two does not. -EINVAL and others with err when a side cannot be
 * resolved there or has a malformed pattern. */
NODISCARD int overlay_intersect(struct arena *a, const struct overlay *requested,
                                const struct overlay *granted, const struct place *place, struct overlay *ret,
                                struct err *err);
