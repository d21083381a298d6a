/* legacy: converts the sandbox policies of older clients to profiles, and profiles to policies (docs/PERMISSIONS.md). Pure.
 *
 * The profile never grants more than the policy: restricted reads stay restricted. The conversion to a policy is for display
 * and for older clients. It may lose rules, and no sandbox is ever built from it.
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

/* What a read-only or workspace-write policy lets commands read. All zero is the default: everything may be read. */
struct read_access {
        bool is_restricted;
        bool has_platform;   /* rules_platform_roots may be read */
        struct slice *roots; /* absolute and clean */
        size_t root_count;
};

struct sandbox_policy {
        enum sandbox_policy_kind kind;
        bool has_network; /* true for full access */
        struct read_access read;
        /* only for workspace-write: */
        struct slice *writable_roots; /* absolute and clean */
        size_t writable_root_count;
        bool excludes_tmpdir, excludes_slash_tmp;
};

/* Facts about the machine and the request that a conversion needs. */
struct policy_host {
        const struct place *place; /* the place of the request, never the server's own; NULL: not known */
        /* Protected paths that exist at the top of each extra writable root, and then of the cwd; a .git that is a file
         * comes behind the directory that it points at. */
        const struct slice *protected_paths;
        size_t protected_count;
};

/* Converts a policy to a profile. The entries live in the arena; their texts are the policy's and the host's. */
void sandbox_policy_to_profile(struct arena *a, const struct sandbox_policy *policy,
                               const struct policy_host *host, struct profile *ret);

/* Converts a profile to a policy. Returns 0, or -EINVAL with err filled when the profile grants writes that no policy can name.
 * cwd.p is NULL when the cwd is not known. *ret_is_exact (may be NULL) tells whether the policy, converted back, means the same as
 * the profile. */
NODISCARD int sandbox_policy_from_profile(struct arena *a, const struct profile *p, struct slice cwd,
                                          struct sandbox_policy *ret, bool *ret_is_exact, struct err *err);

/* Replaces `old` by `next`, but keeps what `old` denied. An external profile is not changed. */
void profile_replace(struct arena *a, const struct profile *next, const struct profile *old,
                     struct profile *ret);
