/* spawn_end_test: signals, kill, and which processes die when the server, the spawner, a keeper or a command is killed. */
#include "unit.h"

#include "proc/spawn_rig.h"

#include <sys/mman.h>
#include <sys/stat.h>

#define TEXT_BYTES 4096

static pid_t parent_of(pid_t pid)
{
        char path[64], text[512];
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ok(fd >= 0);
        ssize_t n = read(fd, text, sizeof(text) - 1);
        ok(n > 0);
        close(fd);
        text[n] = 0;
        int parent;
        eq_int(sscanf(strrchr(text, ')'), ") %*c %d", &parent), 1);
        return parent;
}

/* Starts a script as number 1 and waits until it has printed `ready`. */
static void open_and_run(struct rig *rig, const char *script, char text[TEXT_BYTES])
{
        rig_open(rig);
        rig_start_sh(rig, 1, script);
        rig_wait(rig, rig->seen[1].has_started);
        rig_read(rig, text, TEXT_BYTES, "ready\n");
}

/* A process may try to escape: it makes a session of its own, orphans its children, ignores signals, or stops. */
#define ESCAPE                                                                                             \
        "(setsid sleep 1000 &)\n"                                                                          \
        "setsid sh -c 'trap \"\" HUP INT TERM; (setsid sh -c \"sleep 1000; true\" &) ; sleep 1000; true' " \
        "&\n"                                                                                              \
        "sh -c 'kill -STOP $$' &\n"                                                                        \
        "(setsid sh -c 'kill -STOP $$' &)\n"

TEST(kill_ends_descendants_in_their_own_sessions_and_stopped_ones)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig, ESCAPE "echo ready; sleep 1000; true", text);
        rig_output_close(&rig);
        ok(!rig_output_ended(&rig));
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig.seen[1].has_exited);
        eq_int(WTERMSIG(rig.seen[1].exit.status), SIGKILL);
        ok(rig_output_ended(&rig));
        rig_close(&rig);
}

TEST(kill_outruns_a_chain_of_forks)
{
        struct rig rig;
        char text[TEXT_BYTES];
        /* Each process starts the next one in a session of its own, and exits. */
        open_and_run(&rig,
                     "chain='setsid sh -c \"$chain\" & sleep 0.01'; export chain; echo ready; eval "
                     "\"$chain\"; sleep 1000",
                     text);
        rig_output_close(&rig);
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig_output_ended(&rig));
        rig_close(&rig);
}

TEST(what_a_command_leaves_running_stays_until_killed)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig, "(setsid sleep 1000 &); echo ready; exit 3", text);
        rig_output_close(&rig);
        rig_wait(&rig, rig.seen[1].has_exited);
        eq_int(rig.seen[1].exit.status, 3 << 8);

        /* Meanwhile a second command starts and ends. */
        rig.out[1] = rig.null;
        rig_start(&rig, 2, "/bin/true");
        rig.out[1] = -1;
        rig_wait(&rig, rig.seen[2].has_gone);
        ok(!rig.seen[1].has_gone);
        ok(!rig_output_ended(&rig));

        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig_output_ended(&rig));
        rig_close(&rig);
}

TEST(gone_comes_by_itself_when_the_last_descendant_ends)
{
        struct rig rig;
        char text[TEXT_BYTES];
        int hold[2];
        eq_int(pipe2(hold, O_CLOEXEC), 0);
        rig_open(&rig);
        int null = rig.null;
        rig.null = hold[0]; /* the stdin of the next command */
        rig_start_sh(&rig, 1, "exec 3<&0; (setsid sh -c 'read x <&3' &) ; echo ready");
        rig.null = null;
        close(hold[0]);
        rig_read(&rig, text, sizeof(text), "ready\n");
        rig_wait(&rig, rig.seen[1].has_exited);
        ok(!rig.seen[1].has_gone);
        close(hold[1]);
        rig_wait(&rig, rig.seen[1].has_gone);
        rig_close(&rig);
}

TEST(kill_right_after_start_leaves_nothing)
{
        struct rig rig;
        rig_open(&rig);
        for (uint32_t i = 0; i < 100; i++) {
                rig_start_sh(&rig, i, "(setsid sleep 1000 &); sleep 1000");
                spawn_kill(rig.s, i);
                if (i % 10 == 0)
                        rig_turn(&rig, 0);
        }
        rig_output_close(&rig);
        rig_wait(&rig, rig.gone == 100);
        for (uint32_t i = 0; i < 100; i++)
                ok(rig.seen[i].has_failed || rig.seen[i].has_exited);
        ok(rig_output_ended(&rig));
        rig_close(&rig);
}

