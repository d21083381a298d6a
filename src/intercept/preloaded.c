/* preloaded: finds the library that is loaded into commands, and its wrapper (preloaded.h). */
#include "intercept/preloaded.h"

#include "sandbox/helper.h"

#include <errno.h>
#include <string.h>

#define LIBRARY "farhand-preload.so"
#define WRAPPER "farhand-execve-wrapper"

int preloaded_find(struct preloaded *ret, const char **ret_missing)
{
        *ret_missing = LIBRARY;
        int r = helper_find(LIBRARY, ret->library);
        if (r < 0)
                return r;
        /* ld.so takes these as the end of a path, or as the name of another directory. */
        if (strpbrk(ret->library, ": ;$"))
                return -EINVAL;
        *ret_missing = WRAPPER;
        return helper_find(WRAPPER, ret->wrapper);
}
