/* boxes: see boxes.h. */
#include "server/boxes.h"

#include "policy/env.h"
#include "proto/process.h"
#include "sandbox/enter.h"
#include "sandbox/glob_scan.h"
#include "sandbox/image.h"
#include "sandbox/landlock.h"
#include "sandbox/plan.h"
#include "wire/rpc.h"

#include <errno.h>

void boxes_init(struct boxes *b)
{
        *b = (struct boxes){ .landlock_abi = landlock_abi() };
        pthread_mutex_init(&b->lock, NULL);
}

void boxes_release(struct boxes *b)
{
        for (size_t i = 0; i < ARRAY_LEN(b->filters); i++)
                seccomp_filter_release(&b->filters[i]);
        pthread_mutex_destroy(&b->lock);
}

bool boxes_must_enforce(const struct process_start *in)
{
        const struct profile *p = &in->sandbox.profile;
        return in->has_sandbox && p->kind != PROFILE_DISABLED && (!p->has_network || profile_limits_files(p));
}

static int filter_get(struct boxes *b, bool has_network, struct err *err)
{
        int r = 0;
        pthread_mutex_lock(&b->lock);
        if (!b->filters[has_network].code)
                r = seccomp_compile(has_network, &b->filters[has_network], err);
        pthread_mutex_unlock(&b->lock);
        return r;
}

static int refuse(struct err *err, int r)
{
        err->reason = "sandboxUnavailable";
        err->rpc = RPC_INVALID_PARAMS;
        if (!err->step)
                err->step = "plan";
        (void)err_wrap(err, "failed to prepare process sandbox");
        return r;
}

/* What exists now. What a pattern will match later cannot be masked. */
static int expand(struct arena *a, const struct rules *rules, struct glob_matches **ret_matches,
                  struct slice **ret, size_t *ret_count, struct err *err)
{
        const struct glob_query query = { .patterns = rules->globs,
                                          .count = rules->glob_count,
                                          .depth = rules->glob_depth };
        int r = glob_scan(&query, ret_matches, err);
        if (r < 0)
                return r;
        *ret_count = (*ret_matches)->count;
        *ret = arena_alloc(a, MAX(*ret_count, 1u) * sizeof(**ret));
        for (size_t i = 0; i < *ret_count; i++)
                (*ret)[i] = (*ret_matches)->list[i].path;
        return 0;
}

int boxes_image(struct boxes *b, struct arena *a, const struct process_start *in, const char *const *env,
                struct err *err)
{
        const struct profile *profile = &in->sandbox.profile;
        const char *tmpdir = env_get(env, "TMPDIR");
        struct place place = sandbox_context_place(&in->sandbox, in->cwd, slice_from_str(tmpdir));
        struct rules rules;
        struct plan plan;
        int r = filter_get(b, profile->has_network, err);
        if (r == 0)
                r = rules_resolve(a, profile, &place, &rules, err);
        _glob_matches_ struct glob_matches *matches = NULL;
        struct slice *denied = NULL;
        size_t denied_count = 0;
        if (r == 0 && rules.glob_count > 0)
                r = expand(a, &rules, &matches, &denied, &denied_count, err);
        if (r == 0)
                r = plan_make(a, &rules, profile->has_network, denied, denied_count, &plan, err);
        if (r < 0)
                return refuse(err, r);

        const struct image_extra extra = { .filter = &b->filters[profile->has_network],
                                           .landlock_abi = b->landlock_abi };
        r = image_make(&plan, &extra);
        if (r < 0) {
                err->os_errno = -r;
                (void)err_set(err, RPC_INTERNAL, r, "%s (os error %d)", errno_text(r), -r);
        }
        return r;
}

/* ---- failures ---- */

static const char *remedy_for(const char *step, int os_errno)
{
        if (strcmp(step, "namespaces") == 0 && os_errno == ENOSPC)
                return "no more user namespaces may be made: raise user.max_user_namespaces, or run fewer "
                       "commands";
        if (strcmp(step, "namespaces") == 0 || strcmp(step, "idMap") == 0)
                return "the system lets nobody of this kind make user namespaces: allow it "
                       "(kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, the "
                       "seccomp profile of the container), or run the server outside the container";
        if (strcmp(step, "proc") == 0)
                return "a new /proc may not be mounted, because parts of the present one are hidden: run the "
                       "container with an unmasked /proc";
        if (os_errno == ESTALE || strcmp(step, "stub") == 0)
                return "something changed the directory meanwhile: start it again";
        return NULL;
}

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

void boxes_explain_failure(int image_fd, const char *step, int os_errno, uint32_t op, struct err *err)
{
        struct image *i = image_map(image_fd);
        const char *path = i ? path_of(i, step, op) : NULL;
        err->reason = "sandboxUnavailable";
        err->step = step;
        err->os_errno = os_errno;
        err->remedy = remedy_for(step, os_errno);
        (void)err_set(err, RPC_INVALID_PARAMS, -os_errno,
                      "sandbox intent cannot be enforced on this executor: %s%s%s: %s (os error %d)", step,
                      path ? " /" : "", path ? path : "", errno_text(os_errno), os_errno);
        image_unmap(i);
}