TEST(kill_of_something_gone_or_never_started_does_nothing)
{
        struct rig rig;
        rig_open(&rig);
        spawn_kill(rig.s, 9);
        rig_start(&rig, 1, "/bin/true");
        rig_wait(&rig, rig.seen[1].has_gone);
        spawn_kill(rig.s, 1);
        spawn_signal(rig.s, 1, SIGTERM, SPAWN_GROUP);
        rig_start(&rig, 2, "/bin/true");
        rig_wait(&rig, rig.seen[2].has_gone);
        eq_int(rig.seen[1].signalled, 0);
        rig_close(&rig);
}

TEST(kill_cancels_a_start_that_hangs_in_execve)
{
        struct rig_lease lease;
        rig_lease_begin(&lease);
        struct rig rig;
        rig_open(&rig);
        rig_start(&rig, 1, lease.path);
        rig_start(&rig, 2, "/bin/true"); /* this start is not delayed */
        rig_wait(&rig, rig.seen[2].has_gone);
        ok(!rig.seen[1].has_started && !rig.seen[1].has_failed);
        uint64_t before = clock_mono_ms();
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(clock_mono_ms() - before < 30000);

        /* The end of the server has the same effect. */
        rig.seen[1] = (struct rig_seen){ 0 };
        rig_start(&rig, 1, lease.path);
        rig_start(&rig, 3, "/bin/true");
        rig_wait(&rig, rig.seen[3].has_gone);
        rig_close(&rig);
        ok(clock_mono_ms() - before < 30000);
        rig_lease_end(&lease);
}

/* ---- signals ---- */

TEST(signals_reach_the_group_and_are_answered_in_order)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig,
                     "trap 'echo usr1' USR1; trap 'echo usr2; exit 5' USR2; sh -c 'trap \"echo child\" USR1; "
                     "echo ready;"
                     " while :; do sleep 0.05; done' & while :; do wait; done",
                     text);
        spawn_signal(rig.s, 1, SIGUSR1, SPAWN_GROUP);
        rig_wait(&rig, rig.seen[1].signalled == 1);
        eq_int(rig.seen[1].signal_errno, 0);
        rig_read(&rig, text, sizeof(text), "child\n");
        spawn_signal(rig.s, 1, 1000, SPAWN_GROUP);
        rig_wait(&rig, rig.seen[1].signalled == 2);
        eq_int(rig.seen[1].signal_errno, EINVAL);
        spawn_signal(rig.s, 1, SIGUSR2, SPAWN_PROCESS);
        rig_wait(&rig, rig.seen[1].has_exited);
        eq_int(rig.seen[1].signalled, 3);
        eq_int(rig.seen[1].exit.status, 5 << 8);
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        rig_close(&rig);
}

TEST(a_tree_signal_reaches_other_sessions)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(
                &rig,
                "(setsid sh -c 'trap \"echo far; exit\" USR1; echo ready; while :; do sleep 0.05; done' &);"
                "trap 'echo near' USR1; while :; do sleep 0.05; done",
                text);
        spawn_signal(rig.s, 1, SIGUSR1, SPAWN_TREE);
        rig_wait(&rig, rig.seen[1].signalled == 1);
        eq_int(rig.seen[1].signal_errno, 0);
        rig_output_close(&rig);
        /* The signal also ends the sleeps of the shells. */
        rig_read(&rig, text, sizeof(text), "far\n");
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        rig_close(&rig);
}

TEST(a_signal_after_the_exit_is_answered_and_sent_to_nobody)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig, "(trap '' HUP; sleep 1000 &); echo ready", text);
        rig_output_close(&rig);
        rig_wait(&rig, rig.seen[1].has_exited);
        spawn_signal(rig.s, 1, SIGKILL, SPAWN_GROUP);
        spawn_signal(rig.s, 1, SIGKILL, SPAWN_PROCESS);
        rig_wait(&rig, rig.seen[1].signalled == 2);
        eq_int(rig.seen[1].signal_errno, 0);
        ok(!rig_output_ended(&rig));
        spawn_signal(rig.s, 1, SIGKILL, SPAWN_TREE);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig_output_ended(&rig));
        eq_int(rig.seen[1].signalled, 3);
        rig_close(&rig);
}

