/* legacy: the sandbox policies of older clients, what they mean as a profile, and back (PERMISSIONS.md 3.2 to 3.4). Pure.
 *
 * A policy becomes a profile without gaining anything: reads that were restricted stay so. The way back is for display and
 * for clients that know nothing else. It may lose rules, and nothing is ever enforced from it.
 */
#pragma once

#include "base/err.h"
#include "policy/profile.h"
#include "policy/rules.h"

enum sandbox_policy_kind {
        SANDBOX_POLICY_FULL_ACCESS, /* danger-full-access: no sandbox */
        SANDBOX_POLICY_READ_ONLY,
        SANDBOX_POLICY_EXTERNAL,
        SANDBOX_POLICY_WORKSPACE_WRITE,
};

/* Of a read-only or workspace-write policy. All zero is the default: everything may be read. */
struct read_access {
        bool is_restricted;
        bool has_platform;   /* what programs need to run */
        struct slice *roots; /* absolute and clean */
        size_t root_count;
};

struct sandbox_policy {
        enum sandbox_policy_kind kind;
        bool has_network; /* true for full access */
        struct read_access read;
        /* workspace-write */
        struct slice *writable_roots; /* absolute and clean */
        size_t writable_root_count;
        bool excludes_tmpdir, excludes_slash_tmp;
};

/* What a conversion must be told. */
struct policy_host {
        const struct place *place; /* of the request, never the server's own; NULL: not known */
        /* Protected paths that exist at the top of each extra writable root, and then of the cwd; a .git that is a file
         * comes behind the directory that it points at. */
        const struct slice *protected_paths;
        size_t protected_count;
};

/* The entries live in the arena; their texts are the policy's and the host's. */
void sandbox_policy_to_profile(struct arena *a, const struct sandbox_policy *policy,
                               const struct policy_host *host, struct profile *ret);

/* -EINVAL with err when the profile grants writes that no policy can name. `cwd`: p == NULL when it is not known.
 * *ret_is_exact (may be NULL) tells whether the policy, read again, means the same as the profile. */
NODISCARD int sandbox_policy_from_profile(struct arena *a, const struct profile *p, struct slice cwd,
                                          struct sandbox_policy *ret, bool *ret_is_exact, struct err *err);

/* `next` in the place of `old`: what `old` denied stays denied. An external profile stays as it is. */
void profile_replace(struct arena *a, const struct profile *next, const struct profile *old,
                     struct profile *ret);
