/* peer_test: tests how process numbers are counted in /proc/PID/status, and which refusals an option would change. */
#include "conn/peer.h"

#include "unit.h"

/* The kernel shows a line feed in a process name as the two characters \n, so a name cannot look like a line. */
TEST(numbers_of_a_process_are_counted)
{
        eq_u64(peer_count_pids(S("Name:\tsh\nNSpid:\t12\nNSpgid:\t12\t1\n")), 1);
        eq_u64(peer_count_pids(S("Name:\tsh\nNSpid:\t12\t1\nNSpgid:\t12\t1\n")), 2);
        eq_u64(peer_count_pids(S("NSpid:\t4000\t31\t2")), 3);
        eq_u64(peer_count_pids(S("NSpid:\n")), 0);
        eq_u64(peer_count_pids(S("Name:\tNSpid:\nPid:\t1\n")), 0);
        eq_u64(peer_count_pids(S("Name:\tx\\nNSpid:\t1\nNStgid:\t12\t1\n")), 0);
        eq_u64(peer_count_pids(S("")), 0);
}

TEST(the_option_is_named_only_for_refusals_that_it_changes)
{
        ok(peer_is_allowable(PEER_OTHER_PID_SPACE) && peer_is_allowable(PEER_OTHER_USER_SPACE) &&
           peer_is_allowable(PEER_UNSEEN));
        ok(!peer_is_allowable(PEER_SANDBOXED) && !peer_is_allowable(PEER_GONE) &&
           !peer_is_allowable(PEER_OTHER_USER) && !peer_is_allowable(PEER_UNKNOWN));
}
