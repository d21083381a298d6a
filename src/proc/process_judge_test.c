/* process_judge_test: an owner that judges a failure by the output is told late, and not too late. */
#include "proc/process_rig.h"

TEST(a_failure_waits_for_one_more_piece_of_output)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = GUARD_MS;
        start(&rig, &seen, PIPES, "(read x <$GO; echo late; read x <$GO) & exit 4");
        wait_for(&rig, seen.p->settle);

        eq_str(seen.trace, "S");
        ok(!process_has_exited(seen.p));
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'X'));
        eq_str(seen.trace, "SoX");
        eq_int(seen.state_at_exit, PROC_EXITED);
        eq_int(seen.p->exit_code, 4);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'C') && has(&seen, 'G'));
        eq_str(without_gone(&seen), "SoXC");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_failure_waits_no_longer_than_it_was_told)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = 5;
        start(&rig, &seen, PIPES, "read x <$GO & exit 4");
        wait_for(&rig, has(&seen, 'X'));

        eq_str(seen.trace, "SX");
        ok(!seen.p->settle);
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_failure_whose_output_ends_meanwhile_is_told_at_once)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = GUARD_MS;
        start(&rig, &seen, PIPES, "(read x <$GO; exec >&- 2>&-; read x <$GO) & exit 4");
        wait_for(&rig, seen.p->settle);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'C'));

        eq_str(seen.trace, "SXC");
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(what_is_judged_does_not_wait_where_nothing_can_come)
{
        static const struct {
                enum kind kind;
                const char *script, *trace;
        } rows[] = {
                { PIPES, "read x <$GO & exit 0", "SX" },
                { PIPES, "(exec >/dev/null 2>&1; read x <$GO) & exit 4", "SXC" },
                { TERMINAL, "trap '' HUP; read x <$GO & exit 4", "SmXC" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct rig rig;
                struct seen seen;
                rig_open(&rig);
                rig.settle_ms = GUARD_MS;
                start(&rig, &seen, rows[i].kind, rows[i].script);
                wait_for(&rig, has(&seen, 'X')); /* before its child can go on */
                ok(!seen.p->settle);
                eq_str(without_gone(&seen), rows[i].trace);
                process_kill_rest(seen.p);
                finish(&rig, &seen);
                rig_close(&rig);
        }
}

TEST(a_kill_ends_the_wait_of_a_failure)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = GUARD_MS;
        start(&rig, &seen, PIPES, "read x <$GO & exit 4");
        wait_for(&rig, seen.p->settle);
        process_kill(seen.p);
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SXCG");
        eq_int(seen.p->exit_code, 4);
        ok(!seen.p->has_failed);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(output_of_a_failure_is_read_before_it_is_told_also_while_paused)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = GUARD_MS;
        start(&rig, &seen, PIPES, "read x <$GO; echo why >&2; read x <$GO & exit 4");
        wait_for(&rig, has(&seen, 'S'));
        process_pause(seen.p, true);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'X'));

        eq_str(seen.trace, "SoX");
        eq_slice(buf_slice(&seen.err), S("why\n"));
        process_pause(seen.p, false);
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(gone_is_the_last_event_also_when_it_is_known_first)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "read x <$GO & exit 0");
        wait_for(&rig, has(&seen, 'X'));
        eq_int(seen.p->state, PROC_EXITED);

        process_kill_rest(seen.p);
        struct pollfd spawner = { .fd = spawn_fd(rig.procs.spawner), .events = POLLIN };
        while (!seen.p->is_gone && poll(&spawner, 1, GUARD_MS) > 0)
                spawn_on_ready(
                        rig.procs.spawner); /* the loop does not run, so it does not read the streams */
        wait_for(&rig, has(&seen, 'C'));
        finish(&rig, &seen);
        rig_close(&rig);
        eq_str(seen.trace, "SXCG");
}
