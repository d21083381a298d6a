/* programs: finds the programs that the library starts. */
#pragma once

#include "base/compat.h"

/* Both functions return a path, which the caller frees: `given`, if it is not NULL; else a program beside the running program, or
 * else the installed one. The path need not exist: then the start of the program fails. */
NODISCARD char *programs_farhand(const char *given);
NODISCARD char *programs_farhand_net(const char *given, const char *given_farhand);
