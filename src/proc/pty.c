/* pty: opens a terminal pair and sets its size (pty.h). */
#include "proc/pty.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave)
{
        _close_ int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
        if (master < 0)
                return -errno;
        int locked = 0;
        if (ioctl(master, TIOCSPTLCK, &locked) < 0)
                return -errno;
        _close_ int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0)
                return -errno;
        int r = pty_resize(master, rows, cols);
        if (r < 0)
                return r;

        *ret_master = TAKE_FD(master);
        *ret_slave = TAKE_FD(slave);
        return 0;
}

int pty_resize(int master, uint16_t rows, uint16_t cols)
{
        struct winsize size = { .ws_row = rows, .ws_col = cols };
        return ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}
