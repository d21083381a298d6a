/* automaton: finds many sequences of numbers in one long sequence, in one step for each number (Aho and Corasick, 1975).
 *
 * A node stands for the beginning of one or more sequences; node 0 stands for the empty beginning. The state after some numbers is the node
 * of the longest beginning with which these numbers end. A node is made after all shorter ones, so fail[] points to smaller nodes only.
 */
#pragma once

#include "base/arena.h"

struct automaton {
        uint32_t *
                fail; /* for each node: the node of the longest shorter beginning with which its own beginning ends */
        uint32_t count, room;
        struct automaton_edge *edges; /* a hash table: node and number to the next node */
        size_t edge_slots;            /* a power of two */
        uint64_t key;                 /* a secret for the hash: the patch may be hostile */
};

/* Room for `max` nodes beside node 0. */
void automaton_init(struct automaton *m, struct arena *a, size_t max);

/* Returns the node for the beginning of `node` with `number`, which is not 0, behind it; makes that node when there is none. All nodes
 * for beginnings that are not longer than that of `node` must have been made before. */
NODISCARD uint32_t automaton_extend(struct automaton *m, uint32_t node, uint32_t number);

/* Returns the state behind one more number. 0 is no number of any sequence. */
NODISCARD uint32_t automaton_step(const struct automaton *m, uint32_t state, uint32_t number);
