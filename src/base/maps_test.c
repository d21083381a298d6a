/* maps_test: that a new process drops the shared mappings of its parent. */
#include "base/maps.h"

#include "unit.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 65536

static char *map(int flags)
{
        char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
        ok(p != MAP_FAILED);
        *p = 'x';
        return p;
}

static bool is_mapped(char *p)
{
        return msync(p, BYTES, MS_ASYNC) == 0;
}

/* Forks and drops the shared mappings in the child. Returns the wait status of the child, which is 0 when exactly the
 * right mappings are left there. One shared mapping has two parts with different protection. */
static int status_of_drop(bool keeps)
{
        char *own = map(MAP_PRIVATE), *kept = map(MAP_SHARED), *dropped = map(MAP_SHARED);
        int status = -1;
        eq_int(mprotect(dropped, BYTES / 2, PROT_NONE), 0);
        pid_t pid = fork();
        if (pid == 0) {
                bool good = maps_drop_shared(keeps ? kept : NULL) == 0 && *own == 'x' &&
                            !is_mapped(dropped) && is_mapped(kept) == keeps && (!keeps || *kept == 'x');
                _exit(good ? 0 : 1);
        }
        eq_int(waitpid(pid, &status, 0), pid);
        ok(is_mapped(kept) && is_mapped(dropped));
        eq_int(munmap(own, BYTES) | munmap(kept, BYTES) | munmap(dropped, BYTES), 0);
        return status;
}

TEST(a_new_process_drops_what_it_shares)
{
        skip_in_valgrind("has shared mappings of its own");
        eq_int(status_of_drop(false), 0);
}

TEST(a_new_process_keeps_one_thing_that_it_shares)
{
        skip_in_valgrind("has shared mappings of its own");
        eq_int(status_of_drop(true), 0);
}
