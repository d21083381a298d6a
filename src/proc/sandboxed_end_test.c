/* sandboxed_end_test: the ways in which commands in sandboxes end, and that nothing of them is left. */
#include "unit.h"

#include "proc/sandboxed_rig.h"

#include "sandbox/placeholder.h"

#define MANY 200
#define LOOK_MS 5 /* wait between two looks at a state that sends no event */

static const char *const placeholder_names[] = { "W/.git", "W/.agents", "W/.aws", "W/.codex" };

static bool has_placeholders(struct rigged *b)
{
        for (size_t n = 0; n < ARRAY_LEN(placeholder_names); n++)
                if (rigged_has(b, placeholder_names[n]))
                        return true;
        return false;
}

/* Waits for a state that no event reports, by checking it repeatedly. */
#define await(b, cond)                                                      \
        do {                                                                \
                uint64_t give_up_ = clock_mono_ms() + RIG_PATIENCE_MS;      \
                while (!(cond)) {                                           \
                        if (clock_mono_ms() > give_up_)                     \
                                fail_msg("waited too long for: %s", #cond); \
                        rig_turn(&(b)->rig, LOOK_MS);                       \
                }                                                           \
        } while (0)

/* ---- exit codes and deaths by signal ---- */

TEST(exit_codes_come_through_a_sandbox)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        static const int codes[] = { 0, 1, 2, 126, 127, 128, 255 };
        for (size_t n = 0; n < ARRAY_LEN(codes); n++) {
                int status = rigged_run(&b, arena_printf(&b.arena, "exit %d", codes[n]));
                ok(WIFEXITED(status));
                eq_int(WEXITSTATUS(status), codes[n]);
                ok(!has_placeholders(
                        &b)); /* a client that hears of the exit finds the directory as it was before */
        }
        rigged_close(&b);
}

TEST(death_by_a_signal_comes_through_a_sandbox)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        static const int signals[] = { SIGTERM, SIGKILL, SIGSEGV, SIGPIPE, SIGHUP, SIGUSR1, SIGSYS };
        for (size_t n = 0; n < ARRAY_LEN(signals); n++) {
                int status = rigged_run(&b, arena_printf(&b.arena, "kill -%d $$; exit 1", signals[n]));
                ok(WIFSIGNALED(status));
                eq_int(WTERMSIG(status), signals[n]);
        }
        rigged_close(&b);
}

TEST(a_command_cannot_end_its_init)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        eq_int(rigged_run(&b, "kill -KILL 1; kill -TERM 1; kill -STOP 1; kill -INT 1; exit 9"), 9 << 8);
        rigged_close(&b);
}

/* ---- processes that a command leaves behind ---- */

TEST(what_a_command_leaves_running_lives_on_in_its_sandbox)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        eq_int(mkfifo(rigged_path(&b, "W/go"), 0600), 0);
        rigged_start(
                &b, 1,
                "(read line < go; echo \"left $line\"; echo x > ../out; echo y > late) 2>/dev/null & exit 3");
        rig_wait(&b.rig, b.rig.seen[1].has_exited);
        eq_int(b.rig.seen[1].exit.status, 3 << 8);
        ok(!b.rig.seen[1].has_gone);
        ok(has_placeholders(&b)); /* the process that is left still needs them */
        rigged_write(&b, "W/go", "behind\n");
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        rig_read(&b.rig, b.out, sizeof(b.out), "left behind\n");
        ok(rigged_has(&b, "W/late") && !rigged_has(&b, "out") && !has_placeholders(&b));
        rigged_close(&b);
}

TEST(what_is_left_running_can_be_killed)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_start(
                &b, 1,
                "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; echo out; "
                "exit 3");
        rig_wait(&b.rig, b.rig.seen[1].has_exited);
        ok(!b.rig.seen[1].has_gone);
        rig_output_close(&b.rig);
        spawn_kill(b.rig.s, 1);
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        ok(rig_output_ended(&b.rig));
        ok(!has_placeholders(&b));
        rigged_close(&b);
}

/* ---- signals to a command in a sandbox ---- */

/* Starts three shells: the command, another in the command's process group, and a third in a session of its own. Each prints a word
 * when it gets SIGUSR1. */
