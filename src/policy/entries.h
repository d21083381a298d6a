/* entries: a growing list of profile entries with an index, so that an entry is found in constant time.
 *
 * Clients choose how long the lists are, so no search may depend on the length. The list and its texts live in the arena;
 * the index is on the heap until entries_release.
 */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "policy/profile.h"

struct entries {
        struct arena *arena;
        struct profile_entry *list;
        size_t count, room;
        struct map seen;
};

void entries_init(struct entries *s, struct arena *a);
void entries_release(struct entries *s); /* the list stays, in the arena */
#define _entries_ CLEANUP(entries_release)

void entries_append(struct entries *s, const struct profile_entry *e); /* even if an equal entry is listed */
void entries_add(struct entries *s, const struct profile_entry *e);    /* unless an equal entry is listed */
/* Does the list hold an equal entry: the same target, access and flags? */
NODISCARD bool entries_have(struct entries *s, const struct profile_entry *e);
/* Returns the accesses that entries of the list give to the target of `e` (profile_same_target), as bits 1 << enum access. */
NODISCARD unsigned entries_accesses(struct entries *s, const struct profile_entry *e);

/* Returns a managed, restricted profile with these entries. */
NODISCARD struct profile entries_profile(const struct entries *s, uint64_t glob_depth, bool has_network);

static inline struct profile_entry entry_for_path(struct slice path, enum access access)
{
        return (struct profile_entry){ .kind = TARGET_PATH, .text = path, .access = access };
}

static inline struct profile_entry entry_for_special(enum special special, enum access access)
{
        return (struct profile_entry){ .kind = TARGET_SPECIAL, .special = special, .access = access };
}

/* Does the entry name the workspace roots themselves, not a path below them? */
NODISCARD bool entry_is_workspace(const struct profile_entry *e);
/* Is the last component of the path a protected name, such as .git? */
NODISCARD bool path_is_protected(struct slice path);

/* Returns the depth to which patterns are searched when two lists become one. Only lists with denied patterns count.
 * No limit (0) wins over a limit, and the larger limit over the smaller. */
NODISCARD uint64_t entries_unite_depths(const struct profile_entry *a, size_t a_count, uint64_t a_depth,
                                        const struct profile_entry *b, size_t b_count, uint64_t b_depth);
