/* spawn_test: what a command gets, how a start fails, and what is reported. */
#include "unit.h"

#include "proc/spawn_rig.h"

#include "base/mem.h"
#include "proc/pty.h"

#include <sys/resource.h>
#include <sys/stat.h>

#define OUTPUT_BYTES 65536

/* Runs a script to its end; its output is in `ret`. */
static void output_of(const char *script, char ret[OUTPUT_BYTES])
{
        struct rig rig;
        rig_open(&rig);
        rig_start_sh(&rig, 1, script);
        rig_wait(&rig, rig.seen[1].has_gone);
        rig_output_close(&rig);
        rig_read(&rig, ret, OUTPUT_BYTES, NULL);
        rig_close(&rig);
}

TEST(two_hundred_starts_one_after_another)
{
        struct rig rig;
        rig_open(&rig);
        for (uint32_t i = 0; i < 200; i++) {
                rig_start(&rig, i, "/bin/true");
                rig_wait(&rig, rig.seen[i].has_gone);
                ok(rig.seen[i].has_started && rig.seen[i].has_exited);
                eq_int(rig.seen[i].exit.status, 0);
        }
        rig_close(&rig);
}

TEST(two_hundred_commands_at_once)
{
        struct rig rig;
        rig_open(&rig);
        rig_start(&rig, 500, "/bin/true");
        rig_wait(&rig, rig.seen[500].has_gone); /* from here on the spawner opens nothing for itself */
        size_t idle = rig_count_fds(rig.spawner_pid), own = rig_count_fds(getpid());
        for (uint32_t i = 0; i < 200; i++)
                rig_start_sh(&rig, i, "read x < /dev/null; exit 7");
        rig_wait(&rig, rig.gone == 201);
        for (uint32_t i = 0; i < 200; i++)
                eq_int(rig.seen[i].exit.status, 7 << 8);
        eq_u64(rig_count_fds(rig.spawner_pid), idle);
        eq_u64(rig_count_fds(getpid()), own);
        rig_close(&rig);
}

TEST(a_number_can_be_used_again_after_gone)
{
        struct rig rig;
        rig_open(&rig);
        for (int i = 0; i < 3; i++) {
                rig.seen[5] = (struct rig_seen){ 0 };
                rig_start(&rig, 5, "/bin/false");
                rig_wait(&rig, rig.seen[5].has_gone);
                eq_int(rig.seen[5].exit.status, 1 << 8);
        }
        rig_close(&rig);
}

TEST(the_exit_code_is_reported)
{
        struct rig rig;
        rig_open(&rig);
        rig_start_sh(&rig, 1, "exit 42");
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(WIFEXITED(rig.seen[1].exit.status));
        eq_int(WEXITSTATUS(rig.seen[1].exit.status), 42);
        rig_close(&rig);
}

TEST(the_signal_that_ended_it_is_reported)
{
        struct rig rig;
        rig_open(&rig);
        rig_start_sh(&rig, 1, "kill -SEGV $$");
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(WIFSIGNALED(rig.seen[1].exit.status));
        eq_int(WTERMSIG(rig.seen[1].exit.status), SIGSEGV);
        rig_close(&rig);
}

TEST(what_it_used_is_reported)
{
        struct rig rig;
        rig_open(&rig);
        rig_start_sh(&rig, 1, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig.seen[1].exit.user_us + rig.seen[1].exit.system_us > 0);
        ok(rig.seen[1].exit.max_rss_bytes > 64 * 1024);
        rig_close(&rig);
}

TEST(the_pid_is_that_of_the_command)
{
        struct rig rig;
        rig_open(&rig);
        rig_start_sh(&rig, 1, "echo pid=$$=");
        rig_wait(&rig, rig.seen[1].has_gone);
        char text[256], want[64];
        rig_read(&rig, text, sizeof(text), "\n");
        snprintf(want, sizeof(want), "pid=%d=\n", (int)rig.seen[1].pid);
        eq_str(text, want);
        rig_close(&rig);
}

/* ---- starts that fail ---- */