static void start_three(struct rigged *b)
{
        rigged_start(
                b, 1,
                "trap 'echo shell' USR1; trap 'exit 0' TERM\n"
                "sh -c 'trap \"echo group\" USR1; echo up1; while :; do sleep 1000 & wait; kill $!; done' &\n"
                "setsid sh -c 'trap \"echo session\" USR1; echo up2; while :; do sleep 1000 & wait; kill $!; "
                "done' &\n"
                "while ! [ -e three ]; do wait; done");
        rigged_wait_text(b, 1, "up1\n");
        if (!strstr(b->out, "up2\n"))
                rig_read(&b->rig, b->out, sizeof(b->out), "up2\n");
}

static void end_three(struct rigged *b)
{
        spawn_kill(b->rig.s, 1);
        rig_wait(&b->rig, b->rig.seen[1].has_gone);
        eq_int(WTERMSIG(b->rig.seen[1].exit.status), SIGKILL);
        ok(!has_placeholders(b));
        rigged_close(b);
}

static void signal_and_wait(struct rigged *b, int signo, enum spawn_scope scope)
{
        int before = b->rig.seen[1].signalled;
        spawn_signal(b->rig.s, 1, signo, scope);
        rig_wait(&b->rig, b->rig.seen[1].signalled > before);
        eq_int(b->rig.seen[1].signal_errno, 0);
}

TEST(a_signal_to_the_process_reaches_it_alone)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        start_three(&b);
        signal_and_wait(&b, SIGUSR1, SPAWN_PROCESS);
        rig_read(&b.rig, b.out, sizeof(b.out), "shell\n");
        eq_str(b.out, "shell\n");
        end_three(&b);
}

TEST(a_signal_to_the_group_leaves_other_sessions_alone)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        start_three(&b);
        signal_and_wait(&b, SIGUSR1, SPAWN_GROUP);
        rig_read(&b.rig, b.out, sizeof(b.out), "group\n");
        ok(!strstr(b.out, "session"));
        end_three(&b);
}

TEST(a_signal_to_the_tree_reaches_everybody_in_the_sandbox)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        start_three(&b);
        signal_and_wait(&b, SIGUSR1, SPAWN_TREE);
        rig_read(&b.rig, b.out, sizeof(b.out), "session\n");
        ok(!b.rig.seen[1].has_exited); /* the signal does not go to the init */
        end_three(&b);
}

TEST(a_tree_that_is_stopped_goes_on_and_can_be_killed)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        start_three(&b);
        signal_and_wait(&b, SIGSTOP, SPAWN_TREE);
        signal_and_wait(&b, SIGCONT, SPAWN_TREE);
        signal_and_wait(&b, SIGUSR1, SPAWN_PROCESS);
        rig_read(&b.rig, b.out, sizeof(b.out), "shell\n");
        signal_and_wait(&b, SIGSTOP, SPAWN_TREE);
        end_three(&b);
}

TEST(a_signal_that_ends_the_command_is_its_exit)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_start(&b, 1, "echo up; exec sleep 1000");
        rigged_wait_text(&b, 1, "up\n");
        signal_and_wait(&b, SIGINT, SPAWN_GROUP);
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        eq_int(b.rig.seen[1].exit.status, SIGINT);
        rigged_close(&b);
}

/* ---- kills from outside ---- */

TEST(killing_the_init_ends_the_command)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_start(&b, 1, "setsid sleep 1000 & echo up; sleep 1000");
        rigged_wait_text(&b, 1, "up\n");
        ok(has_placeholders(&b));
        rig_output_close(&b.rig);
        pid_t init = rigged_parent_of(b.rig.seen[1].pid);
        ok(init > 1 && rigged_parent_of(rigged_parent_of(init)) == b.rig.spawner_pid);
        eq_int(kill(init, SIGKILL), 0);
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        ok(b.rig.seen[1].has_exited);
        eq_int(b.rig.seen[1].exit.status, SIGKILL);
        ok(!has_placeholders(&b));
        ok(rig_output_ended(&b.rig));
        rigged_close(&b);
}

TEST(killing_the_keeper_ends_the_sandbox)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_start(&b, 1, "setsid sleep 1000 & echo up; sleep 1000");
        rigged_wait_text(&b, 1, "up\n");
        rig_output_close(&b.rig);
        pid_t keeper = rigged_parent_of(rigged_parent_of(b.rig.seen[1].pid));
        eq_int(kill(keeper, SIGKILL), 0);
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        ok(!b.rig.seen[1].has_exited);
        await(&b, rig_output_ended(&b.rig));
        await(&b, !has_placeholders(&b));
        rigged_close(&b);
}

