/* fence_test: the user namespace that holds the user namespaces of all sandboxes. */
#include "unit.h"

#include "spawner/fence.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
