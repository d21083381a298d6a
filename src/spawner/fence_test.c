/* fence_test: the user namespace that holds the user namespaces of all sandboxes. */
#include "unit.h"

#include "spawner/fence.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t descriptors_count(void)
{
        DIR *dir = opendir("/proc/self/fd");
        ok(dir);
        size_t n = 0;
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

static void skip_without_fences(void)
{
        skip_in_valgrind("does not support clone with new namespaces");
        struct fence f = FENCE_NONE;
        if (fence_get(&f) < 0)
                skip();
        close(f.fd);
}

TEST(a_fence_is_another_user_namespace_and_one_descriptor)
{
        skip_without_fences();
        size_t before = descriptors_count();
        struct fence f = FENCE_NONE;
        struct stat ours, its;
        eq_int(stat("/proc/self/ns/user", &ours), 0);
        eq_int(fstat(fence_get(&f), &its), 0);
        ok(its.st_dev == ours.st_dev && its.st_ino != ours.st_ino);
        eq_int(fence_get(&f), f.fd);
        eq_u64(descriptors_count(), before + 1);
        close(f.fd);
}

TEST(a_fence_that_could_not_be_made_is_tried_again)
{
        skip_without_fences();
        struct rlimit usual, low;
        eq_int(getrlimit(RLIMIT_NOFILE, &usual), 0);
        low = usual;
        low.rlim_cur = 3;
        struct fence f = FENCE_NONE;
        eq_int(setrlimit(RLIMIT_NOFILE, &low), 0);
        int without = fence_get(&f);
        eq_int(setrlimit(RLIMIT_NOFILE, &usual), 0);
        eq_int(without, -1);
        eq_int(fence_get(&f), -1); /* a fence is not tried again at once, because each try delays a start */
        f.again_ms -= FENCE_AGAIN_MS;
        ok(fence_get(&f) >= 0);
        close(f.fd);
}

#define KILLS 200
#define END_MS 20000

/* Reaps all children, also those of a child that was killed. Returns false when one does not end. */
static bool all_end(void)
{
        uint64_t until_ms = clock_mono_ms() + END_MS;
        for (;;) {
                pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
                if (pid < 0 && errno == ECHILD)
                        return true;
                if (pid == 0 && clock_mono_ms() > until_ms)
                        return false;
                if (pid == 0)
                        usleep(100);
        }
}

TEST(who_is_killed_while_making_a_fence_leaves_no_process)
{
        skip_without_fences();
        eq_int(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
        for (int i = 0; i < KILLS; i++) {
                pid_t pid = fork();
                ok(pid >= 0);
                while (pid == 0) {
                        struct fence f = FENCE_NONE;
                        close(fence_get(&f));
                }
                usleep((useconds_t)i * 37 % 2000);
                eq_int(kill(pid, SIGKILL), 0);
                ok(all_end());
        }
        eq_int(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}
