/* fatal_test: how the program ends when it cannot go on. */
#include "base/fatal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[] = "/tmp/fatal-XXXXXX";

static struct stat make_file(void)
{
        struct stat st;
        memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
        int fd = mkstemp(path);
        ok(fd >= 0);
        eq_int(fstat(fd, &st), 0);
        fd_close(fd);
        return st;
}

/* Runs `fn` in a child that leaves no core; what it writes to stderr goes into `ret`. Returns its wait status. */
static int end_of(void (*fn)(void), char *ret, size_t size)
{
        int fds[2], status;
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
                signal(SIGABRT, SIG_DFL); /* cmocka and the sanitizers may have handlers */
                dup2(fds[1], STDERR_FILENO);
                fn();
                _exit(0);
        }
        fd_close(fds[1]);
        size_t n = 0;
        for (ssize_t r = 1; r > 0; n += r > 0 ? (size_t)r : 0)
                r = read(fds[0], ret + n, size - 1 - n);
        ret[n] = '\0';
        fd_close(fds[0]);
        eq_int(waitpid(pid, &status, 0), pid);
        return status;
}

static struct stat file_to_remove;

static void end_with_file(void)
{
        fatal_removes(path, file_to_remove.st_dev, file_to_remove.st_ino);
        fatal("cannot go on", ENOSPC);
}

TEST(fatal_says_one_line_removes_its_file_and_exits)
{
        char text[256];
        file_to_remove = make_file();
        int status = end_of(end_with_file, text, sizeof(text));
        ok(WIFEXITED(status));
        eq_int(WEXITSTATUS(status), 1);
        eq_str(text, "fatal: cannot go on: No space left on device\n");
        ok(access(path, F_OK) < 0);
}

TEST(fatal_leaves_a_file_that_is_another_one_by_now)
{
        char text[256];
        file_to_remove = make_file();
        file_to_remove.st_ino++;
        end_of(end_with_file, text, sizeof(text));
        eq_int(unlink(path), 0);
}

static void end_without_file(void)
{
        fatal("cannot go on", 0);
}

TEST(fatal_in_another_process_leaves_the_file)
{
        char text[256];
        file_to_remove = make_file();
        fatal_removes(path, file_to_remove.st_dev, file_to_remove.st_ino);
        end_of(end_without_file, text, sizeof(text));
        fatal_removes(NULL, 0, 0);
        eq_str(text, "fatal: cannot go on\n");
        eq_int(unlink(path), 0);
}

/* stderr is a full pipe that is never read. */
static void end_unheard(void)
{
        int fds[2];
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0)
                while (write(fds[1], "x", 1) == 1)
                        ;
        ok(fd_set_nonblock(fds[1], false) == 0);
        dup2(fds[1], STDERR_FILENO);
        fatal("cannot go on", 0);
}

TEST(fatal_does_not_wait_for_a_reader)
{
        char text[256];
        int status = end_of(end_unheard, text, sizeof(text));
        ok(WIFEXITED(status));
        eq_int(WEXITSTATUS(status), 1);
}

static void ask_for_everything(void)
{
        void *volatile p = mem_alloc(SIZE_MAX / 2);
        free(p);
}

TEST(out_of_memory_is_said_and_ends_the_program_in_order)
{
        char text[4096];
        if (IS_ASAN)
                return; /* ASan prints its own message */
        int status = end_of(ask_for_everything, text, sizeof(text));
        ok(WIFEXITED(status));
        eq_int(WEXITSTATUS(status), 1);
        eq_str(text, "fatal: out of memory\n");
}

TEST(an_eventfd_that_is_full_is_signalled_already)
{
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        eq_int(eventfd_write(fd, UINT64_MAX - 1), 0);
        fd_signal(fd);
        eventfd_t count;
        eq_int(eventfd_read(fd, &count), 0);
        fd_signal(fd);
        eq_int(eventfd_read(fd, &count), 0);
        eq_u64(count, 1);
        fd_close(fd);
}

static void signal_in_vain(void)
{
        fd_signal(open("/dev/full", O_WRONLY | O_CLOEXEC));
}

TEST(a_signal_that_nobody_will_ever_get_ends_the_program_with_a_reason)
{
        char text[256];
        int status = end_of(signal_in_vain, text, sizeof(text));
        ok(WIFEXITED(status));
        eq_int(WEXITSTATUS(status), 1);
        eq_str(text, "fatal: cannot wake a thread: No space left on device\n");
}

static void break_a_promise(void)
{
        must(1 + 1 == 3);
}

static void keep_a_promise(void)
{
        must(1 + 1 == 2);
}

TEST(broken_must_aborts_and_says_where)
{
        char text[1024];

        int status = end_of(break_a_promise, text, sizeof(text));
        ok(WIFSIGNALED(status));
        eq_int(WTERMSIG(status), SIGABRT);
        ok(strstr(text, "fatal_test.c:") != NULL);
        ok(strstr(text, "must(1 + 1 == 3)") != NULL);
        eq_int(end_of(keep_a_promise, text, sizeof(text)), 0);
}

static void close_twice(void)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        fd_close(fd);
        fd_close(fd);
}

/* stderr is a full pipe that is never read. */
static void break_must_with_a_full_pipe(void)
{
        int fds[2];

        (void)alarm(10); /* when must() waits for the pipe, SIGALRM ends it and not SIGABRT */
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                _exit(1);
        while (write(fds[1], "x", 1) == 1)
                ;
        if (fcntl(fds[1], F_SETFL, 0) < 0 || dup2(fds[1], STDERR_FILENO) < 0)
                _exit(1);
        must(1 > 2);
}

TEST(broken_must_aborts_though_nobody_reads_why)
{
        char text[16];
        int status = end_of(break_must_with_a_full_pipe, text, sizeof(text));

        ok(WIFSIGNALED(status));
        eq_int(WTERMSIG(status), SIGABRT);
}

TEST(closing_a_descriptor_twice_aborts)
{
        char text[1024];

        int status = end_of(close_twice, text, sizeof(text));
        ok(WIFSIGNALED(status));
        eq_int(WTERMSIG(status), SIGABRT);
}
