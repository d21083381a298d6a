/* profile: permission profiles as JSON <-> struct profile (PERMISSIONS.md 2 and 3.1).
 *
 * Two forms share one shape. A stored profile has plain absolute paths, and a complaint about it names the field
 * ("file_system: entries[2]: access: unknown variant …"). The profile of a request has paths as the wire has them, native
 * or file: URIs, and complaints in the words that clients know. Both may come without a tag, as they were once written:
 *
 *     { "network"?: { "enabled"?: bool }, "file_system"?: { "entries", "glob_scan_max_depth"? } | { "read"?, "write"? } }
 *
 * which always means managed and restricted; without a file_system nothing is granted.
 *
 * What is not understood is refused, never skipped. Slices point into the message or the arena.
 */
#pragma once

#include "policy/profile.h"
#include "proto/decode.h"
#include "wire/jsonw.h"

enum profile_form {
        PROFILE_FORM_STORED,
        PROFILE_FORM_WIRE,
        PROFILE_FORM_WIRE_FILES, /* in a file request: a path of another host is -32600 */
};

/* 0, or -EINVAL with err: -32602. *ret is written only on success. */
NODISCARD int profile_decode_stored(struct arena *a, const struct json_doc *doc, const struct json *value,
                                    struct profile *ret, struct err *err);
/* The `permissions` of a sandbox object. An object with neither tag nor a member of the untagged shape is an error here. */
void profile_decode_wire(struct decoder *outer, const struct json *value, enum profile_form form,
                         struct profile *ret);

/* The normal form: members in a fixed order, none that says nothing; entries in their order, with duplicates. A path that
 * is not UTF-8 has no plain form and is written as a file: URI. */
void profile_encode(struct jsonw *w, const struct profile *p);

/* --- parts, for shapes that hold some of them --- */

/* What a file_system says when it is restricted. */
struct profile_files {
        struct profile_entry *entries;
        size_t count;
        uint64_t glob_depth; /* 0: no bound */
};

/* One path: absolute and clean; in the stored form also one of another operating system (profile_path_is_foreign).
 * `value` must be a string. */
void profile_decode_path(struct decoder *d, const struct json *value, enum profile_form form,
                         struct slice *ret);
/* A URI without a slash behind its scheme would silently become `/x`: where a path grants something that is refused.
 * `value` is a string that was decoded as a path, `what` names it. */
void profile_refuse_relative_uri(struct decoder *d, const struct json *value, const char *what);
void profile_decode_entry(struct decoder *outer, const struct json *value, enum profile_form form,
                          struct profile_entry *ret);
/* { "entries": [ENTRY], "glob_scan_max_depth"?: n } or { "read"?: [path], "write"?: [path] }: reads first, then writes. The
 * two are not mixed and have no other members. */
void profile_decode_files(struct decoder *outer, const struct json *value, enum profile_form form,
                          struct profile_files *ret);
/* { "enabled"?: bool or null }: *ret_has tells whether it says anything. */
void profile_decode_network(struct decoder *outer, const struct json *value, bool *ret_has, bool *ret);
/* Refuses members that are not among `names`. */
void profile_refuse_others(struct decoder *d, const char *const *names, size_t count);

void profile_encode_entry(struct jsonw *w, const struct profile_entry *e);
void profile_encode_path(struct jsonw *w, struct slice path); /* the string alone */
