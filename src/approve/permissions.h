/* permissions: profiles and additional permissions as texts: checks them, and adds permissions to a profile. Pure. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "wire/json.h"

/* Reads a profile, in the stored form or in that of requests, and writes it in the stored form. *ret is a heap string. *ret_is_open: the
 * profile restricts nothing. Returns 0, or -EINVAL with *err. */
NODISCARD int permissions_read(const char *profile, char **ret, bool *ret_is_open, struct err *err);
/* Reads additional permissions and writes them in one form, so that equal permissions have equal texts. Permissions that ask for nothing
 * are an error. *ret is a heap string. */
NODISCARD int permissions_read_additional(const char *additional, char **ret, struct err *err);
/* Returns the profile with the additional permissions, as a heap string. Both texts came from the functions above. */
NODISCARD int permissions_add(const char *profile, const char *additional, char **ret, struct err *err);

/* Converts the sandbox policy of an older client, for a workspace `cwd` (docs/PERMISSIONS.md): writes the profile in the stored form. *ret is a
 * heap string. *ret_roots are the directories that it lets commands write besides, in the arena, ending with NULL. Returns 0, or -EINVAL
 * with *err. */
NODISCARD int permissions_of_policy(struct arena *a, const struct json_doc *d, const struct json *policy,
                                    const char *cwd, char **ret, const char *const **ret_roots,
                                    struct err *err);

/* Returns the profile that most people use, as a heap string: everything may be read and, with `may_write`, the workspace and the
 * directories for temporary files may be written. */
NODISCARD char *permissions_usual(bool may_write, bool has_network);
/* Returns the member `sandbox` of requests with these permissions, which are JSON, as a heap string. `cwd` is the directory, as a JSON
 * string; NULL: the server knows it. `roots` are the workspace roots as JSON strings, ending with NULL; NULL: the directory is the only
 * root. */
NODISCARD char *permissions_sandbox(const char *permissions, const char *cwd, const char *const *roots);