TEST(every_signal_is_answered_even_when_the_command_is_dying)
{
        struct rig rig;
        rig_open(&rig);
        for (uint32_t i = 0; i < 20; i++) {
                rig_start(&rig, i, i % 2 ? "/bin/true" : "/nonexistent/program");
                for (int k = 0; k < 10; k++)
                        spawn_signal(rig.s, i, SIGCONT, k % 2 ? SPAWN_GROUP : SPAWN_TREE);
                if (i % 4 == 0)
                        spawn_kill(rig.s, i);
        }
        rig_wait(&rig, rig.gone == 20);
        for (uint32_t i = 0; i < 20; i++)
                eq_int(rig.seen[i].signalled, 10);
        rig_close(&rig);
}

TEST(a_flood_of_signals_is_bounded_and_answered)
{
        struct rig rig;
        rig_open(&rig);
        rig_start(&rig, 2, "/bin/true");
        rig_start_sh(&rig, 1, "sleep 1000; true");
        for (int i = 0; i < 2000; i++)
                spawn_signal(rig.s, 1, 0, SPAWN_PROCESS);
        rig_wait(&rig, rig.seen[1].signalled == 2000);
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        rig_close(&rig);
}

/* Returns the expected answer to a signal: every third signal cannot be sent. */
static int errno_of(int index)
{
        return index % 3 ? 0 : EINVAL;
}

TEST(answers_keep_the_order_of_signals_however_many_there_are)
{
        struct rig rig;
        rig_open(&rig);
        rig.wanted_errno = errno_of;
        rig_start_sh(&rig, 1, "sleep 1000; true");
        eq_int(kill(rig.spawner_pid, SIGSTOP), 0);
        for (int i = 0; i < 500; i++)
                spawn_signal(rig.s, 1, errno_of(i) ? 1000 : SIGCONT, SPAWN_PROCESS);
        eq_int(kill(rig.spawner_pid, SIGCONT), 0);
        rig_wait(&rig, rig.seen[1].signalled > 100);
        for (int i = 500; i < 1000; i++)
                spawn_signal(rig.s, 1, errno_of(i) ? 1000 : SIGCONT, SPAWN_PROCESS);
        rig_wait(&rig, rig.seen[1].signalled == 1000);
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        rig_close(&rig);
}

TEST(signals_that_still_wait_when_it_ends_are_answered)
{
        struct rig rig;
        rig_open(&rig);
        rig_start_sh(&rig, 1, "sleep 1000; true");
        rig_wait(&rig, rig.seen[1].has_started);
        eq_int(kill(parent_of(rig.seen[1].pid), SIGSTOP), 0);
        for (int i = 0; i < 300; i++)
                spawn_signal(rig.s, 1, SIGCONT, SPAWN_PROCESS);
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_int(rig.seen[1].signalled, 300);
        rig_start_sh(&rig, 2, "sleep 1000; true");
        for (int i = 0; i < 300; i++)
                spawn_signal(rig.s, 2, SIGCONT, SPAWN_PROCESS);
        rig_close(&rig); /* while some signals are still held */
}

/* ---- a full socket ---- */

/* Waits until starts no longer wait for their turn: starts that a stopped spawner does not begin soon count as hanging. */
static void turns_await(struct rig *rig)
{
        while (spawn_wait_ms(rig->s) >= 0)
                rig_turn(rig, 100);
}

TEST(a_full_socket_queues_and_keeps_the_order)
{
        struct rig rig;
        rig_open(&rig);
        rig_start(&rig, 400, "/bin/true");
        rig_wait(&rig, rig.seen[400].has_gone);
        size_t own = rig_count_fds(getpid());

        eq_int(kill(rig.spawner_pid, SIGSTOP), 0);
        uint32_t n = 0;
        for (; n < 300; n++) {
                rig_start_sh(&rig, n,
                             "exit 9 # a comment that fills the packet: ................................");
                spawn_signal(rig.s, n, SIGCONT, SPAWN_PROCESS);
        }
        turns_await(&rig);
        ok(spawn_wants_write(rig.s));
        eq_int(kill(rig.spawner_pid, SIGCONT), 0);
        /* The last command can be gone before the signal that was meant for it is written. */
        rig_wait(&rig, rig.gone == 301 && !spawn_wants_write(rig.s));
        for (uint32_t i = 0; i < n; i++) {
                eq_int(rig.seen[i].exit.status, 9 << 8);
                eq_int(rig.seen[i].signalled, 1);
        }
        eq_u64(rig_count_fds(getpid()), own);
        rig_close(&rig);
}

