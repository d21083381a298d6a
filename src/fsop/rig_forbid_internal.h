/* rig_forbid: forbids a system call, like an old kernel or the filter of a container. Only for x_test.c. */
#pragma once

#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>

/* Makes `call` fail with the errno `answer` from now on, in this process and its children. Returns false where filters are
 * forbidden. */
static inline bool rig_forbid(int call, int answer)
{
        scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
        bool is_forbidden = filter &&
                            seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint16_t)answer), call, 0) == 0 &&
                            seccomp_load(filter) == 0;

        if (filter)
                seccomp_release(filter);
        return is_forbidden;
}
