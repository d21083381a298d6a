/* prepare: see prepare.h. */
#include "sandbox/prepare.h"

#include "sandbox/enter.h"
#include "sandbox/glob_cache.h"
#include "sandbox/image.h"
#include "sandbox/landlock.h"
#include "sandbox/landlock_plan.h"
#include "sandbox/remedy.h"

#include <errno.h>

void preparer_init(struct preparer *p, enum backend wish)
{
        *p = (struct preparer){ .globs = glob_cache_new(), .backends = { .wish = wish } };
        pthread_mutex_init(&p->lock, NULL);
        pthread_mutex_init(&p->test_lock, NULL);
}

void preparer_release(struct preparer *p)
{
        for (size_t i = 0; i < ARRAY_LEN(p->filters); i++)
                seccomp_filter_release(&p->filters[i]);
        p->globs = glob_cache_free(p->globs);
        pthread_mutex_destroy(&p->lock);
        pthread_mutex_destroy(&p->test_lock);
}

const struct backends *preparer_backends_known(const struct preparer *p)
{
        return __atomic_load_n(&p->is_tested, __ATOMIC_ACQUIRE) ? &p->backends : NULL;
}

const struct backends *preparer_backends(struct preparer *p)
{
        pthread_mutex_lock(&p->test_lock);
        if (!p->is_tested) {
                backends_test(p->backends.wish, false, &p->backends);
                __atomic_store_n(&p->is_tested, true, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&p->test_lock);
        return &p->backends;
}

bool profile_must_enforce(const struct profile *p)
{
        return p->kind != PROFILE_DISABLED && (!p->has_network || profile_limits_files(p));
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

/* What exists now. What a pattern will match later cannot be masked. */
static int expand(struct preparer *p, struct arena *a, const struct rules *rules,
                  struct glob_matches **ret_matches, struct slice **ret, size_t *ret_count, struct err *err)
{
        const struct glob_query query = { .patterns = rules->globs,
                                          .count = rules->glob_count,
                                          .depth = rules->glob_depth };
        int r = p ? glob_cache_scan(p->globs, &query, ret_matches, err) : glob_scan(&query, ret_matches, err);
        if (r < 0)
                return r;
        *ret_count = (*ret_matches)->count;
        *ret = arena_alloc(a, MAX(*ret_count, 1u) * sizeof(**ret));
        for (size_t i = 0; i < *ret_count; i++)
                (*ret)[i] = (*ret_matches)->list[i].path; /* lives until the plan is made */
        return 0;
}

int prepare_plan(struct preparer *p, struct arena *a, const struct profile *profile,
                 const struct place *place, struct plan *ret, struct err *err)
{
        _glob_matches_ struct glob_matches *matches = NULL;
        struct slice *denied = NULL;
        size_t denied_count = 0;
        struct rules rules;
        int r = rules_resolve(a, profile, place, &rules, err);
        if (r == 0 && rules.glob_count > 0)
                r = expand(p, a, &rules, &matches, &denied, &denied_count, err);
        if (r == 0)
                r = plan_make(a, &rules, profile->has_network, denied, denied_count, ret, err);
        if (r < 0 && !err->step)
                err->step = "plan";
        return r;
}

int prepare_file_plan(struct preparer *p, struct arena *a, const struct profile *profile,
                      const struct place *place, bool only_reads, struct plan *ret, struct err *err)
{
        _glob_matches_ struct glob_matches *matches = NULL;
        struct slice *denied = NULL;
        size_t denied_count = 0;
        struct rules rules;
        int r = rules_resolve(a, profile, place, &rules, err);
        if (r == 0 && rules.limits_files && rules.reads_all && only_reads) {
                *ret = (struct plan){ .has_view = true,
                                      .root = PLAN_ROOT_READ,
                                      .whose = rules_canonical(a, &rules) };
                return 0;
        }
        if (r == 0 && rules.glob_count > 0)
                r = expand(p, a, &rules, &matches, &denied, &denied_count, err);
        if (r == 0)
                r = plan_make_for_files(a, &rules, denied, denied_count, ret, err);
        if (r < 0 && !err->step)
                err->step = "plan";
        return r;
}

/* What would have enforced it, and why it does not work here. */
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

static int bwrap_prepare(const struct image_extra *extra, const struct plan *plan, struct slice cwd,
                         struct bwrap_arguments *ret, struct err *err)
{
        if (!bwrap_is_exposed(extra->bwrap, plan, cwd))
                return bwrap_arguments_make(plan, extra->landlock_abi > 0, ret, err);
        err->step = "bubblewrap";
        err->os_errno = EPERM;
        err->remedy = "put another bwrap on the server's PATH, outside of what commands may write";
        return err_set(err, 0, -EPERM, "%s is where the command works or may write", extra->bwrap->program);
}

int prepare_image(struct preparer *p, struct arena *a, const struct profile *profile,
                  const struct place *place, struct plan *ret_plan, struct err *err)
{
        const struct backends *backends = preparer_backends(p);
        if (backends->chosen == BACKEND_NONE)
                return backends_refuse(backends, err);
        enum seccomp_kind kind = filter_kind(backends->chosen, profile);
        int r = filter_get(p, kind, err);
        if (r == 0)
                r = prepare_plan(p, a, profile, place, ret_plan, err);
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
                                           .filter = &p->filters[kind],
                                           .landlock_abi = backends->landlock_abi,
                                           .bwrap = is_bwrap ? &backends->bwrap : NULL,
                                           .arguments = &arguments };
        if (is_bwrap && (r = bwrap_prepare(&extra, ret_plan, place->cwd, &arguments, err)) < 0)
                return r;
        r = image_make(ret_plan, &extra);
        if (r < 0) {
                err->os_errno = -r;
                (void)err_set(err, 0, r, "%s (os error %d)", errno_text(r), -r);
        }
        return r;
}

static int refuse_old(int abi, struct err *err)
{
        err->step = "landlock";
        err->os_errno = EOPNOTSUPP;
        return err_set(err, 0, -EOPNOTSUPP, "Landlock has ABI %d here, and %d is needed", abi,
                       LANDLOCK_ALONE_ABI);
}

int prepare_file_image(struct preparer *p, struct arena *a, const struct plan *plan, struct err *err)
{
        const struct backends *backends = preparer_backends(p);
        struct plan coarse;
        if (backends->chosen == BACKEND_NONE)
                return backends_refuse(backends, err);
        int r = filter_get(p, SECCOMP_FILES, err);
        if (r < 0)
                return r;
        plan_coarsen(a, plan, &coarse);
        /* bwrap starts programs only. Landlock can do as much for a process of ours. */
        bool is_alone = backends->chosen != BACKEND_NAMESPACES;
        if (is_alone) {
                struct plan alone;
                r = backends->landlock_abi < LANDLOCK_ALONE_ABI
                            ? refuse_old(backends->landlock_abi, err)
                            : landlock_plan(a, &coarse, false, &alone, err);
                if (r < 0)
                        return explain_landlock(backends, r, err);
                coarse = alone;
        }
        const struct image_extra extra = { .backend = is_alone ? BACKEND_LANDLOCK : BACKEND_NAMESPACES,
                                           .filter = &p->filters[SECCOMP_FILES],
                                           .landlock_abi = backends->landlock_abi,
                                           .hides_proc = true };
        r = image_make(&coarse, &extra);
        if (r < 0) {
                err->os_errno = -r;
                (void)err_set(err, 0, r, "%s (os error %d)", errno_text(r), -r);
        }
        return r;
}

bool prepare_is_step(const char *step)
{
        if (strcmp(step, "namespaces") == 0)
                return true;
        for (uint32_t i = ENTER_NONE + 1; i < ENTER_STEPS; i++)
                if (strcmp(step, enter_step_name(i)) == 0)
                        return true;
        return false;
}

/* ---- failures ---- */

/* The path of an operation, or of a stub. */
static const char *path_of(const struct image *i, const char *step, uint32_t op)
{
        if (strcmp(step, "stub") == 0) {
                const struct image_stub *stubs = image_at(i, i->stubs);
                return op < i->stub_count ? (const char *)image_at(i, stubs[op].path) + 1 : NULL;
        }
        const struct image_op *ops = image_at(i, i->ops);
        return op < i->op_count ? image_at(i, ops[op].path) : NULL;
}

/* Without what would spoil a line, and without its own name in front. */
static void words_copy(const struct image *i, char ret[static BWRAP_WORDS_MAX])
{
        struct slice words = slice_trim(slice_from(i->words, strnlen(i->words, sizeof(i->words))));
        if (slice_starts(words, S("bwrap: ")))
                words = slice_from(words.p + 7, words.n - 7);
        for (size_t n = 0; n < words.n; n++)
                ret[n] = words.p[n] >= ' ' && words.p[n] <= '~' ? words.p[n] : '?';
        ret[words.n] = 0;
}

void prepare_explain(int image_fd, const char *step, int os_errno, uint32_t op, struct err *err)
{
        struct image *i = image_map(image_fd);
        const char *path = i ? path_of(i, step, op) : NULL;
        char words[BWRAP_WORDS_MAX] = "";
        if (i && i->words[0] && strcmp(step, "bubblewrap") == 0) {
                words_copy(i, words);
                int said = bwrap_errno(words);
                os_errno = said ? said : os_errno;
        }
        err->reason = "sandboxUnavailable";
        err->step = step;
        err->os_errno = os_errno;
        err->remedy = remedy_for(step, os_errno);
        (void)err_set(err, 0, -os_errno,
                      "sandbox intent cannot be enforced on this executor: %s%s%s%s%s: %s (os error %d)",
                      step, path ? " /" : "", path ? path : "", words[0] ? ": " : "", words,
                      errno_text(os_errno), os_errno);
        image_unmap(i);
}
