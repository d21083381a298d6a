/* rig_internal: what the tests of profiles, old policies and overlays share: vectors as C strings, and profiles as text. */
#pragma once

#include "proto/profile.h"
#include "proto/profile_write.h"
#include "proto/test_internal.h"
#include "unit.h"

#define RIG_TEXT_MAX ((size_t)1 << 20)

static inline const char *rig_profile_text(struct arena *a, const struct profile *p)
{
        _buf_ struct buf out = BUF_INIT(RIG_TEXT_MAX);
        struct jsonw w;

        jsonw_begin(&w, &out);
        profile_write(&w, p);
        must(jsonw_end(&w) == 0);
        return arena_dup(a, buf_slice(&out));
}

/* Returns the text of a member that is a string, or "". */
static inline const char *rig_string(struct arena *a, const struct json_doc *doc, const struct json *object,
                                     const char *key)
{
        return arena_dup(a, test_string(a, doc, object, key));
}

/* Returns a member of any type as JSON without blanks; "" when there is none. */
static inline const char *rig_member(struct arena *a, const struct json_doc *doc, const struct json *object,
                                     const char *key)
{
        const struct json *v = json_get(doc, object, slice_from_str(key));

        return v ? arena_dup(a, test_text(a, doc, v)) : "";
}

/* Prints a difference, if there is one, and returns 1, so that one run of the test shows all differences. */
static inline int rig_differs(const char *name, const char *want, const char *got)
{
        if (strcmp(want, got) == 0)
                return 0;
        print_error("%s:\n  want %s\n  got  %s\n", name, want, got);
        return 1;
}
