/* process_test: the usual life of a process: output, exit and the end of the output in either order, signals, many at once. The other
 * cells of its state table are in process_*_test.c. */
#include "proc/process_rig.h"

TEST(a_command_that_just_ends_tells_everything_in_order)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo out; echo err >&2; exit 3");
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SoXCG");
        eq_slice(buf_slice(&seen.out), S("out\n"));
        eq_slice(buf_slice(&seen.err), S("err\n"));
        eq_int(seen.p->exit_code, 3);
        eq_int(seen.p->exit_signal, 0);
        eq_int(seen.p->state, PROC_CLOSED);
        eq_u64(seen.last_seq + 1, seen.p->next_seq);
        finish(&rig, &seen);
        rig_close(&rig);
}

/* The flags are checked before the loop has run: they must be right from the beginning. */
TEST(our_ends_of_the_streams_never_block_and_the_childs_do)
{
        static const enum kind kinds[] = { PIPES, STDIN_PIPE, TERMINAL };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                struct rig rig;
                struct seen seen;
                rig_open(&rig);
                start(&rig, &seen, kinds[i], "exec grep -h ^flags /proc/self/fdinfo/[012]");
                const int fds[] = { seen.p->out[0].fd, seen.p->out[1].fd, seen.p->stdin_fd };
                for (size_t k = 0; k < ARRAY_LEN(fds); k++)
                        ok(fds[k] < 0 || (fcntl(fds[k], F_GETFL) & O_NONBLOCK));
                ok(fds[0] >= 0);
                wait_for(&rig, has(&seen, 'C'));
                must(buf_append_char(&seen.out, 0) == 0);
                char *flags = seen.out.p;
                for (int k = 0; k < 3; k++) {
                        flags = strstr(flags, "flags:");
                        ok(flags);
                        ok(!(strtoul(flags += strlen("flags:"), NULL, 8) & O_NONBLOCK));
                }
                finish(&rig, &seen);
                rig_close(&rig);
        }
}

TEST(an_exit_with_a_holder_of_the_output_is_closed_when_the_holder_ends)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo one; (read x <$GO; echo two) & exit 4");
        wait_for(&rig, has(&seen, 'X'));

        eq_str(seen.trace, "SoX");
        eq_int(seen.state_at_exit, PROC_EXITED);
        eq_slice(buf_slice(&seen.out), S("one\n"));
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'C'));
        eq_slice(buf_slice(&seen.out), S("one\ntwo\n"));
        wait_for(&rig, has(&seen, 'G'));
        eq_str(without_gone(&seen), "SoXoC");
        eq_int(seen.p->exit_code, 4);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(output_that_ends_before_the_exit_drains_and_then_closes_with_the_exit)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo one; exec >&- 2>&-; read x <$GO; exit 5");
        wait_for(&rig, seen.p->state == PROC_DRAINED);

        eq_str(seen.trace, "So");
        ok(!process_has_exited(seen.p));
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SoXCG");
        eq_int(seen.p->exit_code, 5);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(one_stream_may_end_long_before_the_other)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "exec >&-; read x <$GO; echo late >&2");
        wait_for(&rig, has(&seen, 'S') && seen.p->out[0].fd < 0);

        eq_int(seen.p->state, PROC_RUNNING);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SoXCG");
        eq_slice(buf_slice(&seen.err), S("late\n"));
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_death_by_signal_is_told_as_such)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "kill -USR2 $$");
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SXCG");
        eq_int(seen.p->exit_code, 128 + SIGUSR2);
        eq_int(seen.p->exit_signal, SIGUSR2);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(what_the_root_wrote_precedes_its_exit_however_much_it_was)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "head -c 3000000 /dev/zero; echo end >&2");
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SoXCG");
        eq_u64(seen.out.n, 3000000);
        ok(seen.largest_chunk <= CHUNK_BYTES);
        ok(seen.p->output.bytes <= RETAINED_BYTES);
        eq_u64(seen.p->output.bytes + seen.p->output.dropped_bytes, 3000004);
        const struct output *o = &seen.p->output;
        uint64_t heads = o->streams[STREAM_STDOUT].head_len + o->streams[STREAM_STDERR].head_len;
        eq_u64(rig.procs.retained_total, o->bytes + o->count * sizeof(struct chunk) + heads);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(signals_are_answered_one_by_one)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "trap '' USR1; echo ready; read x <$GO");
        wait_for(&rig, has(&seen, 'o'));
        process_signal(seen.p, SIGUSR1, SPAWN_GROUP);
        process_signal(seen.p, SIGUSR1, SPAWN_PROCESS);
        eq_str(seen.trace, "So");
        wait_for(&rig, strcmp(seen.trace, "Soss") == 0);
        eq_int(seen.signal_errno, 0);
        process_signal(seen.p, SIGINT, SPAWN_TREE);
        wait_for(&rig, has(&seen, 'G'));
        eq_int(seen.p->exit_signal, SIGINT);
        eq_int(seen.p->exit_code, 128 + SIGINT);
        ok(strcmp(seen.trace, "SosssXCG") == 0 || strcmp(seen.trace, "SossXsCG") == 0 ||
           strcmp(seen.trace, "SossXCsG") == 0);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(many_processes_at_once_keep_their_events_apart)
{
        enum { COUNT = 70 }; /* more than the first table holds */
        static struct seen seen[COUNT];
        struct rig rig;
        char script[64];
        rig_open(&rig);
        for (int i = 0; i < COUNT; i++) {
                snprintf(script, sizeof(script), "echo %d; exit %d", i, i);
                start(&rig, &seen[i], PIPES, script);
        }
        eq_int(rig.procs.used, COUNT);
        for (int i = 0; i < COUNT; i++)
                wait_for(&rig, has(&seen[i], 'G'));
        eq_int(rig.procs.used, 0);
        for (int i = 0; i < COUNT; i++) {
                snprintf(script, sizeof(script), "%d\n", i);
                eq_slice(buf_slice(&seen[i].out), slice_from_str(script));
                eq_int(seen[i].p->exit_code, i);
                eq_str(without_gone(&seen[i]), "SoXC");
                finish(&rig, &seen[i]);
        }
        rig_close(&rig);
}
