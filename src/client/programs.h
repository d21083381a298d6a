/* programs: where the programs are that the library starts. */
#pragma once

#include "base/compat.h"

/* Both return a path, to be freed. `given` (may be NULL) wins; else the program lies beside the running program, or where it was
 * installed. The path that is returned need not exist: then the start says so. */
NODISCARD char *programs_farhand(const char *given);
NODISCARD char *programs_farhand_net(const char *given, const char *given_farhand);