static void start_fails(const char *const *candidates, const char *cwd, const char *step, int os_errno)
{
        struct rig rig;
        rig_open(&rig);
        const char *const argv[] = { "x", NULL };
        eq_int(rig_start_argv(&rig, 1, argv, candidates, cwd), 0);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig.seen[1].has_failed && !rig.seen[1].has_started && !rig.seen[1].has_exited);
        eq_str(rig.seen[1].step, step);
        eq_int(rig.seen[1].os_errno, os_errno);
        rig_close(&rig);
}

TEST(a_program_that_is_not_there_fails_at_exec)
{
        const char *const none[] = { "/nonexistent/program", NULL };
        start_fails(none, "/", "exec", ENOENT);
}

TEST(no_candidate_at_all_is_not_found)
{
        const char *const none[] = { NULL };
        start_fails(none, "/", "exec", ENOENT);
}

TEST(a_missing_directory_fails_at_cwd)
{
        const char *const program[] = { "/bin/true", NULL };
        start_fails(program, "/nonexistent/directory", "cwd", ENOENT);
        start_fails(program, "/dev/null", "cwd", ENOTDIR);
}

TEST(a_candidate_that_may_not_be_run_is_remembered)
{
        const char *const some[] = { "/etc/passwd", "/nonexistent/program", NULL };
        start_fails(some, "/", "exec", EACCES);
        const char *const directory[] = { "/tmp", NULL };
        start_fails(directory, "/", "exec", EACCES);
}

TEST(another_error_stops_the_search)
{
        char path[] = "/tmp/spawn_test_XXXXXX";
        int fd = mkstemp(path);
        ok(fd >= 0);
        eq_int(write(fd, "neither script nor binary\n", 26), 26);
        eq_int(fchmod(fd, 0700), 0);
        close(fd);
        const char *const some[] = { "/nonexistent/program", path, "/bin/true", NULL };
        start_fails(some, "/", "exec", ENOEXEC);
        unlink(path);
}

TEST(candidates_are_tried_in_order)
{
        struct rig rig;
        rig_open(&rig);
        const char *const argv[] = { "sh", "-c", "echo $0 ran", "shell", NULL };
        const char *const some[] = { "/nonexistent/sh", "/dev/null/sh", "/etc/passwd",
                                     "/bin/sh",         "/bin/false",   NULL };
        eq_int(rig_start_argv(&rig, 1, argv, some, "/"), 0);
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_int(rig.seen[1].exit.status, 0);
        char text[64];
        rig_read(&rig, text, sizeof(text), "ran");
        rig_close(&rig);
}

TEST(a_relative_candidate_is_looked_up_in_cwd)
{
        struct rig rig;
        rig_open(&rig);
        const char *const argv[] = { "sh", "-c", "pwd", NULL };
        const char *const some[] = { "./bin/sh", NULL };
        eq_int(rig_start_argv(&rig, 1, argv, some, "/usr"), 0);
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_int(rig.seen[1].exit.status, 0);
        char text[64];
        rig_read(&rig, text, sizeof(text), "/usr\n");
        rig_close(&rig);
}

TEST(a_terminal_that_is_none_fails_at_pty)
{
        struct rig rig;
        rig_open(&rig);
        const char *const argv[] = { "/bin/true", NULL };
        const struct command_spec command = {
                .argv = argv,
                .env = argv + 1,
                .candidates = argv,
                .cwd = "/",
                .is_tty = true,
        };
        const int stdio[] = { rig.null, rig.null, rig.null };
        eq_int(spawn_start(rig.s, 1, &command, stdio), 0);
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_str(rig.seen[1].step, "pty");
        eq_int(rig.seen[1].os_errno, ENOTTY);
        rig_close(&rig);
}

TEST(failures_and_starts_side_by_side_stay_apart)
{
        struct rig rig;
        rig_open(&rig);
        for (uint32_t i = 0; i < 60; i++)
                rig_start(&rig, i, i % 3 ? "/bin/true" : "/nonexistent/program");
        rig_wait(&rig, rig.gone == 60);
        for (uint32_t i = 0; i < 60; i++) {
                eq_int(rig.seen[i].has_failed, i % 3 == 0);
                eq_int(rig.seen[i].has_exited, i % 3 != 0);
        }
        rig_close(&rig);
}

