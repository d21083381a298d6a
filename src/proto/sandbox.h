/* sandbox: the `sandbox` member of process and file requests (PROTOCOL.md section 10).
 *
 * Until the permission model is enforced, only those profiles are accepted that ask for nothing: disabled, external,
 * managed with an unrestricted file system or write access to everything, each with the network enabled. Every other
 * profile, and every shape that is not understood, is refused. Nothing is ever ignored.
 */
#pragma once

#include "proto/decode.h"

/* `value` is the member. 0 when the request may run plainly; -EINVAL with err (-32602) otherwise. */
NODISCARD int sandbox_admit(struct arena *a, const struct json_doc *doc, const struct json *value,
                            struct err *err);
/* The same for a file request, which does not care for the network. */
NODISCARD int sandbox_admit_files(struct arena *a, const struct json_doc *doc, const struct json *value,
                                  struct err *err);
