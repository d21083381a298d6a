#include "base/mem.h"

#include "base/fd.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `fn` in a child without core file; its stderr goes into `ret`, which has room for `size` bytes. */
static int status_of_child(void (*fn)(void), char *ret, size_t size)
{
        int fds[2];
        int status;

        eq_int(pipe2(fds, O_CLOEXEC), 0);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
                signal(SIGABRT, SIG_DFL); /* cmocka and the sanitizers may have their own */
                dup2(fds[1], STDERR_FILENO);
                fn();
                _exit(0);
        }

        fd_close(fds[1]);
        size_t n = 0;
        for (;;) {
                ssize_t r = read(fds[0], ret + n, size - 1 - n);
                if (r <= 0)
                        break;
                n += (size_t)r;
        }
        ret[n] = '\0';
        fd_close(fds[0]);
        eq_int(waitpid(pid, &status, 0), pid);
        return status;
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

        int status = status_of_child(break_a_promise, text, sizeof(text));
        ok(WIFSIGNALED(status));
        eq_int(WTERMSIG(status), SIGABRT);
        ok(strstr(text, "mem_test.c:") != NULL);
        ok(strstr(text, "must(1 + 1 == 3)") != NULL);
        eq_int(status_of_child(keep_a_promise, text, sizeof(text)), 0);
}

static void close_twice(void)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        fd_close(fd);
        fd_close(fd);
}

TEST(closing_a_descriptor_twice_aborts)
{
        char text[1024];

        int status = status_of_child(close_twice, text, sizeof(text));
        ok(WIFSIGNALED(status));
        eq_int(WTERMSIG(status), SIGABRT);
}

TEST(allocating_nothing_gives_memory_of_its_own)
{
        _free_ char *a = mem_alloc(0);
        _free_ char *b = mem_zalloc(0);
        _free_ char *c = mem_realloc(NULL, 0);

        ok(a && b && c && a != b && b != c);
        c = mem_realloc(c, 0);
        ok(c != NULL);
}

TEST(zeroed_memory_is_zero)
{
        struct pair {
                uint64_t a, b;
        };
        _free_ struct pair *p = mem_new(struct pair);

        eq_u64(p->a, 0);
        eq_u64(p->b, 0);
}

TEST(text_is_copied_and_formatted)
{
        _free_ char *copy = mem_strdup("abc");
        _free_ char *text = mem_printf("%s-%d", copy, 7);

        eq_str(copy, "abc");
        eq_str(text, "abc-7");
        ok(mem_strdup(NULL) == NULL);
}

TEST(taken_pointer_is_not_freed_by_its_scope)
{
        char *kept;
        {
                _free_ char *p = mem_strdup("still here");
                kept = TAKE(p);
                ok(p == NULL);
        }
        eq_str(kept, "still here");
        free(kept);
}
