/* prepare: makes plans and images from permission profiles, and explains failed starts. */
#include "confine/prepare.h"

#include "base/clock.h"
#include "base/mem.h"
#include "glob/cache.h"
#include "glob/scan.h"
#include "plan/landlock_plan.h"
#include "sandbox/enter.h"
#include "sandbox/image.h"
#include "sandbox/landlock.h"
#include "sandbox/layers.h"

#include <errno.h>

/* The time between two attempts to find a back end, in addition to twice the duration of an attempt. */
#define TEST_AGAIN_MS 100

void preparer_init(struct preparer *p, enum backend wish)
{
        *p = (struct preparer){ .globs = glob_cache_new(),
                                .mounts = mount_tables_new(),
                                .backends = { .wish = wish, .bwrap = BWRAP_NONE },
                                .limits = user_limits_of_one(user_limits_read()) };
        pthread_mutex_init(&p->lock, NULL);
        pthread_mutex_init(&p->test_lock, NULL);
}

void preparer_release(struct preparer *p)
{
        for (size_t i = 0; i < ARRAY_LEN(p->filters); i++)
                seccomp_filter_release(&p->filters[i]);
        for (size_t i = 0; i < p->closed_count; i++)
                free((char *)(uintptr_t)p->closed[i].p);
        p->globs = glob_cache_free(p->globs);
        p->mounts = mount_tables_free(p->mounts);
        backends_release(&p->backends);
        pthread_mutex_destroy(&p->lock);
        pthread_mutex_destroy(&p->test_lock);
}

void preparer_add_closed(struct preparer *p, const char *path)
{
        must(path[0] == '/' && p->closed_count < PREPARER_CLOSED_MAX);
        p->closed[p->closed_count++] = slice_from_str(mem_strdup(path));
}

void preparer_set_locks_find(struct preparer *p, int (*find)(struct placeholder_locks *ret, struct err *err))
{
        p->locks_find = find;
}

int preparer_locks(struct preparer *p, struct placeholder_locks *ret, bool *ret_is_new, struct err *err)
{
        pthread_mutex_lock(&p->lock);
        int r = p->locks_find ? 0 : err_set(err, 0, -ENOLCK, "there is no place for it");
        *ret_is_new = r == 0 && !placeholder_locks_are_current(&p->locks);
        if (*ret_is_new)
                r = p->locks_find(&p->locks, err);
        if (r == 0)
                *ret = p->locks;
        pthread_mutex_unlock(&p->lock);
        if (r == 0)
                return 0;
        err->reason = "sandboxUnavailable";
        err->step = "stub";
        err->os_errno = -r;
        err->remedy = "set XDG_STATE_HOME to a directory that only the server's user can write, and start "
                      "the server again; as root: let it write /var/lib/farhand";
        return err_wrap(err,
                        "sandbox intent cannot be enforced on this executor: users of placeholders cannot "
                        "be counted");
}

const struct backends *preparer_backends_known(const struct preparer *p)
{
        return __atomic_load_n(&p->is_tested, __ATOMIC_ACQUIRE) ? &p->backends : NULL;
}

const struct backends *preparer_backends(struct preparer *p)
{
        static _Thread_local struct backends passing;
        pthread_mutex_lock(&p->test_lock);
        uint64_t begun_ms = clock_mono_ms();
        if (!p->is_tested && begun_ms >= p->test_again_ms) {
                backends_test(p->backends.wish, false, &p->backends);
                uint64_t ended_ms = clock_mono_ms();
                p->test_again_ms = ended_ms + TEST_AGAIN_MS + 2 * (ended_ms - begun_ms);
                __atomic_store_n(&p->is_tested, !p->backends.is_passing, __ATOMIC_RELEASE);
        }
        bool is_tested = p->is_tested;
        if (!is_tested)
                passing = p->backends; /* a copy, because the next attempt overwrites p->backends */
        pthread_mutex_unlock(&p->test_lock);
        return is_tested ? &p->backends : &passing;
}

const struct bwrap *preparer_bwrap(const struct preparer *p, const struct image *image)
{
        return image && image->backend == BACKEND_BUBBLEWRAP ? &p->backends.bwrap : NULL;
}

