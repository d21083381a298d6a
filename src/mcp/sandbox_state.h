/* sandbox_state: what a client says about the sandbox in codex/sandbox-state/update. Pure. */
#pragma once

#include "base/arena.h"
#include "wire/json.h"

struct sandbox_state {
        const char *profile; /* the policy as a permission profile, JSON */
        const char *const
                *roots; /* the workspace: absolute paths, ending with NULL; the first one is the directory */
};

/* Reads the params, into the arena. Returns false when they are not understood. */
NODISCARD bool sandbox_state_read(struct arena *a, const struct json_doc *d, const struct json *params,
                                  struct sandbox_state *ret);
