/* refusal: finds the rule of a plan that refuses what a command reports as refused. Pure.
 *
 * A denial (denial/denials.h) is a guess from words; the plan knows what the sandbox refuses. What the plan allows was
 * refused for another reason: permissions of a file, an error of a disk, another machine. Paths are taken as they are
 * written: a link in a path may lead elsewhere.
 */
#pragma once

#include "denial/denials.h"
#include "plan/plan.h"

enum refusal_reason {
        REFUSAL_READ_ONLY, /* the plan allows no writing at all */
        REFUSAL_OUTSIDE,   /* the path is only readable, while other paths are writable */
        REFUSAL_NO_ENTRY,  /* no entry names the path, and the profile denies what no entry names */
        REFUSAL_ENTRY,     /* an entry of the profile refuses the access; op->path is the path of the entry */
        REFUSAL_PROTECTED, /* the path is a protected name in a writable directory, or such a name points at it */
        REFUSAL_PATTERN, /* the path matches a denied pattern */
        REFUSAL_OTHER,   /* the operation has another reason, which op->why says */
        REFUSAL_OWN,     /* the path is in /dev or /proc, which belong to the sandbox */
        REFUSAL_NETWORK, /* the network is closed */
};

struct refusal {
        enum refusal_reason reason;
        const char *operation;    /* "read", "write" or "connect" */
        const struct plan_op *op; /* the operation that refuses; NULL: the root of the plan */
};

/* Finds the rule that explains a denial. Returns false when the plan does not refuse what the denial reports, or when that cannot
 * be found out. `is_landlock`: Landlock alone enforces the plan; the errors of Landlock do not distinguish reading and writing.
 * The path of the denial has no "." and no "..". */
NODISCARD bool refusal_find(const struct plan *p, bool is_landlock, const struct denial *d,
                            struct refusal *ret);
