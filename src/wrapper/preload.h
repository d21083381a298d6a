/* preload: the wrapper's part for programs that have farhand-preload.so (intercept/preloaded.h): what it asks about has the environment
 * that the program gave, and what it executes has the library again. */
#pragma once

#include "base/compat.h"

/* Reads the variables, and takes the library out of LD_PRELOAD. Returns 0; *ret_is_first says that this is the command's first program,
 * about which nobody is asked; *ret_stream is the stream on which the library has asked, or -1, and *ret_has_given
 * says that it has handed over the descriptors, too. Or returns -errno: a variable makes no
 * sense, or the library cannot be loaded here. */
NODISCARD int preload_begin(bool *ret_is_first, int *ret_stream, bool *ret_has_given);
/* Sets the environment of the program that is executed now. Returns 0 or -errno. */
NODISCARD int preload_restore(void);
