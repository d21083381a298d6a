/* pty_test: a new terminal has its size, its flags and an echo. */
#include "proc/pty.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

TEST(a_new_terminal_has_the_size_asked_for)
{
        int master, slave;
        eq_int(pty_open(33, 101, &master, &slave), 0);
        struct winsize size;
        eq_int(ioctl(slave, TIOCGWINSZ, &size), 0);
        eq_int(size.ws_row, 33);
        eq_int(size.ws_col, 101);
        eq_int(size.ws_xpixel, 0);
        eq_int(size.ws_ypixel, 0);

        eq_int(pty_resize(master, 5, 6), 0);
        eq_int(ioctl(slave, TIOCGWINSZ, &size), 0);
        eq_int(size.ws_row, 5);
        eq_int(size.ws_col, 6);
        close(master);
        close(slave);
}

TEST(both_ends_are_close_on_exec_and_the_master_does_not_block)
{
        int master, slave;
        eq_int(pty_open(24, 80, &master, &slave), 0);
        ok(fcntl(master, F_GETFD) & FD_CLOEXEC);
        ok(fcntl(slave, F_GETFD) & FD_CLOEXEC);
        ok(fcntl(master, F_GETFL) & O_NONBLOCK);
        ok(!(fcntl(slave, F_GETFL) & O_NONBLOCK));
        char byte;
        eq_int(read(master, &byte, 1), -1);
        eq_int(errno, EAGAIN);
        close(master);
        close(slave);
}

/* Reads as many bytes as `want` has, and compares them. What was written arrives in pieces and a moment later. */
static void expect(int master, const char *want)
{
        char text[16] = "";
        for (size_t n = 0; n < strlen(want);) {
                struct pollfd p = { .fd = master, .events = POLLIN };
                eq_int(poll(&p, 1, 10000), 1);
                ssize_t r = read(master, text + n, sizeof(text) - 1 - n);
                ok(r > 0);
                n += (size_t)r;
        }
        eq_str(text, want);
}

TEST(what_is_written_to_the_slave_arrives_and_input_is_echoed)
{
        int master, slave;
        eq_int(pty_open(24, 80, &master, &slave), 0);
        ok(isatty(slave));
        eq_int(write(slave, "hi\n", 3), 3);
        expect(master, "hi\r\n");
        eq_int(write(master, "x", 1), 1);
        expect(master, "x");
        close(master);
        close(slave);
}

TEST(resizing_what_is_no_terminal_fails)
{
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        eq_int(pty_resize(fd, 1, 1), -ENOTTY);
        close(fd);
        eq_int(pty_resize(-1, 1, 1), -EBADF);
}

TEST(the_terminal_is_not_taken_as_our_own)
{
        int before = open("/dev/tty", O_RDWR | O_CLOEXEC);
        int master, slave;
        eq_int(pty_open(24, 80, &master, &slave), 0);
        int after = open("/dev/tty", O_RDWR | O_CLOEXEC);
        eq_int(before < 0, after < 0);
        if (before >= 0)
                close(before);
        if (after >= 0)
                close(after);
        close(master);
        close(slave);
}
