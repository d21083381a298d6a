/* sandbox: the `sandbox` member of process and file requests (PERMISSIONS.md 2.1 and 6).
 *
 * Decoded whole and checked whole: nothing in it is ignored that could ask for something to be enforced. Members that
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
        bool has_roots;         /* `workspaceRoots` was there, if only as an empty list */
        bool has_windows_level; /* newer clients always send it; it means nothing here */
};

/* `value` is the member. 0; or -EINVAL with err, mostly -32602. For files a profile that depends on the cwd is refused
 * when there is none. */
NODISCARD int sandbox_context_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                                     enum sandbox_use use, struct sandbox_context *ret, struct err *err);

/* Where the profile is to be understood. `fallback_cwd` stands in for a cwd that was not given (p == NULL: nothing
 * does), but never as a workspace root: only a cwd that was given does that, for clients that know no roots. Both slices
 * are kept, and roots that point into the context, which must stay where it is. */
NODISCARD struct place sandbox_context_place(const struct sandbox_context *c, struct slice fallback_cwd,
                                             struct slice tmpdir);

/* While nothing is enforced: 0 when the request may run plainly because its profile asks for nothing (disabled, external,
 * managed with all files, each with the network enabled), -EINVAL with err otherwise. */
NODISCARD int sandbox_admit(struct arena *a, const struct json_doc *doc, const struct json *value,
                            struct err *err);
/* For a file request: *ret is NULL when it may run plainly, else what has to be enforced, in the arena. */
NODISCARD int sandbox_files_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                                   const struct sandbox_context **ret, struct err *err);
/* The same as sandbox_admit for a file request, which does not care for the network. */
NODISCARD int sandbox_admit_files(struct arena *a, const struct json_doc *doc, const struct json *value,
                                  struct err *err);
