/* tree_test: a walk below another process, and below the children of a second thread. Walks of keepers below themselves are tested in
 * proc/spawn_end_test.c. */
#include "unit.h"

#include "base/sys.h"
#include "keeper/tree.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static NORETURN void sleep_until_killed(int hello)
{
        alarm(20);
        (void)!write(hello, "", 1);
        for (;;)
                (void)pause();
}

TEST(all_below_a_child_are_killed_and_not_the_child)
{
        int ends[2];
        struct tree_entry room[64];
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        pid_t top = fork();
        ok(top >= 0);
        if (top == 0) {
                pid_t below = fork();
                if (below == 0 && fork() == 0)
                        sleep_until_killed(ends[1]);
                if (below == 0)
                        sleep_until_killed(ends[1]);
                int status = 0;
                bool is_killed = waitpid(below, &status, 0) == below && WIFSIGNALED(status);
                _exit(is_killed && WTERMSIG(status) == SIGKILL ? 7 : 1);
        }
        close(ends[1]);
        char bytes[2];
        eq_int(recv(ends[0], bytes, 2, MSG_WAITALL), 2);
        tree_kill_below(top, room, ARRAY_LEN(room));
        eq_int(recv(ends[0], bytes, 1, 0), 0); /* no process has the other end open: both are gone */
        int status;
        eq_int(waitpid(top, &status, 0), top);
        eq_int(WEXITSTATUS(status), 7);
        close(ends[0]);
}

TEST(nobody_below_is_no_trouble)
{
        struct tree_entry room[4];
        pid_t top = fork();
        ok(top >= 0);
        if (top == 0)
                _exit(0);
        tree_kill_below(top, room, ARRAY_LEN(room));
        eq_int(waitpid(top, NULL, 0), top);
}

/* ---- a process with a second thread ---- */

#define TOLD 5 /* exit status of the processes below, when SIGUSR1 came */

struct second {
        int hello, go; /* the thread writes to `hello`, and ends when `go` is closed */
        pid_t child;
};

static NORETURN void wait_for_signal(int hello)
{
        sigset_t set;
        int signo;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        (void)!write(hello, "", 1);
        _exit(sigwait(&set, &signo) == 0 && signo == SIGUSR1 ? TOLD : 1);
}

static void *make_children(void *arg)
{
        struct second *s = arg;
        char byte;
        s->child = fork();
        if (s->child == 0) {
                alarm(20);
                if (fork() == 0) {
                        alarm(20);
                        wait_for_signal(s->hello);
                }
                wait_for_signal(s->hello);
        }
        int status = 0;
        (void)!read(s->go, &byte, 1);
        return waitpid(s->child, &status, 0) == s->child && WIFEXITED(status) && WEXITSTATUS(status) == TOLD
                       ? s
                       : NULL;
}

/* Runs in a process of its own, whose children are those of the test alone. Returns the step that failed. */
static int signal_second(void)
{
        int ends[2], go[2], status;
        struct tree_entry room[64];
        sigset_t set;
        pthread_t thread;
        void *result;
        char bytes[3];
        alarm(20);
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 || pipe2(go, O_CLOEXEC) < 0)
                return 1;
        pid_t own = fork();
        if (own == 0) {
                alarm(20);
                wait_for_signal(ends[1]);
        }
        struct second s = { .hello = ends[1], .go = go[0] };
        if (pthread_create(&thread, NULL, make_children, &s) != 0)
                return 2;
        if (recv(ends[0], bytes, 3, MSG_WAITALL) != 3)
                return 3;
        if (tree_signal(SIGUSR1, room, ARRAY_LEN(room)) != 0)
                return 4;
        close(go[1]);
        if (pthread_join(thread, &result) != 0 || result != &s)
                return 5;
        if (waitpid(own, &status, 0) != own || WEXITSTATUS(status) != TOLD)
                return 6;
        /* The child of the thread's child has become a child of this process. */
        return wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == TOLD ? 0 : 7;
}

TEST(a_signal_reaches_the_children_of_all_threads)
{
        pid_t top = fork();
        ok(top >= 0);
        if (top == 0)
                _exit(signal_second());
        int status;
        eq_int(waitpid(top, &status, 0), top);
        ok(WIFEXITED(status));
        eq_int(WEXITSTATUS(status), 0);
}
