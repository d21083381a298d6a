/* spawn_deaths_test: which ends of spawners are counted, and what clients and the log are told of them. */
#include "proc/spawn_deaths.h"

#include "base/limits.h"
#include "base/log.h"
#include "keeper/spawn_msg.h"
#include "unit.h"

#include <errno.h>
#include <signal.h>

#define EXITED_1 (1 << 8) /* a status as wait gives it */

TEST(a_spawner_that_was_killed_is_not_counted)
{
        struct spawn_deaths d = { 0 };
        struct err err = ERR_INIT;
        log_set_level(LOG_OFF);
        spawn_deaths_lost(&d, 5, 10);
        spawn_deaths_ended(&d, SIGKILL);
        eq_u64(d.count, 0);
        ok(!spawn_deaths_explain(&d, &err));
}

TEST(a_spawner_that_has_lived_is_not_counted_and_clears_those_before)
{
        struct spawn_deaths d = { 0 };
        spawn_deaths_lost(&d, 5, 10);
        spawn_deaths_ended(&d, EXITED_1);
        eq_u64(d.count, 1);
        spawn_deaths_lost(&d, 6, LIMIT_SPAWNER_LIVED_MS);
        spawn_deaths_ended(&d, EXITED_1);
        eq_u64(d.count, 0);
}

TEST(a_call_that_is_refused_is_counted_once_and_told)
{
        struct spawn_deaths d = { 0 };
        struct err err = ERR_INIT;
        spawn_deaths_unable(&d, "signalfd", EPERM);
        spawn_deaths_lost(&d, 5, 10);
        spawn_deaths_ended(&d, EXITED_1);
        eq_u64(d.count, 1);
        ok(spawn_deaths_explain(&d, &err));
        eq_str(err.text, "no command can be started: signalfd: Operation not permitted (os error 1)");
        eq_str(err.step, "spawner");
        eq_int(err.os_errno, EPERM);
}

TEST(the_wait_doubles_up_to_its_limit)
{
        struct spawn_deaths d = { 0 };
        uint64_t last = 0;
        for (int i = 0; i < 100; i++) {
                spawn_deaths_lost(&d, 5, 10);
                spawn_deaths_ended(&d, SIGSYS);
                uint64_t wait_ms = spawn_deaths_wait_ms(&d);
                ok(wait_ms >= last && wait_ms <= LIMIT_SPAWNER_RETRY_LAST_MS);
                eq_u64(wait_ms, i == 0 ? LIMIT_SPAWNER_RETRY_MS : MIN(2 * last, LIMIT_SPAWNER_RETRY_LAST_MS));
                last = wait_ms;
        }
}

TEST(a_reason_that_comes_after_the_end_is_counted_once_and_told)
{
        struct spawn_deaths d = { 0 };
        struct err err = ERR_INIT;
        spawn_deaths_lost(&d, 5, 10);
        spawn_deaths_ended(&d, SPAWN_EXIT_UNABLE << 8);
        ok(d.count == 1 && !d.is_logged);
        spawn_deaths_unable(&d, "getrlimit", EPERM);
        ok(d.count == 1 && d.is_logged);
        ok(spawn_deaths_explain(&d, &err));
        eq_str(err.text, "no command can be started: getrlimit: Operation not permitted (os error 1)");
        spawn_deaths_lost(&d, 6, 10);
        spawn_deaths_ended(&d, SIGKILL);
        eq_u64(d.count, 1);
}
