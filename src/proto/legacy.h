/* legacy: the sandbox policies of older clients as JSON <-> struct sandbox_policy (PERMISSIONS.md 3.2).
 *
 * There are two spellings; the tag tells which one it is, and the members must be of the same:
 *
 *     { "type": "workspace-write", "writable_roots"?: [path], "network_access"?: bool, … }     SANDBOX_POLICY_CORE
 *     { "type": "workspaceWrite",  "writableRoots"?: [path],  "networkAccess"?: bool, … }      SANDBOX_POLICY_APP
 *
 * A member that is not known is refused, for it may well have taken something away; complaints name the member. Restricted
 * read access, which later clients dropped, is loaded as it stands.
 */
#pragma once

#include "policy/legacy.h"
#include "proto/decode.h"
#include "wire/jsonw.h"

#define SANDBOX_POLICY_ROOTS_MAX 1024 /* in each list; more is refused */

enum sandbox_policy_form { SANDBOX_POLICY_CORE, SANDBOX_POLICY_APP };

/* 0, or -EINVAL with err: -32602. *ret is written only on success. */
NODISCARD int sandbox_policy_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                                    struct sandbox_policy *ret, struct err *err);

/* Read access is written only when it is restricted. The core form leaves out what is empty. */
void sandbox_policy_encode(struct jsonw *w, const struct sandbox_policy *policy,
                           enum sandbox_policy_form form);
