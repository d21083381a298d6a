/* pipe_watch_test: whether a server that waits for the lock of a pipe is recognized. */
#include "unit.h"

#include "base/fd.h"
#include "spawner/pipe_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOKS_MAX 2000 /* one each millisecond */

static void check_judged(const char *stat, const char *wchan, enum pipe_sleep sleep, bool is_ending)
{
        struct pipe_sleeper s = pipe_watch_judge(stat, wchan);
        eq_int(s.sleep, sleep);
        eq_int(s.is_ending, is_ending);
}

TEST(only_a_sleep_that_nothing_interrupts_counts)
{
        check_judged("7 (x) R 1 1 1 0 -1 4194560 0", NULL, PIPE_NO_SLEEP, false);
        check_judged("7 (x) S 1 1 1 0 -1 4194560 0", "pipe_read", PIPE_NO_SLEEP, false);
        check_judged("7 (x) D 1 1 1 0 -1 4194560 0", "pipe_read", PIPE_LOCKED, false);
        check_judged("7 (x) D 1 1 1 0 -1 4194560 0", "anon_pipe_write", PIPE_LOCKED, false);
        check_judged("7 (x) D 1 1 1 0 -1 4194560 0", "tty_lock", PIPE_LOCKED, false);
        check_judged("7 (x) D 1 1 1 0 -1 4194560 0", "folio_wait_bit_common", PIPE_MAYBE, false);
        check_judged("7 (x) D 1 1 1 0 -1 4194560 0", "0", PIPE_MAYBE, false);
        check_judged("7 (x) D 1 1 1 0 -1 4194560 0", NULL, PIPE_MAYBE, false);
}

TEST(what_cannot_be_read_counts_as_unsure)
{
        static const char whole[] = "7 (x) R 1 1 1 0 -1 4194560 0";
        check_judged(NULL, NULL, PIPE_MAYBE, false);
        char text[sizeof(whole)];
        size_t flags = strlen(whole) - strlen("4194560 0");
        for (size_t n = 0; n < flags; n++) {
                memcpy(text, whole, n);
                text[n] = 0;
                check_judged(text, NULL, PIPE_MAYBE, false);
        }
}

TEST(a_name_cannot_pretend_to_be_a_state)
{
        check_judged("7 (x) D 1) R 1 1 1 0 -1 4194560 0", "pipe_read", PIPE_NO_SLEEP, false);
        check_judged("7 (pipe) D ) D 1 1 1 0 -1 4194564 0", "0", PIPE_MAYBE, true);
}

TEST(an_end_is_told_before_the_process_is_dead)
{
        check_judged("7 (x) D 1 1 1 0 -1 4194564 0", "pipe_release", PIPE_LOCKED, true);
        check_judged("7 (x) R 1 1 1 0 -1 4 0", NULL, PIPE_NO_SLEEP, true);
        check_judged("7 (x) Z 1 1 1 0 -1 4227084 0", NULL, PIPE_NO_SLEEP, true);
}

TEST(a_call_is_seen_by_a_process_that_was_forked_before)
{
        int ends[2];
        eq_int(pipe_watch_open(), 0);
        eq_int(pipe_watch_open(), 0);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        uint32_t before = pipe_watch_look().count;
        ok(!pipe_watch_look().is_under_way);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                char byte;
                ssize_t n = read(ends[1], &byte, 1);
                struct pipe_call call = pipe_watch_look();
                _exit(n == 1 && call.is_under_way && call.number == 0xfffffffe && call.count == before + 1
                              ? 0
                              : 1);
        }
        pipe_watch_begin(0xfffffffe);
        eq_int(write(ends[0], "", 1), 1);
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
        pipe_watch_end();
        ok(!pipe_watch_look().is_under_way);
        eq_int((int)(pipe_watch_look().count - before), 2);
        fd_close(ends[0]);
        fd_close(ends[1]);
}

/* Starts a child that splices from an empty socket into the pipe, and so keeps the pipe's lock. */
static pid_t holder_of(int pipe_fd)
{
        int ends[2];
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                alarm(20);
                (void)splice(ends[0], NULL, pipe_fd, NULL, 1, 0);
                _exit(0);
        }
        fd_close(ends[0]);
        for (int i = 0; i < LOOKS_MAX; i++) { /* until the child sleeps in splice */
                char path[64], text[128] = { 0 };
                (void)snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
                fd_close(fd);
                if (n < 0 || (strncmp(text, "running", 7) != 0 && strtol(text, NULL, 10) == SYS_splice))
                        break;
                (void)poll(NULL, 0, 1);
        }
        fd_close(ends[1]);
        return pid;
}

static void end(pid_t pid)
{
        (void)kill(pid, SIGKILL);
        eq_int(waitpid(pid, NULL, 0), pid);
}

TEST(who_waits_for_the_lock_of_a_pipe_is_found)
{
        int ends[2];
        if (!pipe_watch_has_proc())
                skip();
        eq_int(pipe2(ends, O_CLOEXEC), 0);
        eq_int(fd_set_nonblock(ends[0], true), 0);
        pid_t holder = holder_of(ends[1]);
        pid_t reader = fork();
        ok(reader >= 0);
        if (reader == 0) {
                char byte;
                (void)!read(ends[0], &byte, 1);
                _exit(0);
        }
        enum pipe_sleep seen = PIPE_NO_SLEEP;
        for (int i = 0; i < LOOKS_MAX && seen == PIPE_NO_SLEEP; i++) {
                seen = pipe_watch_ask(reader, true).sleep;
                (void)poll(NULL, 0, 1);
        }
        ok(seen != PIPE_NO_SLEEP);
        eq_int(pipe_watch_ask(holder, true).sleep, PIPE_NO_SLEEP);
        eq_int(pipe_watch_ask(holder, false).sleep, PIPE_MAYBE);
        end(holder);
        eq_int(waitpid(reader, NULL, 0), reader);
        fd_close(ends[0]);
        fd_close(ends[1]);
}
