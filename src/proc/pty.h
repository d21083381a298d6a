/* pty: a new terminal pair. */
#pragma once

#include "base/compat.h"

/* Opens a terminal pair: both descriptors are close-on-exec, and the master is non-blocking. The slave is opened through the master
 * (TIOCGPTPEER) and not by its name, which may mean another terminal in a chroot or with another devpts. Returns 0 or -errno. */
NODISCARD int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave);

NODISCARD int pty_resize(int master, uint16_t rows, uint16_t cols);
