/* entries: lists of profile entries, grown one by one, that know what is in them.
 *
 * Looking for an entry costs the same however long the list is: entries come from clients. The list and all that is
 * looked up live in the arena; the index is on the heap until entries_release.
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

void entries_append(struct entries *s, const struct profile_entry *e); /* whatever is there */
void entries_add(struct entries *s, const struct profile_entry *e);    /* unless the same entry is there */
/* Is this very entry there, with its access and everything? */
NODISCARD bool entries_have(struct entries *s, const struct profile_entry *e);
/* Which accesses are there for the same target (profile_same_target): bits 1 << enum access. */
NODISCARD unsigned entries_accesses(struct entries *s, const struct profile_entry *e);

/* A profile of them: managed and restricted. */
NODISCARD struct profile entries_profile(const struct entries *s, uint64_t glob_depth, bool has_network);

static inline struct profile_entry entry_for_path(struct slice path, enum access access)
{
        return (struct profile_entry){ .kind = TARGET_PATH, .text = path, .access = access };
}

static inline struct profile_entry entry_for_special(enum special special, enum access access)
{
        return (struct profile_entry){ .kind = TARGET_SPECIAL, .special = special, .access = access };
}

/* The workspace roots themselves, not something below them. */
NODISCARD bool entry_is_workspace(const struct profile_entry *e);
/* .git and the like, or something of that name: by its last component. */
NODISCARD bool path_is_protected(struct slice path);

/* The directory above; that of `/` is `/`. */
NODISCARD struct slice path_above(struct slice path);

/* The bound on the search of patterns when two lists become one: only a list that has denied patterns is asked; no bound
 * beats a bound, and the larger one the smaller. */
NODISCARD uint64_t entries_unite_depths(const struct profile_entry *a, size_t a_count, uint64_t a_depth,
                                        const struct profile_entry *b, size_t b_count, uint64_t b_depth);