static int filter_get(struct preparer *p, enum seccomp_kind kind, struct err *err)
{
        int r = 0;
        pthread_mutex_lock(&p->lock);
        if (!p->filters[kind].code)
                r = seccomp_compile(kind, &p->filters[kind], err);
        pthread_mutex_unlock(&p->lock);
        return r;
}

static enum seccomp_kind filter_kind(enum backend backend, const struct profile *profile)
{
        if (backend != BACKEND_LANDLOCK)
                return profile->has_network ? SECCOMP_HOST_NETWORK : SECCOMP_OWN_NETWORK;
        if (!profile_limits_files(profile))
                return SECCOMP_NO_SOCKETS;
        return profile->has_network ? SECCOMP_ALONE_HOST_NETWORK : SECCOMP_ALONE_NO_SOCKETS;
}

/* Finds the existing paths that match the patterns; files that are made later cannot be masked. An fs helper compares
 * each path with the patterns itself but cannot know which links lead to a match. So it needs only the links, and no number of
 * matches is too large. */
static int expand(struct preparer *p, struct arena *a, const struct rules *rules, bool only_links,
                  struct glob_matches **ret_matches, struct slice **ret, size_t *ret_count, struct err *err)
{
        const struct glob_query query = { .patterns = rules->globs,
                                          .count = rules->glob_count,
                                          .depth = rules->glob_depth };
        int r = p ? glob_cache_scan(p->globs, &query, ret_matches, err) : glob_scan(&query, ret_matches, err);
        if (r < 0)
                return r;
        const struct glob_matches *m = *ret_matches;
        if (m->is_overfull && !only_links)
                return glob_refuse_count(err, rules->globs[0]);
        *ret = arena_alloc(a, MAX(m->count, 1u) * sizeof(**ret));
        for (size_t i = 0; i < m->count; i++)
                if (!only_links || m->list[i].is_symlink || !m->is_overfull)
                        (*ret)[(*ret_count)++] = m->list[i].path; /* valid until the plan is made */
        return 0;
}

/* Makes the plan with the facts of the machine: mounts, closed paths, matches. */
static int plan_of(struct preparer *p, struct arena *a, struct plan_input *in, struct plan *ret,
                   struct err *err)
{
        _glob_matches_ struct glob_matches *matches = NULL;
        _mount_table_ struct mount_table *mounts = NULL;
        struct slice *denied = NULL;
        /* Landlock alone cannot hide a path inside of a readable directory. An fs helper refuses such a path itself. */
        bool can_narrow = p && (in->is_for_files || p->backends.chosen != BACKEND_LANDLOCK);
        int r = 0;
        if (in->rules->glob_count > 0)
                r = expand(p, a, in->rules, in->is_for_files, &matches, &denied, &in->denied_count, err);
        if (r == 0 && can_narrow)
                r = mount_tables_get(p->mounts, &mounts, err);
        if (r < 0)
                return r;
        in->denied = denied;
        in->has_linked_globs = matches && matches->has_links;
        in->mounts = mounts;
        if (can_narrow && !layer_is_off(LAYER_CLOSED)) {
                in->closed = p->closed;
                in->closed_count = p->closed_count;
        }
        r = plan_make(a, in, ret, err);
        ret->is_overfull = matches && matches->is_overfull;
        return r;
}

int prepare_plan(struct preparer *p, struct arena *a, const struct profile *profile,
                 const struct place *place, struct plan *ret, struct err *err)
{
        struct rules rules;
        struct plan_input in = { .rules = &rules, .has_network = profile->has_network };
        int r = rules_resolve(a, profile, place, &rules, err);
        if (r == 0)
                r = plan_of(p, a, &in, ret, err);
        if (r < 0 && !err->step)
                err->step = "plan";
        return r;
}

/* Returns 1 when a single rule, that everything is readable, can replace the profile; otherwise 0, or -errno with err filled. That
 * is possible for a request that only reads, under a profile that denies nothing, unless a second /proc would show the processes of
 * the machine. */
static int is_simple(struct preparer *p, const struct rules *rules, bool only_reads, struct err *err)
{
        _mount_table_ struct mount_table *mounts = NULL;
        if (!rules->limits_files || !rules->reads_all || !only_reads)
                return 0;
        int r = mount_tables_get(p->mounts, &mounts, err);
        return r < 0 ? r : !mounts->has_other_proc;
}