TEST(a_kill_of_a_start_in_the_queue_cancels_it)
{
        struct rig rig;
        rig_open(&rig);
        rig_start(&rig, 400, "/bin/true");
        rig_wait(&rig, rig.seen[400].has_gone);
        size_t own = rig_count_fds(getpid());

        eq_int(kill(rig.spawner_pid, SIGSTOP), 0);
        uint32_t n = 0;
        while (!spawn_wants_write(rig.s) && n < 400) {
                rig_start_sh(&rig, n++, "exit 9");
                turns_await(&rig);
        }
        rig_start_sh(&rig, n, "echo ran");
        spawn_kill(rig.s, n - 1); /* the first start that waits for room; `n` is the last */
        spawn_kill(rig.s, n);
        while (rig.gone < 3) /* the spawner is not needed for that */
                rig_turn(&rig, 100);
        for (uint32_t i = n - 1; i <= n; i++) {
                eq_str(rig.seen[i].step, "fork");
                eq_int(rig.seen[i].os_errno, ECANCELED);
        }
        ok(!spawn_wants_write(rig.s));
        eq_int(kill(rig.spawner_pid, SIGCONT), 0);
        rig_wait(&rig, rig.gone == n + 2);
        for (uint32_t i = 0; i < n - 1; i++)
                eq_int(rig.seen[i].exit.status, 9 << 8);
        eq_u64(rig_count_fds(getpid()), own);
        char text[64] = "";
        rig_output_close(&rig);
        rig_read(&rig, text, sizeof(text), NULL);
        eq_str(text, "");
        rig_close(&rig);
}

TEST(freeing_with_a_full_queue_ends_everything)
{
        struct rig rig;
        rig_open(&rig);
        eq_int(kill(rig.spawner_pid, SIGSTOP), 0);
        for (uint32_t i = 0; i < 300; i++)
                rig_start_sh(&rig, i, "(setsid sleep 1000 &); sleep 1000; true");
        eq_int(kill(rig.spawner_pid, SIGCONT), 0);
        rig_close(&rig);
}

/* ---- which processes die when another is killed ---- */

TEST(a_killed_keeper_takes_its_tree_along)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig, ESCAPE "echo ready; sleep 1000; true", text);
        rig_output_close(&rig);
        rig.out[1] = rig.null; /* the output of the commands that follow */
        rig_start_sh(&rig, 2, "sleep 1000; true");
        rig_wait(&rig, rig.seen[2].has_started);

        pid_t keeper = parent_of(rig.seen[1].pid);
        eq_int(parent_of(keeper), rig.spawner_pid);
        eq_int(kill(keeper, SIGKILL), 0);
        spawn_signal(rig.s, 1, SIGCONT, SPAWN_GROUP);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig_output_ended(&rig));
        ok(!rig.seen[1].has_exited);
        eq_int(rig.seen[1].signalled, 1);
        ok(!rig.seen[2].has_exited); /* the other commands live */

        spawn_kill(rig.s, 2);
        rig_wait(&rig, rig.seen[2].has_gone);
        ok(rig.seen[2].has_exited);
        rig_start(&rig, 3, "/bin/true");
        rig_wait(&rig, rig.seen[3].has_gone);
        rig.out[1] = -1;
        rig_close(&rig);
}

TEST(a_killed_spawner_takes_everything_along_and_is_lost)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig, ESCAPE "echo ready; sleep 1000; true", text);
        for (uint32_t i = 2; i < 10; i++) {
                rig_start_sh(&rig, i, "(setsid sleep 1000 &); sleep 1000; true");
                rig_wait(&rig, rig.seen[i].has_started);
        }
        rig_output_close(&rig);
        eq_int(kill(rig.spawner_pid, SIGKILL), 0);
        rig_wait(&rig, rig.is_lost);
        ok(rig_output_ended(&rig));
        const char *const argv[] = { "/bin/true", NULL };
        eq_int(rig_start_argv(&rig, 20, argv, argv, "/"), -EPIPE);
        rig_close(&rig);
}