/* ---- large requests ---- */

TEST(strings_beyond_a_packet_go_through_a_memfd)
{
        enum { WORDS = 20000 };
        const char **argv = mem_alloc((WORDS + 5) * sizeof(*argv));
        argv[0] = "sh";
        argv[1] = "-c";
        argv[2] = "echo $# ${20000}";
        argv[3] = "sh";
        for (int i = 0; i < WORDS; i++)
                argv[4 + i] = i == WORDS - 1 ? "last" : "0123456789";
        argv[4 + WORDS] = NULL;

        struct rig rig;
        rig_open(&rig);
        rig_start(&rig, 500, "/bin/true");
        rig_wait(&rig, rig.seen[500].has_gone); /* from here on the spawner opens nothing for itself */
        size_t idle = rig_count_fds(rig.spawner_pid), own = rig_count_fds(getpid());
        const char *const candidates[] = { "/bin/sh", NULL };
        eq_int(rig_start_argv(&rig, 1, argv, candidates, "/"), 0);
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_int(rig.seen[1].exit.status, 0);
        eq_u64(rig_count_fds(rig.spawner_pid), idle);
        eq_u64(rig_count_fds(getpid()), own);
        char text[64];
        rig_read(&rig, text, sizeof(text), "\n");
        eq_str(text, "20000 last\n");
        rig_close(&rig);
        free(argv);
}

TEST(a_keeper_holds_only_its_own_descriptors)
{
        char *word = mem_alloc(100001);
        memset(word, 'x', 100000);
        word[100000] = 0;
        struct rig rig;
        rig_open(&rig);
        const char *const large[] = { "sh", "-c", "echo $PPID; exec sleep 1000", "sh", word, NULL };
        const char *const small[] = { "sh", "-c", "echo $PPID; exec sleep 1000", NULL };
        const char *const *const both[] = { large, small };
        const char *const candidates[] = { "/bin/sh", NULL };
        for (uint32_t i = 0; i < 2; i++) {
                eq_int(rig_start_argv(&rig, i, both[i], candidates, "/"), 0);
                rig_wait(&rig, rig.seen[i].has_started);
                char text[64];
                rig_read(&rig, text, sizeof(text), "\n");
                eq_u64(rig_count_fds((pid_t)strtol(text, NULL, 10)), rig_count_fds(rig.spawner_pid));
        }
        rig_close(&rig);
        free(word);
}

TEST(a_request_over_the_ceiling_is_refused)
{
        char *word = mem_alloc(SPAWN_REQUEST_MAX + 1);
        memset(word, 'x', SPAWN_REQUEST_MAX);
        word[SPAWN_REQUEST_MAX] = 0;
        struct rig rig;
        rig_open(&rig);
        const char *const argv[] = { "/bin/true", word, NULL };
        eq_int(rig_start_argv(&rig, 1, argv, argv, "/"), -E2BIG);
        rig_close(&rig);
        free(word);
}

TEST(what_the_kernel_finds_too_long_fails_at_exec)
{
        skip_in_valgrind("ends when execve fails late");
        char *word = mem_alloc(1024 * 1024);
        memset(word, 'x', 1024 * 1024 - 1);
        word[1024 * 1024 - 1] = 0;
        struct rig rig;
        rig_open(&rig);
        const char *const argv[] = { "/bin/true", word, NULL };
        eq_int(rig_start_argv(&rig, 1, argv, argv, "/"), 0);
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_str(rig.seen[1].step, "exec");
        eq_int(rig.seen[1].os_errno, E2BIG);
        rig_close(&rig);
        free(word);
}

/* ---- what a command gets ---- */

TEST(environment_and_arguments_are_exactly_those_given)
{
        char text[OUTPUT_BYTES];
        output_of("exec env", text);
        ok(strstr(text, "PATH=/usr/bin:/bin\n"));
        ok(strstr(text, "LC_ALL=C\n"));
        ok(!strstr(text, "HOME="));
        ok(!strstr(text, "FARHAND"));
}

