/* profile: permission profiles, from JSON to struct profile (docs/PERMISSIONS.md).
 *
 * Two forms share one shape. A stored profile has plain absolute paths, and an error text about it names the field
 * ("file_system: entries[2]: access: unknown variant …"). The profile of a request has native paths or
 * file: URIs, and the error texts that clients know. Both may come without a tag, as older programs wrote them:
 *
 *     { "network"?: { "enabled"?: bool }, "file_system"?: { "entries", "glob_scan_max_depth"? } | { "read"?, "write"? } }
 *
 * which always means managed and restricted; without a file_system nothing is granted.
 *
 * Unknown values are refused, never skipped. Slices point into the message or the arena.
 */
#pragma once

#include "policy/overlay.h"
#include "policy/profile.h"
#include "proto/decode.h"

enum profile_form {
        PROFILE_FORM_STORED,
        PROFILE_FORM_WIRE,
        PROFILE_FORM_WIRE_FILES, /* in a file request: a path of another host is -32600 */
};

/* Decodes a stored profile. Returns 0, or -EINVAL with err: -32602. *ret is written only on success. */
NODISCARD int profile_decode_stored(struct arena *a, const struct json_doc *doc, const struct json *value,
                                    struct profile *ret, struct err *err);
/* Decodes a profile as people and agents write it into a file: in the form of requests, or else in the stored form, of which the error text
 * tells. Returns as profile_decode_stored. */
NODISCARD int profile_decode_either(struct arena *a, const struct json_doc *doc, const struct json *value,
                                    struct profile *ret, struct err *err);
/* Decodes additional permissions, which have the shape of a stored profile without a tag. Returns as profile_decode_stored. */
NODISCARD int profile_decode_overlay(struct arena *a, const struct json_doc *doc, const struct json *value,
                                     struct overlay *ret, struct err *err);
/* Decodes the `permissions` of a sandbox object. An object with neither a tag nor a member of the untagged shape is an error. */
void profile_decode_wire(struct decoder *outer, const struct json *value, enum profile_form form,
                         struct profile *ret);

/* --- decoders of single parts of a profile, for objects that hold only some of these parts --- */

/* Decodes one path, which becomes absolute and clean; in the stored form it may be a path of another operating system
 * (profile_path_is_foreign). `value` must be a string. */
void profile_decode_path(struct decoder *d, const struct json *value, enum profile_form form,
                         struct slice *ret);
/* Refuses a URI such as `file:x` where a path grants something, because it would be read as `/x`. `value` is a string that was
 * decoded as a path, and `what` its name in the error text. */
void profile_refuse_relative_uri(struct decoder *d, const struct json *value, const char *what);
/* Refuses members that are not among `names`. */
void profile_refuse_others(struct decoder *d, const char *const *names, size_t count);
