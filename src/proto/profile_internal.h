/* profile_internal: between profile.c, which reads and writes a profile, and profile_files.c, which does so with files. */
#pragma once

#include "proto/profile.h"

/* The number of the member's value among `names`; 0 after a failure. */
size_t profile_decode_one_of(struct decoder *d, const char *key, const char *const *names, size_t count);
#define PROFILE_ONE_OF(d, key, names) profile_decode_one_of((d), (key), (names), ARRAY_LEN(names))

/* Ends `inner`. `where` is the name of what is left, for the complaint; NULL: it has none. */
void profile_leave(struct decoder *outer, const struct decoder *inner, const char *where);

/* The members `entries` and `glob_scan_max_depth` of the object at hand. */
void profile_decode_entries(struct decoder *d, enum profile_form form, struct profile_files *ret);
