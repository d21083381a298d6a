/* profile_internal: what profile.c, which reads profiles, and profile_files.c, which reads their files, share. */
#pragma once

#include "proto/profile.h"

/* The content of a restricted file_system. */
struct profile_files {
        struct profile_entry *entries;
        size_t count;
        uint64_t glob_depth; /* 0: no bound */
};

/* Returns the index of the member's value in `names`; 0 after a failure. */
size_t profile_decode_one_of(struct decoder *d, const char *key, const char *const *names, size_t count);
#define PROFILE_ONE_OF(d, key, names) profile_decode_one_of((d), (key), (names), ARRAY_LEN(names))

/* Ends `inner` and passes its error on. `where` is the name of the object for the error text; NULL: the object has no name. */
void profile_leave(struct decoder *outer, const struct decoder *inner, const char *where);

/* Decodes the members `entries` and `glob_scan_max_depth` of the decoder's object. */
void profile_decode_entries(struct decoder *d, enum profile_form form, struct profile_files *ret);
/* Decodes { "entries": [ENTRY], "glob_scan_max_depth"?: n }, or { "read"?: [path], "write"?: [path] } as entries that read, then
 * entries that write. The two shapes must not be mixed and have no other members. */
void profile_decode_files(struct decoder *outer, const struct json *value, enum profile_form form,
                          struct profile_files *ret);
