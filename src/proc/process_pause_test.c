/* process_pause_test: a paused process: its output, its exit, its end. */
#include "proc/process_rig.h"

/* Waits, with the loop turning, until a command has written to $TELL. */
static void wait_until_told(struct rig *rig)
{
        char c;
        while (read(rig->tell, &c, 1) != 1)
                loop_turn(&rig->loop, false);
}

TEST(a_pause_holds_output_back_and_the_end_of_the_pause_gives_it)
{
        static const enum kind kinds[] = { PIPES, TERMINAL };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                struct rig rig;
                struct seen seen;
                rig_open(&rig);
                start(&rig, &seen, kinds[i], "echo one; echo >$TELL; read x <$GO; echo two");
                process_pause(seen.p, true); /* while starting */
                wait_for(&rig, has(&seen, 'S'));
                wait_until_told(&rig);
                turn(&rig);
                turn(&rig);
                eq_str(seen.trace, "S");
                process_pause(seen.p, true);
                process_pause(seen.p, false);
                wait_for(&rig, has(&seen, 'o'));
                eq_int(strncmp(seen.out.p, "one", 3), 0);

                process_pause(seen.p, true); /* while running */
                process_pause(seen.p, false);
                let_go_on(&rig);
                wait_for(&rig, has(&seen, 'G'));
                eq_str(seen.trace, kinds[i] == PIPES ? "SoXCG" : "SomXCG");
                finish(&rig, &seen);
                rig_close(&rig);
        }
}

TEST(an_exit_is_told_while_paused_and_the_output_follows_the_pause)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo out; exit 5");
        process_pause(seen.p, true);
        wait_for(&rig, has(&seen, 'X'));

        eq_int(seen.p->exit_code, 5);
        eq_int(seen.p->state, PROC_EXITED);
        wait_for(&rig, seen.p->is_gone);
        ok(!has(&seen, 'o') && !has(&seen, 'C'));
        process_pause(seen.p, false);
        wait_for(&rig, has(&seen, 'C'));
        eq_slice(buf_slice(&seen.out), S("out\n"));
        ok(strchr(seen.trace, 'o') < strchr(seen.trace, 'C'));
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(an_end_of_output_is_noticed_after_the_pause)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "exec >&- 2>&-; echo >$TELL; read x <$GO");
        process_pause(seen.p, true);
        wait_for(&rig, has(&seen, 'S'));
        wait_until_told(&rig);
        turn(&rig);
        eq_int(seen.p->state, PROC_RUNNING);
        process_pause(seen.p, false);
        wait_for(&rig, seen.p->state == PROC_DRAINED);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_paused_process_is_killed_and_closed_all_the_same)
{
        static const enum kind kinds[] = { PIPES, TERMINAL };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                struct rig rig;
                struct seen seen;
                rig_open(&rig);
                start(&rig, &seen, kinds[i], "echo out; echo >$TELL; sleep 1000");
                process_pause(seen.p, true);
                wait_for(&rig, has(&seen, 'S'));
                wait_until_told(&rig);
                process_kill(seen.p);
                wait_for(&rig, has(&seen, 'G'));
                eq_str(seen.trace,
                       kinds[i] == PIPES ? "SoXCG" : "SmoXCG"); /* the output of the command is not lost */
                eq_int(seen.p->exit_signal, SIGKILL);
                finish(&rig, &seen);
                rig_close(&rig);
        }
}
