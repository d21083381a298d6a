/* bind: what an operation that mounts a file or directory of the machine (PLAN_ACT_BIND) gives, in the terms of the kernel.
 *
 * Both builders of a view, the ruleset that replaces a view and both checks of a view call these functions, so that none of them
 * can grant what another one does not know of. Each function is a switch that does not compile until it has a case for every member
 * of enum plan_gives. They call nothing but plan_kind_row, because they run between clone and execve.
 */
#pragma once

#include "plan/plan_kind.h"
#include "sandbox/landlock.h"
#include "sandbox/sys_mount.h"

/* Returns the attributes that the mount has at least; a mask is read-only as well. */
static inline uint64_t bind_attributes(unsigned kind)
{
        switch (plan_kind_row(kind)->gives) {
        case PLAN_GIVES_WRITE:
                return SYS_ATTR_NOSUID;
        case PLAN_GIVES_READ:
        case PLAN_GIVES_WAY:
        case PLAN_GIVES_NOTHING:
        case PLAN_GIVES_PASS:
        case PLAN_GIVES_EMPTY:
        case PLAN_GIVES_NO_WORD:
                break;
        }
        return SYS_ATTR_NOSUID | SYS_ATTR_RDONLY;
}

/* Returns the right of Landlock at this path and below it. */
static inline enum landlock_right bind_right(unsigned kind)
{
        switch (plan_kind_row(kind)->gives) {
        case PLAN_GIVES_WRITE:
                return LANDLOCK_WRITE;
        case PLAN_GIVES_READ:
                return LANDLOCK_READ;
        case PLAN_GIVES_WAY:
        case PLAN_GIVES_NOTHING:
        case PLAN_GIVES_PASS:
        case PLAN_GIVES_EMPTY:
        case PLAN_GIVES_NO_WORD:
                break;
        }
        return LANDLOCK_LIST;
}
