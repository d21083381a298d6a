/* tell: writes a text to a descriptor of another process, without ever waiting for its reader. */
#pragma once

#include "base/slice.h"

/* Writes the text to the descriptor `number` of the process, as far as there is room now. The rest is lost. */
void tell_process(int pidfd, int number, struct slice text);
/* As tell_process, for a descriptor of our own. Returns how many bytes were written, or -errno. */
ssize_t tell_fd(int fd, struct slice text);
