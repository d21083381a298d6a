/* map: byte strings to pointers; open addressing with linear probing.
 *
 * A slot is empty, a tombstone (something was here: keep probing) or used. Used and tombstones together fill
 * at most three quarters, so a probe always meets an empty slot.
 */
#include "base/map.h"

#include "base/mem.h"
#include "base/random.h"

#define FIRST_SLOTS ((size_t)8)

/* `value` is never NULL in a used slot. In any other slot `hash` is one of these. */
enum { SLOT_EMPTY = 0, SLOT_TOMB = 1 };

struct map_entry {
        struct slice key;
        uint64_t hash;
        void *value;
};

static inline uint64_t rotate(uint64_t x, int bits)
{
        return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
}

/* Reads a little-endian number, on every machine; compilers make one load of it. */
static inline uint64_t load_le(const unsigned char *p, size_t n)
{
        uint64_t x = 0;
        for (size_t i = 0; i < n; i++)
                x |= (uint64_t)p[i] << (8 * i);
        return x;
}

uint64_t map_hash(const uint64_t key[2], struct slice s)
{
        const unsigned char *p = (const unsigned char *)s.p;
        uint64_t v[4] = {
                key[0] ^ 0x736f6d6570736575u,
                key[1] ^ 0x646f72616e646f6du,
                key[0] ^ 0x6c7967656e657261u,
                key[1] ^ 0x7465646279746573u,
        };

        size_t left = s.n;
        for (; left >= 8; left -= 8, p += 8) {
                uint64_t word = load_le(p, 8);
                v[3] ^= word;
                sip_round(v);
                v[0] ^= word;
        }

        uint64_t last = (uint64_t)s.n << 56 | load_le(p, left);
        v[3] ^= last;
        sip_round(v);
        v[0] ^= last;

        v[2] ^= 0xff;
        for (int i = 0; i < 3; i++)
                sip_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void map_init(struct map *m)
{
        *m = (struct map){ 0 };
        memcpy(m->key, random_hash_key(), sizeof(m->key));
}

void map_release(struct map *m)
{
        free(m->entries);
        m->entries = NULL;
        m->used = m->tombs = m->size = 0;
}

/* Returns the slot of `key`, or NULL. */
static struct map_entry *find_slot(const struct map *m, struct slice key)
{
        if (m->used == 0)
                return NULL;

        uint64_t hash = map_hash(m->key, key);
        for (size_t i = hash & (m->size - 1);; i = (i + 1) & (m->size - 1)) {
                struct map_entry *e = &m->entries[i];
                if (e->value) {
                        if (e->hash == hash && slice_eq(e->key, key))
                                return e;
                } else if (e->hash == SLOT_EMPTY) {
                        return NULL;
                }
        }
}

/* Puts an entry whose key is known to be absent into the first free slot. */
static void place(struct map *m, const struct map_entry *entry)
{
        size_t i = entry->hash & (m->size - 1);
        while (m->entries[i].value)
                i = (i + 1) & (m->size - 1);

        if (m->entries[i].hash == SLOT_TOMB)
                m->tombs--;
        m->entries[i] = *entry;
        m->used++;
}

/* Doubles the table, unless most of it is tombstones: then the same size is enough. */
static void rehash(struct map *m)
{
        struct map old = *m;
        size_t bytes;

        if (old.size == 0)
                m->size = FIRST_SLOTS;
        else if (old.used >= old.size / 2)
                must(!ckd_mul(&m->size, old.size, (size_t)2));
        must(!ckd_mul(&bytes, m->size, sizeof(struct map_entry)));

        m->entries = mem_zalloc(bytes);
        m->used = m->tombs = 0;
        for (size_t i = 0; i < old.size; i++)
                if (old.entries[i].value)
                        place(m, &old.entries[i]);
        free(old.entries);
}

void *map_find(const struct map *m, struct slice key)
{
        struct map_entry *e = find_slot(m, key);
        return e ? e->value : NULL;
}

void map_put(struct map *m, struct slice key, void *value)
{
        must(value);
        must(!find_slot(m, key));

        if (m->used + m->tombs >= m->size / 4 * 3)
                rehash(m);
        place(m, &(struct map_entry){ .key = key, .hash = map_hash(m->key, key), .value = value });
}

void *map_remove(struct map *m, struct slice key)
{
        struct map_entry *e = find_slot(m, key);
        if (!e)
                return NULL;

        void *value = e->value;
        *e = (struct map_entry){ .hash = SLOT_TOMB };
        m->used--;
        m->tombs++;

        /* Tombstones before an empty slot are not needed: no search has to go past them. */
        size_t mask = m->size - 1, i = (size_t)(e - m->entries);
        const struct map_entry *next = &m->entries[(i + 1) & mask];
        if (!next->value && next->hash == SLOT_EMPTY) {
                for (; !m->entries[i].value && m->entries[i].hash == SLOT_TOMB; i = (i - 1) & mask) {
                        m->entries[i].hash = SLOT_EMPTY;
                        m->tombs--;
                }
        }
        return value;
}

void *map_next(const struct map *m, size_t *pos)
{
        while (*pos < m->size) {
                void *value = m->entries[(*pos)++].value;
                if (value)
                        return value;
        }
        return NULL;
}
