/* glob: patterns over names.
 *
 * For environment variable names: `*` any run, `?` one character, whole name, ASCII case-insensitive.
 * Linear memory, no exponential backtracking: a hostile pattern costs at most |pattern| x |name|.
 */
#pragma once

#include "base/slice.h"

bool glob_match_name(struct slice pattern, struct slice name);
