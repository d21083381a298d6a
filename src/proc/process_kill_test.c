/* process_kill_test: starts that fail, and kills in every state of a process. */
#include "proc/process_rig.h"

TEST(a_program_that_does_not_exist_fails_and_is_gone)
{
        struct rig rig;
        struct seen seen;
        struct err err = ERR_INIT;
        const char *const argv[] = { "/nonexistent/program", NULL };
        rig_open(&rig);
        ok(start_argv(&rig, &seen, STDIN_PIPE, argv, argv, "/", &err));
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "FG");
        eq_str(seen.step, "exec");
        eq_int(seen.os_errno, ENOENT);
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_directory_that_does_not_exist_fails_and_is_gone)
{
        struct rig rig;
        struct seen seen;
        struct err err = ERR_INIT;
        const char *const argv[] = { "/bin/true", NULL };
        rig_open(&rig);
        ok(start_argv(&rig, &seen, TERMINAL, argv, argv, "/nonexistent", &err));
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "FG");
        eq_str(seen.step, "cwd");
        eq_int(seen.os_errno, ENOENT);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_request_that_is_too_large_begins_nothing)
{
        struct rig rig;
        struct seen seen;
        struct err err = ERR_INIT;
        rig_open(&rig);
        _free_ char *large = mem_alloc(SPAWN_REQUEST_MAX + 1);
        memset(large, 'x', SPAWN_REQUEST_MAX);
        large[SPAWN_REQUEST_MAX] = 0;
        const char *const argv[] = { "true", large, NULL }, *const candidates[] = { "/bin/true", NULL };

        ok(!start_argv(&rig, &seen, STDIN_PIPE, argv, candidates, "/", &err));
        eq_int(err.code, -E2BIG);
        eq_int(err.os_errno, E2BIG);
        eq_int(rig.procs.used, 0);
        eq_str(strchr(seen.trace, 'F') ? "F" : "", "");
        rig_close(&rig);
}

TEST(a_small_write_is_taken_however_much_waits_for_other_processes)
{
        static char large[LIMIT_STDIN_FREE_BYTES + 1];
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO; exec cat");
        wait_for(&rig, has(&seen, 'S'));
        rig.procs.stdin_total = LIMIT_STDIN_TOTAL_BYTES;
        eq_int(write_to(seen.p, slice_from(large, sizeof(large))), -ENOBUFS);
        memset(large, 'x', sizeof(large));
        eq_int(write_to(seen.p, slice_from(large, LIMIT_STDIN_FREE_BYTES)), 0);
        eq_int(write_to(seen.p, S("y\n")), 0); /* the pipe takes it, so nothing is queued */
        size_t queued = seen.p->stdin_queued;
        ok(queued > 0);
        eq_int(write_to(seen.p, S("z\n")), -ENOBUFS);
        eq_u64(rig.procs.stdin_total, LIMIT_STDIN_TOTAL_BYTES + queued);
        let_go_on(&rig);
        wait_for(&rig, seen.p->stdin_queued == 0);
        eq_u64(rig.procs.stdin_total, LIMIT_STDIN_TOTAL_BYTES);
        rig.procs.stdin_total = 0;
        eq_int(process_close_stdin(seen.p), STDIN_NOW_CLOSED);
        wait_for(&rig, has(&seen, 'C'));
        eq_u64(seen.out.n, LIMIT_STDIN_FREE_BYTES + 2);
        finish(&rig, &seen);
        rig_close(&rig);
}

/* --- kill --------------------------------------------------------------------------------------------------------- */

TEST(a_kill_while_starting_ends_the_start)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO & read x <$GO");
        process_kill(seen.p);
        process_kill(seen.p); /* the second call does nothing */

        eq_str(seen.trace, "m");
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        wait_for(&rig, has(&seen, 'G'));
        /* The command may have begun to run before the kill arrived. */
        ok(strcmp(seen.trace, "mFG") == 0 || strcmp(seen.trace, "mSXCG") == 0);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_kill_while_running_ends_the_whole_tree)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "setsid sh -c 'echo $$; read x <$GO' & read x <$GO");
        wait_for(&rig, has(&seen, 'o'));
        eq_str(seen.trace, "So");
        process_kill(seen.p);
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SomXCG");
        eq_int(seen.p->exit_code, 128 + SIGKILL);
        eq_int(seen.p->exit_signal, SIGKILL);
        ok(buf_append_char(&seen.out, 0) == 0);
        eq_int(kill((pid_t)strtol(seen.out.p, NULL, 10), 0),
               -1); /* a process in a session of its own is dead, too */
        eq_int(errno, ESRCH);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_kill_while_drained_exits_and_closes)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "exec >&- 2>&-; read x <$GO");
        wait_for(&rig, seen.p->state == PROC_DRAINED);
        process_kill(seen.p);
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SXCG");
        eq_int(seen.p->exit_signal, SIGKILL);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_kill_after_the_exit_leaves_holders_alone_and_kill_rest_does_not)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "(read x <$GO; echo alive; read x <$GO) & exit 0");
        wait_for(&rig, has(&seen, 'X'));
        eq_int(seen.p->state, PROC_EXITED);
        process_kill(seen.p);
        eq_int(seen.p->state, PROC_EXITED);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'o')); /* the process that the command left is alive */

        process_kill_rest(seen.p);
        wait_for(&rig, has(&seen, 'C') && has(&seen, 'G'));
        eq_int(seen.p->exit_code, 0);
        process_kill_rest(seen.p); /* no process is left: nothing happens */
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_kill_after_the_close_leaves_the_rest_alone_and_kill_rest_does_not)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "(exec >/dev/null 2>&1; read x <$GO) & exit 0");
        wait_for(&rig, has(&seen, 'C'));
        eq_str(seen.trace, "SXC");
        process_kill(seen.p);
        turn(&rig);
        ok(!seen.p->is_gone);

        process_kill_rest(seen.p);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_killed_process_does_not_wait_for_holders_outside_of_its_tree)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo $$; read x <$GO");
        wait_for(&rig, has(&seen, 'o'));
        char path[64];
        ok(buf_append_char(&seen.out, 0) == 0);
        snprintf(path, sizeof(path), "/proc/%ld/fd/1", strtol(seen.out.p, NULL, 10));
        _close_ int holder = open(path, O_WRONLY | O_CLOEXEC);
        ok(holder >= 0);

        process_kill(seen.p);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SoXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}
