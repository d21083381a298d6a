/* overlay: additional permissions as JSON <-> struct overlay (PERMISSIONS.md 7).
 *
 *     { "network"?: { "enabled"?: bool }, "file_system"?: { "entries", "glob_scan_max_depth"? } | { "read"?, "write"? } }
 *
 * Paths are plain and absolute. Any member may be null, which is the same as absent; others are refused. Complaints name
 * the member.
 */
#pragma once

#include "policy/overlay.h"
#include "proto/decode.h"
#include "wire/jsonw.h"

/* 0, or -EINVAL with err: -32602. *ret is written only on success. */
NODISCARD int overlay_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                             struct overlay *ret, struct err *err);

/* Both members always, null where there is nothing to say. Plain paths to be read or written, and nothing else, are
 * written as two lists. */
void overlay_encode(struct jsonw *w, const struct overlay *o);
