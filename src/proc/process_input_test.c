/* process_input_test: terminals and stdin: what is written arrives in order, waits, or is refused. */
#include "proc/process_rig.h"

TEST(a_terminal_carries_both_directions)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, TERMINAL,
              "stty -echo; test -t 0 && test -t 2 && echo yes; read x; echo got $x >&2");
        wait_for(&rig, has(&seen, 'o'));
        eq_int(write_to(seen.p, S("hello\n")), 0);
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SomXCG");
        eq_slice(buf_slice(&seen.out), S("yes\r\ngot hello\r\n"));
        eq_u64(seen.err.n, 0);
        eq_int(seen.p->exit_code, 0);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_terminal_closes_with_the_exit_of_its_root_whoever_still_holds_it)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, TERMINAL, "trap '' HUP; (read x <$GO; read x <$GO) & echo hi; exit 3");
        wait_for(&rig, has(&seen, 'C'));

        eq_str(seen.trace, "SomXC");
        eq_slice(buf_slice(&seen.out), S("hi\r\n"));
        eq_int(seen.p->exit_code, 3);
        ok(!seen.p->is_gone);
        process_kill_rest(seen.p);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SomXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_terminal_whose_input_nobody_reads_holds_writes_back_until_somebody_does)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        /* Bytes that a raw terminal does not take are queued, and its output is still read. */
        start(&rig, &seen, TERMINAL,
              "stty raw -echo; echo ready; read x <$GO; head -c 100000 | wc -c; read x <$GO");
        wait_for(&rig, has(&seen, 'o'));
        _free_ char *bytes = mem_zalloc(100000);
        memset(bytes, 'x', 100000);
        eq_int(write_to(seen.p, slice_from(bytes, 100000)), 0);
        ok(seen.p->stdin_queued > 0);
        turn(&rig);

        let_go_on(&rig);
        wait_for(&rig, seen.out.n >= strlen("ready\n100000\n"));
        eq_slice(buf_slice(&seen.out), S("ready\n100000\n"));
        eq_u64(seen.p->stdin_queued, 0);
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_full_stdin_refuses_the_next_write_and_tells_when_there_is_room)
{
        struct rig rig;
        struct seen seen;
        size_t first = LIMIT_STDIN_BYTES + MIB; /* a single write may exceed the limit */
        rig_open(&rig);
        _free_ char *bytes = mem_zalloc(first);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO; head -c 9437189 | wc -c");
        wait_for(&rig, has(&seen, 'S'));

        eq_int(write_to(seen.p, slice_from(bytes, first)), 0);
        eq_int(write_to(seen.p, S("later")), -EAGAIN);
        eq_int(write_to(seen.p, S("")), -EAGAIN); /* an empty write keeps its place in the order, too */
        turn(&rig);
        eq_str(seen.trace, "S");

        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'm'));
        ok(seen.p->stdin_queued < LIMIT_STDIN_BYTES);
        eq_int(write_to(seen.p, S("later")), 0);
        wait_for(&rig, has(&seen, 'G'));
        eq_slice(buf_slice(&seen.out), S("9437189\n")); /* no byte is lost or comes twice */
        eq_str(seen.trace, "SmomXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(bytes_arrive_in_order_also_when_they_had_to_wait)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO; head -c 700000 | tr -d x");
        wait_for(&rig, has(&seen, 'S'));
        _free_ char *bytes = mem_zalloc(70000);
        memset(bytes, 'x', 70000);
        for (char c = '0'; c <= '9'; c++) {
                bytes[69999] = c;
                eq_int(write_to(seen.p, slice_from(bytes, 70000)), 0);
        }
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_slice(buf_slice(&seen.out), S("0123456789"));
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(without_a_pipe_or_terminal_stdin_is_closed_from_the_start)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "cat; echo end"); /* the stdin of the command is empty */
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SoXCG");
        eq_slice(buf_slice(&seen.out), S("end\n"));
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_write_that_finds_no_reader_closes_stdin_for_good)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "exec <$GO; echo ready; read x");
        wait_for(&rig, has(&seen, 'o'));
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        eq_int(seen.p->stdin_fd, -1);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_int(seen.p->exit_code, 0); /* the process itself was not ended */
        finish(&rig, &seen);
        rig_close(&rig);
}

/* stdin_moved must not be called from inside process_write_kept, because the owner may be writing a queue. */
TEST(a_write_that_finds_no_reader_tells_so_by_its_answer_only)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "exec <$GO; echo ready; read x");
        wait_for(&rig, has(&seen, 'o'));
        seen.is_inside = true;
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        seen.is_inside = false;
        bool was_told_inside = seen.was_told_inside;
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
        ok(!was_told_inside);
}

TEST(a_reader_that_goes_while_bytes_wait_is_told_once)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        _free_ char *bytes = mem_zalloc(LIMIT_STDIN_BYTES);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO; exec <$GO; read x");
        wait_for(&rig, has(&seen, 'S'));
        eq_int(write_to(seen.p, slice_from(bytes, LIMIT_STDIN_BYTES)), 0);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'm'));

        ok(!seen.p->is_stdin_open);
        eq_u64(seen.p->stdin_queued, 0);
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        eq_str(seen.trace, "Sm");
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SmXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}