TEST(keeper_and_spawner_killed_at_once_still_end_the_command)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig, "echo ready; exec sleep 1000", text);
        rig_output_close(&rig);
        pid_t keeper = parent_of(rig.seen[1].pid);
        eq_int(kill(rig.spawner_pid, SIGSTOP), 0); /* so that the spawner cannot clean up in between */
        eq_int(kill(keeper, SIGKILL), 0);
        eq_int(kill(rig.spawner_pid, SIGKILL), 0);
        rig_wait(&rig, rig.is_lost);
        rig_close(&rig);
}

TEST(closing_the_servers_end_ends_everything)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig, ESCAPE "echo ready; sleep 1000; true", text);
        rig_start_sh(&rig, 2, "(setsid sleep 1000 &)");
        rig_wait(&rig, rig.seen[2].has_exited);
        rig_output_close(&rig);
        rig_close(&rig);
}

/* A child of the test stands for the server: it makes a spawner, and is killed. */
TEST(a_killed_server_takes_everything_along)
{
        struct rig *rig = mmap(NULL, sizeof(*rig), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ok(rig != MAP_FAILED);
        int out[2];
        eq_int(pipe2(out, O_CLOEXEC), 0);
        eq_int(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
        size_t strangers = rig_count_children();
        pid_t server = fork();
        ok(server >= 0);
        if (server == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                char text[TEXT_BYTES];
                open_and_run(rig, ESCAPE "echo ready; sleep 1000; true", text);
                rig_output_close(rig);
                if (write(out[1], "x", 1) != 1)
                        _exit(1);
                for (;;)
                        pause();
        }
        close(out[1]);
        char byte;
        eq_int(read(out[0], &byte, 1), 1);
        eq_int(kill(server, SIGKILL), 0);
        /* Processes that are left become children of the test, which is a sub-reaper, and end. */
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        while (rig_count_children() > strangers) {
                ok(clock_mono_ms() < give_up);
                if (waitpid(-1, NULL, WNOHANG) == 0)
                        (void)poll(NULL, 0, 1);
        }
        close(out[0]);
        munmap(rig, sizeof(*rig));
}

TEST(sigterm_to_the_spawner_from_elsewhere_changes_nothing)
{
        struct rig rig;
        rig_open(&rig);
        rig_start(&rig, 1, "/bin/true");
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_int(kill(rig.spawner_pid, SIGTERM), 0);
        eq_int(kill(rig.spawner_pid, SIGINT), 0);
        eq_int(kill(rig.spawner_pid, SIGHUP), 0);
        rig_start(&rig, 2, "/bin/true");
        rig_wait(&rig, rig.seen[2].has_gone);
        eq_int(rig.seen[2].exit.status, 0);
        rig_close(&rig);
}

TEST(a_stopped_keeper_hears_the_order_to_kill)
{
        struct rig rig;
        char text[TEXT_BYTES];
        open_and_run(&rig, "echo ready; exec sleep 1000", text);
        eq_int(kill(parent_of(rig.seen[1].pid), SIGSTOP), 0);
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig.seen[1].has_exited);
        rig_close(&rig);
}

TEST(a_large_request_waits_in_the_queue_too)
{
        static char word[100001];
        memset(word, 'x', sizeof(word) - 1);
        struct rig rig;
        rig_open(&rig);
        rig_start(&rig, 400, "/bin/true");
        rig_wait(&rig, rig.seen[400].has_gone);
        eq_int(kill(rig.spawner_pid, SIGSTOP), 0);
        uint32_t n = 0;
        while (!spawn_wants_write(rig.s) && n < 400)
                rig_start(&rig, n++, "/bin/true");
        const char *const argv[] = { "/bin/true", word, NULL };
        eq_int(rig_start_argv(&rig, 401, argv, argv, "/"), 0);
        eq_int(kill(rig.spawner_pid, SIGCONT), 0);
        rig_wait(&rig, rig.gone == n + 2);
        eq_int(rig.seen[401].exit.status, 0);
        rig_close(&rig);
}

TEST(no_zombie_stays_below_the_spawner)
{
        struct rig rig;
        rig_open(&rig);
        for (uint32_t i = 0; i < 20; i++)
                rig_start_sh(&rig, i, "(true &) ; (setsid true &) ; exit 0");
        rig_wait(&rig, rig.gone == 20);
        char path[64], text[64];
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)rig.spawner_pid, (int)rig.spawner_pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
                eq_int(read(fd, text, sizeof(text)), 0);
                close(fd);
        }
        rig_close(&rig);
}
