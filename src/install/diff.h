/* diff: shows on stdout what is changed in a configuration. */
#pragma once

#include "base/slice.h"

/* Prints the lines from the first to the last that differ, those of `old` with a minus, those of `new` with a plus, and two lines on
 * either side. Control characters are escaped, and of a long line only the part where it begins to differ is shown. */
void diff_print(struct slice old, struct slice new);