TEST(killing_the_spawner_ends_all_sandboxes)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        for (uint32_t n = 1; n <= 3; n++) {
                rigged_start(&b, n, "setsid sleep 1000 & echo up; sleep 1000");
                rigged_wait_text(&b, n, "up\n");
        }
        rig_output_close(&b.rig);
        eq_int(kill(b.rig.spawner_pid, SIGKILL), 0);
        rig_wait(&b.rig, b.rig.is_lost);
        await(&b, rig_output_ended(&b.rig));
        await(&b, !has_placeholders(&b));
        rigged_close(&b);
}

TEST(killing_all_who_keep_at_once_leaves_placeholders_to_the_sweep_and_nobody_alive)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_start(&b, 1, "setsid sleep 1000 & echo up; sleep 1000");
        rigged_wait_text(&b, 1, "up\n");
        rig_output_close(&b.rig);
        pid_t keeper = rigged_parent_of(rigged_parent_of(b.rig.seen[1].pid));
        eq_int(kill(keeper, SIGSTOP), 0);
        eq_int(kill(b.rig.spawner_pid, SIGKILL), 0);
        eq_int(kill(keeper, SIGKILL), 0);
        rig_wait(&b.rig, b.rig.is_lost);
        await(&b, rig_output_ended(&b.rig)); /* the kernel ends the rest */
        for (size_t n = 0; n < ARRAY_LEN(placeholder_names); n++)
                eq_int(placeholder_sweep(&b.locks, rigged_path(&b, placeholder_names[n])), PLACEHOLDER_GONE);
        ok(!has_placeholders(&b));
        rigged_close(&b);
}

static size_t read_text(const char *path, char text[64])
{
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, 63);
        text[MAX(n, 0)] = 0;
        return (size_t)MAX(n, 0);
}

static bool is_prebuilt(pid_t pid)
{
        char path[64], text[64];
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        (void)read_text(path, text);
        return strcmp(text, "fh-prebuilt\n") == 0 || strcmp(text, "fh-net\n") == 0;
}

/* Returns the first child of `pid` that is no prebuilt sandbox, or 0. */
static pid_t child_of(pid_t pid)
{
        char path[64], text[64], *at = text;
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
        if (read_text(path, text) == 0)
                return 0;
        pid_t child;
        do
                child = (pid_t)strtol(at, &at, 10);
        while (child > 0 && is_prebuilt(child));
        return child;
}

/* Starts commands, and kills the process `depth` levels below the spawner, a little later each time. */
static void kill_while_it_starts(struct rigged *b, int depth)
{
        for (unsigned round = 0; round < 60; round++) {
                struct rig_seen *seen = &b->rig.seen[1];
                *seen = (struct rig_seen){ 0 };
                rigged_start(b, 1, "exec sleep 1000");
                pid_t pid = 0;
                for (int n = 0; n < 20000 && pid == 0 && !seen->has_started; n++) {
                        rig_turn(&b->rig, 0);
                        pid = b->rig.spawner_pid;
                        for (int k = 0; k < depth && pid > 0; k++)
                                pid = child_of(pid);
                }
                for (unsigned n = 0; n < round * 100; n++)
                        (void)getppid(); /* a few microseconds more each time */
                if (pid > 1)
                        (void)kill(pid, SIGKILL);
                else
                        spawn_kill(b->rig.s, 1); /* there was no such process at that moment */
                /* A start that has lost only a helper process continues without it. */
                rig_wait(&b->rig, seen->has_gone || seen->has_started);
                if (!seen->has_gone)
                        spawn_kill(b->rig.s, 1);
                rig_wait(&b->rig, seen->has_gone);
                await(b, !has_placeholders(b));
        }
}

TEST(a_keeper_that_is_killed_while_it_starts_leaves_nothing)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        kill_while_it_starts(&b, 1);
        rig_output_close(&b.rig);
        await(&b, rig_output_ended(&b.rig));
        rigged_close(&b);
}

TEST(an_init_that_is_killed_while_it_starts_leaves_nothing)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        kill_while_it_starts(&b, 2);
        rig_output_close(&b.rig);
        await(&b, rig_output_ended(&b.rig));
        rigged_close(&b);
}

