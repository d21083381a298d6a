/* roots: the workspace that a client names in its answer to roots/list. Pure. */
#pragma once

#include "base/arena.h"
#include "wire/json.h"

/* Returns the paths of the roots, in the arena and ending with NULL; NULL: there is none, or the answer is not understood. What is no file:
 * URI is left out, and so is the root directory, which would make the whole machine a workspace. */
const char *const *roots_read(struct arena *a, const struct json_doc *d, const struct json *result);
