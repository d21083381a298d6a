/* prepare: turns a permission profile into an image: rules, matches of patterns, plan, filter.
 *
 * Results that are the same for all commands are made once: the filters of system calls, and which back end works. The rest
 * examines the file system and blocks as long as that takes. Any thread may call these functions.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "plan/mount_table.h"
#include "plan/plan.h"
#include "policy/rules.h"
#include "sandbox/backend.h"
#include "sandbox/placeholder_lock.h"
#include "sandbox/seccomp.h"
#include "sandbox/user_limits.h"

#include <pthread.h>

#define PREPARER_CLOSED_MAX 4

struct preparer {
        pthread_mutex_t lock;
        struct seccomp_filter filters[SECCOMP_KINDS]; /* code NULL: not made yet */
        struct glob_cache *globs;
        struct mount_tables *mounts;
        pthread_mutex_t test_lock; /* held while back ends are tested */
        bool is_tested;            /* `backends` is valid */
        struct backends backends;
        uint64_t test_again_ms;                   /* when to test again after a temporary failure */
        struct user_limits limits;                /* the limits of each sandbox */
        struct slice closed[PREPARER_CLOSED_MAX]; /* paths that no view shows, on the heap */
        size_t closed_count;
        /* Finds the lock file for placeholders; NULL: there is none. */
        int (*locks_find)(struct placeholder_locks *ret, struct err *err);
        struct placeholder_locks locks; /* the lock file, once it was found */
};

void preparer_init(struct preparer *p, enum backend wish);
void preparer_release(struct preparer *p);

/* Hides a file or directory of the server from all profiles: no view shows it. `path` is absolute. Call this before the first
 * request. With Landlock alone the path stays visible. */
void preparer_add_closed(struct preparer *p, const char *path);

/* Sets the function that finds the lock file for placeholders (sandbox/placeholder_lock.h). The file is in a directory that
 * preparer_add_closed has hidden or that no view shows anyway. `find` is called when the file is first needed, and when the file was
 * removed meanwhile. */
void preparer_set_locks_find(struct preparer *p, int (*find)(struct placeholder_locks *ret, struct err *err));
/* Gives the lock file in *ret; finds it first where that is needed. Any thread may call this. Returns 0, or -errno with err
 * filled, whose text may go to a client. *ret_is_new: the directory of the file may have been created just now. */
NODISCARD int preparer_locks(struct preparer *p, struct placeholder_locks *ret, bool *ret_is_new,
                             struct err *err);

/* Returns the back end that is used. The first caller tests the back ends, which takes some milliseconds, and other callers
 * wait. After a temporary failure a later call tests again; the result is valid until this thread calls again. */
const struct backends *preparer_backends(struct preparer *p);
/* Returns the tested back ends, or NULL while they are not tested; does not block. */
NODISCARD const struct backends *preparer_backends_known(const struct preparer *p);

/* Returns the programs of bwrap for struct command_spec, for an image of this preparer; the image may be NULL. The result is valid
 * as long as the preparer. */
struct image;
NODISCARD const struct bwrap *preparer_bwrap(const struct preparer *p, const struct image *image);

/* Makes only the plan, for --explain. Returns 0, or -errno with err filled. `p` may be NULL: nothing is cached then. */
NODISCARD int prepare_plan(struct preparer *p, struct arena *a, const struct profile *profile,
                           const struct place *place, struct plan *ret, struct err *err);

/* Makes the image of a command. Returns its descriptor (sandbox/image.h) and the plan that it was made from (in the arena), or
 * -errno with err filled. The step is "plan" or "glob scan" when the profile is the reason, and a step of the back end when no back
 * end can enforce the profile. */
NODISCARD int prepare_image(struct preparer *p, struct arena *a, const struct profile *profile,
                            const struct place *place, struct plan *ret_plan, struct err *err);

/* Makes the plan of a file request. */
NODISCARD int prepare_file_plan(struct preparer *p, struct arena *a, const struct profile *profile,
                                const struct place *place, bool only_reads, struct plan *ret,
                                struct err *err);
/* Makes the image of an fs helper for this plan. Returns a descriptor, and in *ret_bwrap the programs that build its view
 * or NULL; or -errno with err filled. `cwd` is that of the request; cwd.p may be NULL. */
NODISCARD int prepare_file_image(struct preparer *p, struct arena *a, const struct plan *plan,
                                 struct slice cwd, const struct bwrap **ret_bwrap, struct err *err);

/* Fills err with the reason why a start with an image failed: text, step, errno and remedy, but no JSON-RPC code. `step`,
 * `os_errno` and `op` are those of spawn_events.failed. */
void prepare_explain(int image_fd, const char *step, int os_errno, uint32_t op, struct err *err);
/* Might the same start succeed with a new plan? Yes, when a path was replaced or removed between planning and building. */
NODISCARD bool prepare_is_overtaken(int image_fd, const char *step, int os_errno);
/* Is this a step of building a sandbox, and not one that every command has? */
NODISCARD bool prepare_is_step(const char *step);
