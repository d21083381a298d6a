/* errout: writes to standard error without ever waiting for the program that reads it. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

/* Writes all of `text`, at most PIPE_BUF bytes, or nothing. Returns false when a pipe, socket or terminal has no room or no reader.
 * Writes to a regular file may block. Allocates nothing, so that a process that is about to end can use it. Changes errno. */
bool errout_write(struct slice text);
