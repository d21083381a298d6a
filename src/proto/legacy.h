/* legacy: the sandbox policies of older clients, from JSON to struct sandbox_policy (docs/PERMISSIONS.md).
 *
 * There are two spellings; the tag tells which one is used, and the members must have the same spelling:
 *
 *     { "type": "workspace-write", "writable_roots"?: [path], "network_access"?: bool, … }
 *     { "type": "workspaceWrite",  "writableRoots"?: [path],  "networkAccess"?: bool, … }
 *
 * An unknown member is refused, because it may forbid something; error texts name the member. Restricted read access, which
 * later clients dropped, is still supported.
 */
#pragma once

#include "policy/legacy.h"
#include "proto/decode.h"

#define SANDBOX_POLICY_ROOTS_MAX 1024 /* the most roots in each list; more is refused */

/* Decodes a policy. Returns 0, or -EINVAL with err filled: -32602. *ret is written only on success. */
NODISCARD int sandbox_policy_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                                    struct sandbox_policy *ret, struct err *err);
