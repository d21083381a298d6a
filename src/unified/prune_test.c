/* prune_test: which session gives way. */
#include "unified/prune.h"

#include "unit.h"

#define COUNT 12

/* Chooses among sessions that were used in the order of the letters: 'l' is live, 'e' has exited, and a capital is used by a call. */
static size_t choose(const char *sessions)
{
        struct prune_candidate list[64];
        size_t n = strlen(sessions);
        for (size_t i = 0; i < n; i++)
                list[i] = (struct prune_candidate){
                        .used = 100 + i,
                        .has_exited = sessions[i] == 'e' || sessions[i] == 'E',
                        .is_locked = sessions[i] == 'L' || sessions[i] == 'E',
                };
        return prune_choose(list, n);
}

TEST(the_eight_that_were_used_last_are_protected)
{
        ok(choose("") == PRUNE_NONE);
        ok(choose("eeeeeeee") == PRUNE_NONE);
        eq_u64(choose("leeeeeeee"), 0);
}

TEST(exited_ones_go_before_live_ones)
{
        eq_u64(choose("llelllllllll"), 2);
        eq_u64(choose("lleellllllllll"), 2);
        eq_u64(choose("llllllllllll"), 0);
}

TEST(those_that_calls_use_stay)
{
        eq_u64(choose("Llllllllllll"), 1);
        eq_u64(choose("Elellllllllll"), 2);
        ok(choose("LLLLllllllll") == PRUNE_NONE);
}

TEST(an_exited_session_in_use_does_not_cause_the_end_of_a_live_one)
{
        ok(choose("lEllllllllll") == PRUNE_NONE);
        eq_u64(choose("llllllllElll"), 0); /* the exited session is protected here, and does not count */
}

TEST(the_order_of_the_list_does_not_matter)
{
        struct prune_candidate list[COUNT];
        for (size_t i = 0; i < COUNT; i++)
                list[i] = (struct prune_candidate){ .used = (i * 5) % COUNT };
        eq_u64(list[prune_choose(list, COUNT)].used, 0);
}