TEST(a_start_that_is_cancelled_leaves_nothing)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        for (unsigned round = 0; round < 60; round++) {
                struct rig_seen *seen = &b.rig.seen[1];
                *seen = (struct rig_seen){ 0 };
                rigged_start(&b, 1, "exec sleep 1000");
                uint64_t until = clock_mono_us() + round * 50;
                while (clock_mono_us() < until)
                        rig_turn(&b.rig, 0);
                spawn_kill(b.rig.s, 1);
                rig_wait(&b.rig, seen->has_gone);
                ok(seen->has_failed || seen->has_exited);
                ok(!has_placeholders(&b));
        }
        rigged_close(&b);
}

/* ---- many sandboxes at once ---- */

TEST(sandboxes_that_overlap_keep_their_placeholders_until_the_last_has_gone)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        struct stat before, after;
        for (uint32_t n = 1; n <= 3; n++) {
                rigged_start(&b, n, "echo up; sleep 1000");
                rigged_wait_text(&b, n, "up\n");
        }
        eq_int(lstat(rigged_path(&b, "W/.git"), &before), 0);
        for (uint32_t n = 1; n <= 3; n++) {
                eq_int(lstat(rigged_path(&b, "W/.git"), &after), 0);
                eq_u64(after.st_ino, before.st_ino);
                spawn_kill(b.rig.s, n);
                rig_wait(&b.rig, b.rig.seen[n].has_gone);
        }
        ok(!has_placeholders(&b));
        rigged_close(&b);
}

/* Counts the mappings of a process whose line in /proc/PID/maps contains `text`. */
static size_t count_mappings(pid_t pid, const char *text)
{
        char path[64], line[4096];
        size_t n = 0;
        snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
        FILE *f = fopen(path, "re");
        ok(f != NULL);
        while (fgets(line, sizeof(line), f))
                n += strstr(line, text) != NULL;
        fclose(f);
        return n;
}

/* Starts many commands, which run at once. Then each is ended: by an order, by the death of its init, or by the death of its
 * keeper. */
static void many_come_and_go(struct rigged *b)
{
        b->rig.gone = 0;
        for (uint32_t n = 1; n <= MANY; n++) {
                b->rig.seen[n] = (struct rig_seen){ 0 };
                rigged_start(b, n, "setsid sleep 1000 & exec sleep 1000");
                rig_turn(&b->rig, 0);
        }
        for (uint32_t n = 1; n <= MANY; n++) {
                rig_wait(&b->rig, b->rig.seen[n].has_started || b->rig.seen[n].has_failed);
                if (b->rig.seen[n].has_failed)
                        fail_msg("start %u failed at %s: %s", n, b->rig.seen[n].step,
                                 strerror(b->rig.seen[n].os_errno));
        }
        ok(has_placeholders(b));
        eq_u64(count_mappings(b->rig.spawner_pid, "farhand-plan"), MANY);
        for (uint32_t n = 1; n <= MANY; n++) {
                pid_t init = rigged_parent_of(b->rig.seen[n].pid), keeper = rigged_parent_of(init);
                ok(keeper > 1);
                if (n % 4 == 0)
                        eq_int(kill(init, SIGKILL), 0);
                else if (n % 4 == 1)
                        eq_int(kill(keeper, SIGKILL), 0);
                else
                        spawn_kill(b->rig.s, n);
        }
        rig_wait(&b->rig, b->rig.gone == MANY);
        await(b, !has_placeholders(b));
        await(b, count_mappings(b->rig.spawner_pid, "farhand-plan") == 0);
}

TEST(two_hundred_sandboxes_at_once_leave_nothing)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        eq_int(rigged_run(&b, "exit 0"), 0);
        /* For a prebuilt sandbox the spawner opens two more descriptors: the sandbox's socket and the mount table. */
        size_t fds = rig_count_fds(b.rig.spawner_pid) + 2;
        many_come_and_go(&b);
        await(&b, rig_count_fds(b.rig.spawner_pid) <= fds);
        /* Some memory for keepers is kept for the next commands, so a second round needs no more. */
        size_t shared = count_mappings(b.rig.spawner_pid, "/dev/zero");
        many_come_and_go(&b);
        await(&b, rig_count_fds(b.rig.spawner_pid) <= fds);
        /* A prebuilt sandbox may exist now that did not exist before. */
        await(&b, count_mappings(b.rig.spawner_pid, "/dev/zero") <= shared + 1);
        rig_output_close(&b.rig);
        await(&b, rig_output_ended(&b.rig));
        rigged_close(&b);
}
