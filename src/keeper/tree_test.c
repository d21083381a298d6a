/* tree_test: a walk below another process. Walks of keepers below themselves are tested in proc/spawn_end_test.c. */
#include "unit.h"

#include "base/sys.h"
#include "keeper/tree.h"

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
        eq_int(recv(ends[0], bytes, 1, 0),
               0); /* both processes are gone, so no process has the other end open */
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
