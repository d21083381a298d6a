/* pty: a new terminal pair. */
#pragma once

#include "base/compat.h"

/* Both descriptors close-on-exec, the master non-blocking. Needs no file name: the slave is opened through the
 * master (TIOCGPTPEER), so that a foreign devpts or a chroot cannot confuse it. 0 or -errno. */
NODISCARD int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave);

NODISCARD int pty_resize(int master, uint16_t rows, uint16_t cols);
