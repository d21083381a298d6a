/* prepare: from a permission profile to an image: rules, matches of patterns, plan, filter.
 *
 * What is the same for all commands is made once: the filters of system calls, and which back end works here. The rest
 * looks at the file system, and blocks as long as that does. From any thread.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "policy/rules.h"
#include "sandbox/backend.h"
#include "sandbox/plan.h"
#include "sandbox/seccomp.h"

#include <pthread.h>

struct preparer {
        pthread_mutex_t lock;
        struct seccomp_filter filters[SECCOMP_KINDS]; /* code NULL: not made yet */
        struct glob_cache *globs;
        pthread_mutex_t test_lock; /* held while it is being found out … */
        bool is_tested;            /* … and what has been found */
        struct backends backends;
};

void preparer_init(struct preparer *p, enum backend wish);
void preparer_release(struct preparer *p);

/* Which back end is used. The first who asks finds out, and others wait for it: some milliseconds. */
const struct backends *preparer_backends(struct preparer *p);
/* NULL while nobody knows; does not block. */
NODISCARD const struct backends *preparer_backends_known(const struct preparer *p);

/* Must something be enforced on a command? Otherwise it runs plainly. */
NODISCARD bool profile_must_enforce(const struct profile *p);

/* What would be done; for --explain. -errno with err. `p` may be NULL: nothing is remembered then. */
NODISCARD int prepare_plan(struct preparer *p, struct arena *a, const struct profile *profile,
                           const struct place *place, struct plan *ret, struct err *err);

/* A descriptor (sandbox/image.h) and the plan that it was made from (in the arena), or -errno with err: step "plan" or
 * "glob scan" where it was the profile, that of the back end where none can enforce it. */
NODISCARD int prepare_image(struct preparer *p, struct arena *a, const struct profile *profile,
                            const struct place *place, struct plan *ret_plan, struct err *err);

/* For a file request. One that only reads needs to know no more of a profile that denies nothing. */
NODISCARD int prepare_file_plan(struct preparer *p, struct arena *a, const struct profile *profile,
                                const struct place *place, bool only_reads, struct plan *ret,
                                struct err *err);
/* For a process that serves file requests under this plan: a descriptor, or -errno with err. */
NODISCARD int prepare_file_image(struct preparer *p, struct arena *a, const struct plan *plan,
                                 struct err *err);

/* Why a start failed that had an image: the text, step, errno and remedy; no code of JSON-RPC. `step`, `os_errno` and `op`
 * are those of spawn_events.failed. */
void prepare_explain(int image_fd, const char *step, int os_errno, uint32_t op, struct err *err);
/* Is this step the sandbox's, and not one that every command has? */
NODISCARD bool prepare_is_step(const char *step);
