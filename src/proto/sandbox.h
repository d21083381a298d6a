/* sandbox: the `sandbox` member of process and file requests (docs/PERMISSIONS.md).
 *
 * Every member is decoded and checked, so that nothing is ignored that asks for something to be enforced. Members that
 * are for other systems are checked for their type and dropped; the shapes of older clients are mapped or refused.
 */
#pragma once

#include "policy/rules.h"
#include "proto/profile.h"

#define SANDBOX_ROOTS_MAX 256 /* workspace roots; more is refused */

enum sandbox_use { SANDBOX_FOR_PROCESS, SANDBOX_FOR_FILES };

struct sandbox_context {
        struct profile profile;
        struct slice cwd; /* p == NULL: none was given */
        struct slice *roots;
        size_t root_count;
        bool has_roots; /* `workspaceRoots` was given, perhaps as an empty list */
};

/* Decodes `value`, the member `sandbox` of a request. Returns 0, or -EINVAL with err filled, mostly -32602. For files a profile
 * that depends on the cwd is refused when there is no cwd. */
NODISCARD int sandbox_context_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                                     enum sandbox_use use, struct sandbox_context *ret, struct err *err);

/* Returns the place in which the profile is resolved: cwd and workspace roots. `fallback_cwd` is the cwd when the request gave
 * none; its p may be NULL. For clients that send no roots, a cwd that the request gave is the only workspace root; `fallback_cwd`
 * never is one. The result points to both slices and into the context, which must not move in memory. */
NODISCARD struct place sandbox_context_place(const struct sandbox_context *c, struct slice fallback_cwd,
                                             struct slice tmpdir);

/* For a server that enforces nothing: returns 0 when the request may run without a sandbox because its profile forbids nothing
 * (disabled, external, managed with all files, each with the network enabled), otherwise -EINVAL with err filled. */
NODISCARD int sandbox_admit(struct arena *a, const struct json_doc *doc, const struct json *value,
                            struct err *err);
/* Decodes the member `sandbox` of a file request. *ret is NULL when the request may run without a sandbox, otherwise what has to be
 * enforced, in the arena. */
NODISCARD int sandbox_files_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                                   const struct sandbox_context **ret, struct err *err);