int prepare_file_plan(struct preparer *p, struct arena *a, const struct profile *profile,
                      const struct place *place, bool only_reads, struct plan *ret, struct err *err)
{
        struct rules rules;
        struct rule all = { S("/"), ACCESS_READ };
        struct plan_input in = { .rules = &rules, .is_for_files = true };
        int r = rules_resolve(a, profile, place, &rules, err);
        if (r == 0)
                r = is_simple(p, &rules, only_reads, err);
        if (r == 1) {
                struct slice profile_key = rules_canonical(a, &rules);
                rules = (struct rules){ .limits_files = true, .reads_all = true, .list = &all, .count = 1 };
                r = plan_of(p, a, &in, ret, err);
                ret->profile_key = profile_key;
        } else if (r == 0) {
                r = plan_of(p, a, &in, ret, err);
        }
        if (r < 0 && !err->step)
                err->step = "plan";
        return r;
}

/* Adds to err which back end could have enforced the plan, and why that back end does not work here. */
static int explain_landlock(const struct backends *b, int r, struct err *err)
{
        const struct backend_test *better = &b->tests[BACKEND_NAMESPACES];
        char text[ERR_TEXT_BYTES];
        err->reason = "sandboxUnavailable";
        if (!better->was_tried) {
                err->remedy = "the server was told to use Landlock (--sandbox-backend): let it choose";
                return r;
        }
        err->remedy = better->remedy;
        (void)snprintf(text, sizeof(text), "%s", err->text);
        return err_set(err, 0, r, "%s, and namespaces do not work: %s: %s (os error %d)", text, better->step,
                       errno_text(better->os_errno), better->os_errno);
}

/* Makes the arguments of bwrap, unless a command could replace one of its programs. `view` is the plan that bwrap builds, and
 * `plan` the one that the programs are checked against. */
static int bwrap_prepare(const struct image_extra *extra, const struct plan *plan, const struct plan *view,
                         struct slice cwd, struct bwrap_arguments *ret, struct err *err)
{
        const char *exposed = bwrap_exposed(extra->bwrap, plan, cwd);
        if (!exposed)
                return bwrap_arguments_make(view, extra->landlock_abi > 0, ret, err);
        err->step = "bubblewrap";
        err->os_errno = EPERM;
        err->remedy = exposed == extra->bwrap->init
                              ? "install farhand where commands may not write"
                              : "put another bwrap on the server's PATH, outside of what commands may write";
        return err_set(err, 0, -EPERM, "%s is where the command works or may write", exposed);
}

static int image_of(const struct plan *plan, const struct image_extra *extra, struct err *err)
{
        int r = image_make(plan, extra);
        if (r >= 0)
                return r;
        err->os_errno = -r;
        return err_set(err, 0, r, "%s (os error %d)", errno_text(r), -r);
}

/* Makes a plan, and finds the lock file for its placeholders if it has any. */
static int prepare_plan_and_locks(struct preparer *p, struct arena *a, const struct profile *profile,
                                  const struct place *place, struct plan *ret,
                                  struct placeholder_locks *ret_locks, struct err *err)
{
        bool is_new = false;
        int r = prepare_plan(p, a, profile, place, ret, err);
        /* Landlock alone refuses a plan with placeholders. */
        if (r == 0 && ret->placeholder_count > 0 && p->backends.chosen != BACKEND_LANDLOCK)
                r = preparer_locks(p, ret_locks, &is_new, err);
        /* The directory of the lock file may be new; the view must hide it as well. */
        return r == 0 && is_new ? prepare_plan(p, a, profile, place, ret, err) : r;
}

