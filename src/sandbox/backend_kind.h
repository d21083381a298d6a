/* backend_kind: the ways to enforce a plan (sandbox/backend.h), and their names. */
#pragma once

#include "base/slice.h"

enum backend {
        BACKEND_NAMESPACES,
        BACKEND_BUBBLEWRAP,
        BACKEND_LANDLOCK,
        BACKEND_NONE,
        BACKEND_AUTO = BACKEND_NONE, /* as a wish: the first back end that works */
};

NODISCARD const char *backend_name(enum backend b);                /* "namespaces", …, "none" */
NODISCARD int backend_parse(struct slice name, enum backend *ret); /* "auto" too; -EINVAL: unknown */
#define BACKEND_WISHES "auto, namespaces, bubblewrap or landlock"  /* for error messages */
