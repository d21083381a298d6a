/* connecting: farhand_connect with an eye on signals. */
#include "cli/connecting.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* Waits until the client has work or a signal is pending, and works. Returns whether to go on. */
static bool step(struct farhand *f, int signals, struct farhand_error *ret_error)
{
        struct pollfd fds[] = { { .fd = farhand_fd(f), .events = POLLIN },
                                { .fd = signals, .events = POLLIN } };
        if (poll(fds, 2, farhand_timeout_ms(f)) > 0 && fds[1].revents)
                return false;
        return farhand_step(f, ret_error) == 0;
}

/* Returns a descriptor of the terminal and its modes, or -1 when there is none. */
static int terminal_modes(struct termios *ret)
{
        static const int list[] = { STDIN_FILENO, STDERR_FILENO };
        for (size_t i = 0; i < ARRAY_LEN(list); i++)
                if (tcgetattr(list[i], ret) == 0)
                        return list[i];
        return -1;
}

struct farhand *connect_with_signals(const struct farhand_options *options, struct farhand_error *ret_error)
{
        sigset_t ending, blocked, before;
        struct termios modes;
        int terminal = terminal_modes(&modes);
        sigemptyset(&ending);
        sigaddset(&ending, SIGINT);
        sigaddset(&ending, SIGQUIT);
        sigaddset(&ending, SIGTERM);
        sigaddset(&ending, SIGHUP);
        blocked = ending;
        sigaddset(&blocked, SIGTTOU); /* otherwise tcsetattr could stop us */
        (void)sigprocmask(SIG_BLOCK, &blocked, &before);
        /* The descriptor only tells of a signal, and is never read: the signal stays pending, and ends us below. */
        _close_ int signals = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
        *ret_error = (struct farhand_error){ .code = -EINTR, .text = "interrupted" };
        struct farhand *f = farhand_new(options, ret_error);
        while (f && farhand_get_state(f) != FARHAND_READY)
                if (!step(f, signals, ret_error)) {
                        farhand_free(f);
                        f = NULL;
                }
        /* ssh asks for a password with the echo off, and puts the modes back at its end; but farhand_free waits only a while for that. */
        if (!f && terminal >= 0)
                (void)tcsetattr(terminal, TCSANOW, &modes);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return f;
}
