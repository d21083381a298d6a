/* spawn_pace_test: how many starts may overtake one that has not begun, and which starts wait. */
#include "unit.h"

#include "proc/spawn_rig.h"

#include "base/limits.h"

#include <sys/resource.h>

/* Starts a command that hangs, and then as many others as may overtake it. Returns the time of the first start. */
static uint64_t crowd_start(struct rig *rig, const struct rig_lease *lease)
{
        uint64_t before_ms = clock_mono_ms();
        rig_start(rig, 0, lease->path);
        for (uint32_t i = 1; i <= LIMIT_STARTS_AHEAD; i++)
                rig_start(rig, i, "/bin/true");
        return before_ms;
}

TEST(a_start_is_overtaken_by_so_many_and_for_so_long_only)
{
        struct rig_lease lease;
        rig_lease_begin(&lease);
        struct rig rig;
        rig_open(&rig);
        uint64_t before_ms = crowd_start(&rig, &lease);
        uint32_t next = LIMIT_STARTS_AHEAD + 1;
        rig_start(&rig, next, "/bin/true");
        rig_start(&rig, next + 1, "/bin/true");
        rig_wait(&rig, rig.seen[next].has_started && rig.seen[next + 1].has_started);
        ok(clock_mono_ms() - before_ms >= LIMIT_STARTS_AHEAD_MS);
        rig_wait(&rig, rig.gone == next + 1);
        ok(!rig.seen[0].has_started);
        spawn_kill(rig.s, 0);
        rig_wait(&rig, rig.seen[0].has_gone);
        rig_close(&rig);
        rig_lease_end(&lease);
}

TEST(nobody_waits_while_many_starts_hang)
{
        struct rig_lease lease;
        rig_lease_begin(&lease);
        struct rig rig;
        rig_open(&rig);
        uint32_t n = 0;
        for (; n < LIMIT_STARTS_HANGING; n++)
                rig_start(&rig, n, lease.path);
        uint64_t last_ms = clock_mono_ms();
        while (clock_mono_ms() - last_ms < LIMIT_STARTS_AHEAD_MS)
                rig_turn(&rig, 1);
        spawn_on_ready(rig.s); /* from here on it is known that all of them hang */
        for (; n <= 4 * LIMIT_STARTS_AHEAD; n++)
                rig_start(&rig, n, "/bin/true");
        eq_int(spawn_wait_ms(rig.s), -1); /* no start waits */
        rig_wait(&rig, rig.gone == n - LIMIT_STARTS_HANGING);
        for (uint32_t i = 0; i < LIMIT_STARTS_HANGING; i++)
                spawn_kill(rig.s, i);
        rig_wait(&rig, rig.gone == n);
        rig_close(&rig);
        rig_lease_end(&lease);
}

TEST(a_command_that_runs_on_holds_nobody_up)
{
        static const char *const argv[] = { "sleep", "1000", NULL };
        static const char *const candidates[] = { "/bin/sleep", NULL };
        struct rig rig;
        rig_open(&rig);
        for (uint32_t i = 0; i < 4 * LIMIT_STARTS_AHEAD; i++)
                eq_int(rig_start_argv(&rig, i, argv, candidates, "/"), 0);
        for (uint32_t i = 0; i < 4 * LIMIT_STARTS_AHEAD; i++)
                rig_wait(&rig, rig.seen[i].has_started);
        for (uint32_t i = 0; i < 4 * LIMIT_STARTS_AHEAD; i++)
                ok(!rig.seen[i].has_exited);
        rig_close(&rig);
}

TEST(a_start_that_waits_for_its_turn_goes_when_the_one_before_is_over)
{
        struct rig_lease lease;
        rig_lease_begin(&lease);
        struct rig rig;
        rig_open(&rig);
        size_t own = rig_count_fds(getpid());
        for (int round = 0; round < 3; round++) {
                crowd_start(&rig, &lease);
                uint32_t next = LIMIT_STARTS_AHEAD + 1;
                rig_start_sh(&rig, next, "exit 3");
                rig_start(&rig, next + 1, "/bin/true");
                spawn_signal(rig.s, next + 1, SIGCONT, SPAWN_GROUP);
                spawn_kill(rig.s, next + 1); /* cancels a start that waits */
                spawn_kill(rig.s, 0);
                rig_wait(&rig, rig.gone == next + 2);
                eq_int(rig.seen[next].exit.status, 3 << 8);
                ok(rig.seen[next + 1].has_failed && rig.seen[next + 1].os_errno == ECANCELED);
                eq_int(rig.seen[next + 1].signalled, 1);
                eq_u64(rig_count_fds(getpid()), own);
                memset(rig.seen, 0, sizeof(rig.seen));
                rig.gone = 0;
        }
        rig_close(&rig);
        rig_lease_end(&lease);
}

/* A start whose descriptors cannot be duplicated cannot be queued, so it is sent at once. */
TEST(a_start_that_cannot_be_kept_goes_at_once)
{
        struct rig_lease lease;
        rig_lease_begin(&lease);
        struct rig rig;
        rig_open(&rig);
        crowd_start(&rig, &lease);
        struct rlimit before, none;
        eq_int(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
        eq_int(setrlimit(RLIMIT_NOFILE, &none), 0);
        rig_start(&rig, LIMIT_STARTS_AHEAD + 1, "/bin/true");
        eq_int(setrlimit(RLIMIT_NOFILE, &before), 0);
        eq_int(spawn_wait_ms(rig.s), -1); /* no start waits */
        spawn_kill(rig.s, 0);
        rig_wait(&rig, rig.gone == LIMIT_STARTS_AHEAD + 2);
        ok(rig.seen[LIMIT_STARTS_AHEAD + 1].has_started);
        rig_close(&rig);
        rig_lease_end(&lease);
}
