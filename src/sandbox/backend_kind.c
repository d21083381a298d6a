/* backend_kind: converts between the ways to enforce a plan and their names. */
#include "sandbox/backend_kind.h"

#include <errno.h>

static const char *const names[] = {
        [BACKEND_NAMESPACES] = "namespaces",
        [BACKEND_BUBBLEWRAP] = "bubblewrap",
        [BACKEND_LANDLOCK] = "landlock",
        [BACKEND_NONE] = "none",
};

const char *backend_name(enum backend b)
{
        return names[b];
}

int backend_parse(struct slice name, enum backend *ret)
{
        for (enum backend b = 0; b < BACKEND_NONE; b++) {
                if (slice_eq(name, slice_from_str(names[b]))) {
                        *ret = b;
                        return 0;
                }
        }
        if (!slice_eq(name, S("auto")))
                return -EINVAL;
        *ret = BACKEND_AUTO;
        return 0;
}
