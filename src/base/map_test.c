/* map_test: the hash function and the table, compared with a naive model. */
#include "base/map.h"

#include "unit.h"

TEST(hash_is_siphash_1_3)
{
        /* The expected values are those of another implementation, with a key of zeros. */
        static const uint64_t key[2] = { 0, 0 };

        eq_u64(map_hash(key, S("a")), 0x407448d2b89b1813u);
        eq_u64(map_hash(key, S("abc")), 0xc03bc3a0042630f2u);
        eq_u64(map_hash(key, S("abcdefgh")), 0x3f7b849c0b8e35eau);
        eq_u64(map_hash(key, S("process-0123456789-abcdef")), 0xb1373b3840af2056u);
}

TEST(hash_depends_on_its_key)
{
        const uint64_t a[2] = { 1, 2 }, b[2] = { 1, 3 };
        ok(map_hash(a, S("same")) == map_hash(a, S("same")));
        ok(map_hash(a, S("same")) != map_hash(b, S("same")));
}

TEST(empty_map_finds_nothing)
{
        struct map m;
        size_t pos = 0;

        map_init(&m);
        ok(map_find(&m, S("a")) == NULL);
        ok(map_remove(&m, S("a")) == NULL);
        ok(map_next(&m, &pos) == NULL);
        eq_u64(map_count(&m), 0);
        ok(m.entries == NULL);
        map_release(&m);
}

TEST(keys_are_bytes_and_may_be_empty)
{
        struct map m;
        int a = 0, b = 0, c = 0;

        map_init(&m);
        map_put(&m, S("k\0a"), &a);
        map_put(&m, S("k\0b"), &b);
        map_put(&m, (struct slice){ 0 }, &c);
        ok(map_find(&m, S("k\0a")) == &a);
        ok(map_find(&m, S("k\0b")) == &b);
        ok(map_find(&m, S("")) == &c);
        ok(map_find(&m, S("k")) == NULL);
        map_release(&m);
        eq_u64(map_count(&m), 0);
}

TEST(steady_turnover_does_not_grow_the_table)
{
        struct map m;
        char keys[8][16];
        int value = 0;

        map_init(&m);
        for (size_t i = 0; i < 100000; i++) {
                char *key = keys[i % 8];
                if (i >= 8)
                        ok(map_remove(&m, slice_from_str(key)) == &value);
                snprintf(key, sizeof(keys[0]), "key %zu", i);
                map_put(&m, slice_from_str(key), &value);
        }
        eq_u64(map_count(&m), 8);
        ok(m.size <= 32);
        map_release(&m);
}

TEST(current_entry_may_be_removed_while_walking)
{
        struct map m;
        char keys[100][16];
        size_t pos = 0, seen = 0;
        char *key;

        map_init(&m);
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
                snprintf(keys[i], sizeof(keys[i]), "%zu", i);
                map_put(&m, slice_from_str(keys[i]), keys[i]);
        }
        while ((key = map_next(&m, &pos))) {
                ok(map_remove(&m, slice_from_str(key)) == key);
                seen++;
        }
        eq_u64(seen, 100);
        eq_u64(map_count(&m), 0);
        map_release(&m);
}

/* Pseudo-random numbers from a fixed seed, so that a failure can be repeated. */
static uint32_t next_number(uint64_t *state)
{
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(*state >> 33);
}

enum { MODEL_KEYS = 300 };

static void check_against_model(const struct map *m, char keys[][16], const bool *present)
{
        size_t count = 0, walked = 0, pos = 0;

        for (size_t i = 0; i < MODEL_KEYS; i++) {
                ok(map_find(m, slice_from_str(keys[i])) == (present[i] ? keys[i] : NULL));
                count += present[i];
        }
        eq_u64(map_count(m), count);
        while (map_next(m, &pos))
                walked++;
        eq_u64(walked, count);
        ok((m->used + m->tombs) * 4 <= m->size * 3);
        eq_u64(m->size & (m->size - 1), 0);
}

TEST(random_operations_agree_with_a_naive_model)
{
        char keys[MODEL_KEYS][16];
        bool present[MODEL_KEYS] = { 0 };
        struct map m;
        uint64_t seed = 7;

        for (size_t i = 0; i < MODEL_KEYS; i++)
                snprintf(keys[i], sizeof(keys[i]), "%zu-%zx", i % 17, i);

        map_init(&m);
        for (size_t step = 0; step < 20000; step++) {
                /* The share of additions swings, so that the map grows full and empties again. */
                bool adding = next_number(&seed) % 100 < (step / 2000 % 2 ? 20u : 80u);
                size_t i = next_number(&seed) % MODEL_KEYS;

                if (adding && !present[i]) {
                        map_put(&m, slice_from_str(keys[i]), keys[i]);
                        present[i] = true;
                } else if (!adding) {
                        ok(map_remove(&m, slice_from_str(keys[i])) == (present[i] ? keys[i] : NULL));
                        present[i] = false;
                }
                if (step % 50 == 0)
                        check_against_model(&m, keys, present);
        }
        check_against_model(&m, keys, present);
        map_release(&m);
}