TEST(no_descriptor_but_the_three_is_open)
{
        int leak = open("/dev/zero", O_RDONLY); /* not close-on-exec, on purpose */
        ok(leak >= 0);
        char text[OUTPUT_BYTES];
        output_of("ls /proc/$$/fd; true", text);
        eq_str(text, "0\n1\n2\n");
        close(leak);
}

TEST(signal_state_is_fresh_whatever_the_server_does)
{
        sigset_t some, before;
        sigemptyset(&some);
        sigaddset(&some, SIGUSR2);
        sigaddset(&some, SIGTERM);
        eq_int(sigprocmask(SIG_BLOCK, &some, &before), 0);
        void (*old_pipe)(int) = signal(SIGPIPE, SIG_IGN);
        void (*old_hup)(int) = signal(SIGHUP, SIG_IGN);

        char text[OUTPUT_BYTES];
        output_of("exec cat /proc/self/status", text);
        ok(strstr(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n"));
        ok(strstr(text, "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n"));

        signal(SIGPIPE, old_pipe);
        signal(SIGHUP, old_hup);
        eq_int(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

TEST(each_command_leads_its_own_session_and_group)
{
        struct rig rig;
        rig_open(&rig);
        rig_start_sh(&rig, 1, "exec cat /proc/self/stat");
        rig_wait(&rig, rig.seen[1].has_gone);
        char text[1024];
        rig_read(&rig, text, sizeof(text), "\n");
        int pid, parent, group, session, terminal;
        eq_int(sscanf(text, "%d (cat) %*c %d %d %d %d", &pid, &parent, &group, &session, &terminal), 5);
        eq_int(pid, rig.seen[1].pid);
        eq_int(group, pid);
        eq_int(session, pid);
        eq_int(terminal, 0);
        rig_close(&rig);
}

TEST(umask_and_the_original_limit_of_descriptors_are_kept)
{
        /* The first spawner of this process has noted the limit that commands get. */
        struct rlimit before, raised;
        eq_int(getrlimit(RLIMIT_NOFILE, &before), 0);
        char text[OUTPUT_BYTES], want[128];
        output_of("ulimit -n", text);
        raised = before;
        raised.rlim_cur = before.rlim_cur / 2;
        eq_int(setrlimit(RLIMIT_NOFILE, &raised), 0);
        mode_t mask = umask(027);
        char later[OUTPUT_BYTES];
        output_of("ulimit -n; umask", later);
        umask(mask);
        eq_int(setrlimit(RLIMIT_NOFILE, &before), 0);

        snprintf(want, sizeof(want), "%.64s0027\n", text);
        eq_str(later, want);
}

TEST(a_terminal_becomes_the_controlling_one)
{
        struct rig rig;
        rig_open(&rig);
        int master, slave;
        eq_int(pty_open(24, 80, &master, &slave), 0);
        const char *const argv[] = { "sh", "-c", "stty size < /dev/tty; cut -d' ' -f8 /proc/$$/stat; echo $$",
                                     NULL };
        const char *const candidates[] = { "/bin/sh", NULL };
        const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
        const struct command_spec command = {
                .argv = argv,
                .env = env,
                .candidates = candidates,
                .cwd = "/",
                .is_tty = true,
        };
        const int stdio[] = { slave, slave, slave };
        eq_int(spawn_start(rig.s, 1, &command, stdio), 0);
        close(slave);
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_int(rig.seen[1].exit.status, 0);

        char text[256] = "", want[64];
        size_t n = 0;
        for (;;) {
                struct pollfd p = { .fd = master, .events = POLLIN };
                eq_int(poll(&p, 1, RIG_PATIENCE_MS), 1);
                ssize_t r = read(master, text + n, sizeof(text) - 1 - n);
                if (r < 0 && errno == EIO) /* no process has the other end open */
                        break;
                n += (size_t)MAX(r, 0);
        }
        text[n] = 0;
        snprintf(want, sizeof(want), "24 80\r\n%d\r\n%d\r\n", (int)rig.seen[1].pid, (int)rig.seen[1].pid);
        eq_str(text, want);
        close(master);
        rig_close(&rig);
}
