/* member: reads members of a JSON object that a server sent. A member of another type counts as missing. */
#pragma once

#include "base/uri.h"
#include "wire/json.h"

static inline bool member_is_true(const struct json_doc *d, const struct json *object, struct slice key)
{
        const struct json *value = json_get(d, object, key);
        return value && value->type == JSON_TRUE;
}

static inline bool member_u64(const struct json_doc *d, const struct json *object, struct slice key,
                              uint64_t *ret)
{
        const struct json *value = json_get(d, object, key);
        return value && json_u64(d, value, ret) == 0;
}

static inline bool member_i64(const struct json_doc *d, const struct json *object, struct slice key,
                              int64_t *ret)
{
        const struct json *value = json_get(d, object, key);
        return value && json_i64(d, value, ret) == 0;
}

/* Returns the bytes of a string, in the arena or in the text of the message; .p is NULL when the member is missing. */
static inline struct slice member_string(struct arena *a, const struct json_doc *d, const struct json *object,
                                         struct slice key)
{
        const struct json *value = json_get(d, object, key);
        return value && value->type == JSON_STRING ? json_string(a, d, value) : (struct slice){ 0 };
}

/* Returns a string in the arena; NULL when the member is missing or holds a NUL. */
static inline const char *member_text(struct arena *a, const struct json_doc *d, const struct json *object,
                                      struct slice key)
{
        struct slice s = member_string(a, d, object, key);
        return s.p && !slice_has_nul(s) ? arena_dup(a, s) : NULL;
}

/* Returns a path in the arena, of a native path or a URI; NULL when the member is missing or no path. */
static inline const char *member_path(struct arena *a, const struct json_doc *d, const struct json *object,
                                      struct slice key)
{
        struct slice text = member_string(a, d, object, key), path;
        return text.p && uri_to_path(a, text, &path, NULL) == URI_OK ? path.p : NULL;
}