int prepare_image(struct preparer *p, struct arena *a, const struct profile *profile,
                  const struct place *place, struct plan *ret_plan, struct err *err)
{
        const struct backends *backends = preparer_backends(p);
        if (backends->chosen == BACKEND_NONE)
                return backends_refuse(backends, err);
        enum seccomp_kind kind = filter_kind(backends->chosen, profile);
        struct placeholder_locks locks;
        int r = filter_get(p, kind, err);
        if (r == 0)
                r = prepare_plan_and_locks(p, a, profile, place, ret_plan, &locks, err);
        if (r == 0 && backends->chosen == BACKEND_LANDLOCK) {
                struct plan alone;
                r = landlock_plan(a, ret_plan, true, &alone, err);
                if (r < 0)
                        return explain_landlock(backends, r, err);
                *ret_plan = alone;
        }
        if (r < 0)
                return r;
        _bwrap_arguments_ struct bwrap_arguments arguments = BWRAP_ARGUMENTS_INIT;
        bool is_bwrap = backends->chosen == BACKEND_BUBBLEWRAP;
        const struct image_extra extra = { .backend = backends->chosen,
                                           .limits = p->limits,
                                           .filter = &p->filters[kind],
                                           .landlock_abi = backends->landlock_abi,
                                           .bwrap = is_bwrap ? &backends->bwrap : NULL,
                                           .arguments = &arguments,
                                           .locks = &locks };
        if (is_bwrap && (r = bwrap_prepare(&extra, ret_plan, ret_plan, place->cwd, &arguments, err)) < 0)
                return r;
        return image_of(ret_plan, &extra, err);
}

/* Makes the plan of an fs helper that has no view and is confined by Landlock alone. */
static int alone_plan(struct arena *a, const struct backends *b, const struct plan *coarse, struct plan *ret,
                      struct err *err)
{
        if (b->landlock_abi >= LANDLOCK_ALONE_ABI) {
                int r = landlock_plan(a, coarse, false, ret, err);
                return r < 0 ? explain_landlock(b, r, err) : 0;
        }
        if (b->chosen != BACKEND_BUBBLEWRAP) {
                err->step = "landlock";
                err->os_errno = EOPNOTSUPP;
                int r = err_set(err, 0, -EOPNOTSUPP, "Landlock has ABI %d here, and %d is needed",
                                b->landlock_abi, LANDLOCK_ALONE_ABI);
                return explain_landlock(b, r, err);
        }
        int os_errno = b->bwrap.finish_errno;
        err->reason = "sandboxUnavailable";
        err->step = "finish";
        err->os_errno = os_errno;
        err->remedy = "let the server's user join the user namespaces that its bwrap makes (setns), or use "
                      "Linux 6.12 or later";
        return err_set(err, 0, -os_errno,
                       "what bwrap builds may not be joined: %s (os error %d), and Landlock has ABI %d here, "
                       "where %d would do without",
                       errno_text(os_errno), os_errno, b->landlock_abi, LANDLOCK_ALONE_ABI);
}

/* Returns the back end of an fs helper: that of commands, or Landlock when the server cannot join the namespaces that bwrap
 * builds. */
static enum backend backend_of_files(const struct backends *b)
{
        return b->chosen == BACKEND_BUBBLEWRAP && b->bwrap.finish_errno != 0 ? BACKEND_LANDLOCK : b->chosen;
}

int prepare_file_image(struct preparer *p, struct arena *a, const struct plan *plan, struct slice cwd,
                       const struct bwrap **ret_bwrap, struct err *err)
{
        const struct backends *backends = preparer_backends(p);
        _bwrap_arguments_ struct bwrap_arguments arguments = BWRAP_ARGUMENTS_INIT;
        struct plan coarse, alone;
        if (backends->chosen == BACKEND_NONE)
                return backends_refuse(backends, err);
        enum backend backend = backend_of_files(backends);
        bool is_bwrap = backend == BACKEND_BUBBLEWRAP;
        const struct image_extra extra = { .backend = backend,
                                           .limits = p->limits,
                                           .filter = &p->filters[SECCOMP_FILES],
                                           .landlock_abi = backends->landlock_abi,
                                           .hides_proc = true,
                                           .bwrap = is_bwrap ? &backends->bwrap : NULL,
                                           .arguments = &arguments };
        int r = filter_get(p, SECCOMP_FILES, err);
        if (r < 0)
                return r;
        plan_coarsen(a, plan, &coarse);
        if (backend == BACKEND_LANDLOCK) {
                r = alone_plan(a, backends, &coarse, &alone, err);
                coarse = r == 0 ? alone : coarse;
        } else if (is_bwrap) {
                r = bwrap_prepare(&extra, plan, &coarse, cwd, &arguments, err);
        }
        if (r < 0)
                return r;
        r = image_of(&coarse, &extra, err);
        if (r >= 0)
                *ret_bwrap = extra.bwrap;
        return r;
}
