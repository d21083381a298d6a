/* permissions: profiles and additional permissions as texts: checks them, and puts one on top of the other. Pure. */
#pragma once

#include "base/err.h"

/* Reads a profile, in the stored form or in that of requests, and writes it in its one form. *ret is a heap string. *ret_is_open: the profile restricts nothing. Returns
 * 0, or -EINVAL with *err. */
NODISCARD int permissions_read(const char *profile, char **ret, bool *ret_is_open, struct err *err);
/* Reads additional permissions and writes them in their one form, so that equal ones have equal texts. Those that ask for nothing
 * are an error. *ret is a heap string. */
NODISCARD int permissions_read_additional(const char *additional, char **ret, struct err *err);
/* Returns the profile with the additional permissions, as a heap string. Both texts came from the functions above. */
NODISCARD int permissions_add(const char *profile, const char *additional, char **ret, struct err *err);

/* These two return heap strings. */
/* The profiles that most people use: everything may be read and, with `may_write`, the workspace and the directories for temporary
 * files be written. */
NODISCARD char *permissions_usual(bool may_write, bool has_network);
/* Returns the `sandbox` of requests with these permissions, which are JSON. `cwd` is the directory, as a JSON string;
 * NULL: the server knows. `roots` are the workspace roots as JSON strings, ending with NULL; NULL: the directory is the only one. */
NODISCARD char *permissions_sandbox(const char *permissions, const char *cwd, const char *const *roots);
