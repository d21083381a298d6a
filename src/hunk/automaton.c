/* automaton: the search for many sequences at once, by a trie whose edges are all in one hash table. */
#include "hunk/automaton.h"

#include "base/fatal.h"
#include "base/random.h"

#define NO_NODE UINT32_MAX

struct automaton_edge {
        uint32_t from, number; /* number 0: the slot is empty */
        uint32_t to;
};

void automaton_init(struct automaton *m, struct arena *a, size_t max)
{
        *m = (struct automaton){ .count = 1, .room = (uint32_t)max + 1, .edge_slots = 16 };
        random_bytes(&m->key, sizeof(m->key));
        m->fail = arena_zalloc(a, m->room * sizeof(*m->fail));
        while (m->edge_slots < 2 * (size_t)m->room)
                m->edge_slots *= 2;
        m->edges = arena_zalloc(a, m->edge_slots * sizeof(*m->edges));
}

static struct automaton_edge *slot_of(const struct automaton *m, uint32_t from, uint32_t number)
{
        uint64_t key = ((uint64_t)from << 32 | number) ^ m->key;

        key *= 0x9e3779b97f4a7c15;
        key = (key ^ key >> 32) * 0xd6e8feb86659fd93;
        for (size_t i = key >> 20;; i++) {
                struct automaton_edge *e = &m->edges[i & (m->edge_slots - 1)];
                if (!e->number || (e->from == from && e->number == number))
                        return e;
        }
}

static uint32_t child(const struct automaton *m, uint32_t node, uint32_t number)
{
        const struct automaton_edge *e = slot_of(m, node, number);

        return e->number ? e->to : NO_NODE;
}

uint32_t automaton_step(const struct automaton *m, uint32_t state, uint32_t number)
{
        if (!number)
                return 0;
        for (uint32_t to;; state = m->fail[state]) {
                to = child(m, state, number);
                if (to != NO_NODE)
                        return to;
                if (!state)
                        return 0;
        }
}

uint32_t automaton_extend(struct automaton *m, uint32_t node, uint32_t number)
{
        struct automaton_edge *e = slot_of(m, node, number);

        if (e->number)
                return e->to;
        must(m->count < m->room);
        uint32_t to = m->count++;
        m->fail[to] = node ? automaton_step(m, m->fail[node], number) : 0;
        *e = (struct automaton_edge){ node, number, to };
        return to;
}
