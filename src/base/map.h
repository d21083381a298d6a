/* map: byte strings to pointers; open addressing, keyed hash.
 *
 * The hash (SipHash-1-3) has a random key per process, because keys come from clients. The map owns neither keys nor
 * values: a key must live as long as its entry (usually it is a member of the value).
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

struct map_entry;

struct map {
        struct map_entry *entries;
        size_t used, tombs, size; /* size is a power of two, or 0 */
        uint64_t key[2];
};

void map_init(struct map *m); /* no allocation until the first put */
void map_release(struct map *m);

NODISCARD void *map_find(const struct map *m, struct slice key); /* NULL when absent */
void map_put(struct map *m, struct slice key, void *value);      /* the key must be absent (must()) */
void *map_remove(struct map *m, struct slice key);               /* returns the value, or NULL */

static inline size_t map_count(const struct map *m)
{
        return m->used;
}

/* Returns the values one by one, in no order, and NULL at the end. *pos begins with 0. The current entry may be removed. */
NODISCARD void *map_next(const struct map *m, size_t *pos);

/* Returns the SipHash-1-3 of the bytes. */
NODISCARD uint64_t map_hash(const uint64_t key[2], struct slice s);
