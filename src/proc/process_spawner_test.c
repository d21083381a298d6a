/* process_spawner_test: what becomes of processes and starts when their spawner dies. */
#include "proc/process_rig.h"

TEST(a_lost_spawner_ends_its_processes_and_is_replaced)
{
        struct rig rig;
        struct seen running, starting, next;
        rig_open(&rig);
        start(&rig, &running, STDIN_PIPE, "read x <$GO");
        wait_for(&rig, has(&running, 'S'));
        pid_t lost = spawn_pid(rig.procs.spawner);
        eq_int(kill(lost, SIGKILL), 0);
        start(&rig, &starting, PIPES, "read x <$GO");
        wait_for(&rig, has(&running, 'G') && (has(&starting, 'G') || has(&starting, 'S')));

        eq_str(running.trace, "SmXCG");
        /* The keeper may have reported how the command ended. */
        ok(running.p->exit_code == -1 || running.p->exit_code == 128 + SIGKILL);
        /* The start has failed if the dead spawner got it. If the server saw the death in time, the next spawner runs it. */
        if (has(&starting, 'S')) {
                process_kill(starting.p);
                wait_for(&rig, has(&starting, 'G'));
                eq_str(starting.trace, "SXCG");
        } else {
                eq_str(starting.trace, "FG");
        }
        eq_int(rig.procs.used, 0);
        start(&rig, &next, PIPES, "exit 6");
        wait_for(&rig, has(&next, 'G'));
        eq_str(next.trace, "SXCG");
        eq_int(next.p->exit_code, 6);
        finish(&rig, &running);
        finish(&rig, &starting);
        finish(&rig, &next);
        /* The spawner was reaped when it was replaced, or is reaped now. */
        ok(waitpid(lost, NULL, 0) == lost || errno == ECHILD);
        rig_close(&rig);
}

static void count_child(void *arg, UNUSED pid_t pid)
{
        (*(size_t *)arg)++;
}

/* Reaps as the server does on SIGCHLD, until the spawner in use is the only child. */
static void wait_alone(struct rig *rig)
{
        for (size_t n = 0; n != 1;) {
                procs_reap(&rig->procs);
                turn(rig);
                n = 0;
                eq_int(tree_each_child(count_child, &n), 0);
        }
}

/* Waits for the death of a child, and does not reap it. */
static void wait_dead(pid_t pid)
{
        siginfo_t info;
        eq_int(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void on_late(void *arg)
{
        ((struct rlimit *)arg)->rlim_cur = 0;
}

/* Kills the spawner in use, and has the server notice that. */
static void kill_spawner(struct rig *rig)
{
        pid_t lost = spawn_pid(rig->procs.spawner);
        eq_int(kill(lost, SIGKILL), 0);
        wait_dead(lost);
        procs_reap(&rig->procs);
        ok(spawn_pid(rig->procs.spawner) != lost);
}

/* When the next spawner is due, none can be made, because no descriptors are free. Later there are free ones again. */
TEST(a_spawner_that_is_tried_again_when_the_system_has_no_descriptors_is_tried_once_more)
{
        skip_in_valgrind("does not pass on the limit on descriptors");
        struct rig rig;
        struct rlimit before, none;
        rig_open(&rig);
        pid_t lost = spawn_pid(rig.procs.spawner);
        rig.procs.deaths.count = 1; /* as after a first spawner that could not run here */
        eq_int(kill(lost, SIGKILL), 0);
        wait_for(&rig, rig.procs.spawner == NULL);
        eq_int(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
        eq_int(setrlimit(RLIMIT_NOFILE, &none), 0);
        struct timer *late = timer_new(&rig.loop, on_late, &none);
        timer_start(late, 4 * LIMIT_SPAWNER_RETRY_MS);
        wait_for(&rig, none.rlim_cur == 0);
        ok(!rig.procs.spawner);
        eq_int(setrlimit(RLIMIT_NOFILE, &before), 0);
        late = timer_free(late);
        wait_for(&rig, rig.procs.spawner);

        struct seen seen;
        start(&rig, &seen, PIPES, "exit 3");
        wait_for(&rig, has(&seen, 'C'));
        eq_int(seen.p->exit_code, 3);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_start_that_a_dead_spawner_did_not_take_fails_while_keepers_are_still_busy)
{
        struct rig rig;
        struct seen running, starting;
        rig_open(&rig);
        start(&rig, &running, PIPES, "echo $PPID; read x <$GO");
        wait_for(&rig, has(&running, 'o'));
        pid_t keeper = (pid_t)strtol(running.out.p, NULL, 10);
        eq_int(kill(keeper, SIGSTOP), 0);
        eq_int(kill(spawn_pid(rig.procs.spawner), SIGSTOP), 0);
        start(&rig, &starting, PIPES, "read x <$GO");
        kill_spawner(&rig);

        wait_for(&rig, has(&starting, 'F'));
        eq_str(starting.trace, "F"); /* `gone` follows when the keepers are gone, too */
        eq_str(starting.step, "spawner");
        eq_str(running.trace, "So");
        eq_int(kill(keeper, SIGCONT), 0);
        wait_dead(keeper); /* the spawner is dead, so its keeper is a child of the test */
        wait_for(&rig, has(&running, 'G') && has(&starting, 'G'));
        eq_str(running.trace, "SoXCG");
        /* The server reads the report of the keeper even if the spawner died before it read the last order. */
        eq_int(running.p->exit_code, 128 + SIGKILL);
        eq_str(starting.trace, "FG");
        eq_int(rig.procs.used, 0);
        finish(&rig, &running);
        finish(&rig, &starting);
        wait_alone(&rig);
        rig_close(&rig);
}

/* A lease makes execve wait until its holder releases it. By then the start was given up, and the command must not stay. */
TEST(a_start_that_outlives_its_spawner_fails_and_leaves_nothing)
{
        struct rig rig;
        struct seen seen;
        struct err err = ERR_INIT;
        char path[64];
        rig_open(&rig);
        snprintf(path, sizeof(path), "%s/slow", rig.dir);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, S("#!/bin/sh\nread x <$GO\n")), 0);
        void (*old)(int) = signal(SIGIO, SIG_IGN);
        bool has_leases = fcntl(fd, F_SETLEASE, F_WRLCK) == 0; /* not every file system has them */
        if (has_leases) {
                const char *const argv[] = { path, NULL };
                ok(start_argv(&rig, &seen, PIPES, argv, argv, "/", &err));
                while (fcntl(fd, F_GETLEASE) == F_WRLCK)
                        turn(&rig); /* turns the loop until execve asks for the file */
                kill_spawner(&rig);
                wait_for(&rig, has(&seen, 'F'));
                eq_str(seen.trace, "F");
                eq_str(seen.step, "spawner");
        }
        fd_close(fd);
        if (has_leases) {
                wait_for(&rig, has(&seen, 'G'));
                eq_str(seen.trace, "FG");
                finish(&rig, &seen);
                wait_alone(&rig);
        }
        eq_int(unlink(path), 0);
        signal(SIGIO, old);
        rig_close(&rig);
        if (!has_leases)
                skip();
}
