/* glob: patterns over names.
 *
 * For names of environment variables. `*` matches any run of characters, `?` one character. A pattern must match the whole name;
 * ASCII letters match in either case. A hostile pattern costs at most |pattern| x |name| steps, and no memory.
 */
#pragma once

#include "base/slice.h"

bool glob_match_name(struct slice pattern, struct slice name);
