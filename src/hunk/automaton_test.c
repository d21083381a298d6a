/* automaton_test: sequences that are found in one another. */
#include "hunk/automaton.h"

#include "unit.h"

TEST(the_state_is_the_longest_beginning_that_was_just_seen)
{
        _arena_ struct arena a = ARENA_INIT;
        struct automaton m;

        /* The sequences are 1 2 1 3 and 2 1. The nodes of shorter beginnings are made first. */
        automaton_init(&m, &a, 6);
        uint32_t n1 = automaton_extend(&m, 0, 1), n2 = automaton_extend(&m, 0, 2);
        uint32_t n12 = automaton_extend(&m, n1, 2), n21 = automaton_extend(&m, n2, 1);
        uint32_t n121 = automaton_extend(&m, n12, 1);
        uint32_t n1213 = automaton_extend(&m, n121, 3);
        eq_int(automaton_extend(&m, 0, 1), n1);
        eq_int(m.fail[n12], n2);
        eq_int(m.fail[n121], n21);
        eq_int(m.fail[n21], n1);
        eq_int(m.fail[n1213], 0);

        static const uint32_t fed[] = { 1, 2, 1, 2, 1, 3, 9, 2, 1, 0, 1 };
        const uint32_t states[] = { n1, n12, n121, n12, n121, n1213, 0, n2, n21, 0, n1 };
        uint32_t at = 0;
        for (size_t i = 0; i < ARRAY_LEN(fed); i++) {
                at = automaton_step(&m, at, fed[i]);
                eq_int(at, states[i]);
        }
}
