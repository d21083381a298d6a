/* relay: carries bytes between the terminal of the user and that of the command, and keeps the modes of both. */
#include "cmd/relay.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "proc/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 250          /* how often we check whether we are in the foreground again */
#define DRAIN_QUIET_MS 100   /* when nothing came for this long, all output was carried */
#define DRAIN_TOTAL_MS 10000 /* a terminal of the user that accepts nothing is given up */
#define ROWS 24
#define COLS 80

enum { FD_IN, FD_OUT, FD_MASTER };

/* ---- opening the terminals ---- */

/* Opens the terminal again, so that O_NONBLOCK does not affect other processes that share the descriptor. */
static int terminal_reopen(int fd, int flags)
{
        char path[32];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        int own = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own < 0) /* after su(1) the terminal may be another user's */
                own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return own;
}

static int terminal_make(struct relay *r, int user)
{
        struct winsize size = { 0 };
        if (ioctl(user, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
                size = (struct winsize){ .ws_row = ROWS, .ws_col = COLS };
        int e = pty_open(size.ws_row, size.ws_col, &r->master, &r->slave);
        if (e < 0)
                return e;

        struct termios user_modes, modes;
        if (tcgetattr(user, &user_modes) < 0 || tcgetattr(r->slave, &modes) < 0)
                return -errno;
        /* While we are in the background, a shell that edits a line may have set the modes. Such modes are not copied. */
        if (user_modes.c_lflag & ICANON)
                modes = user_modes;
        /* A terminal of the user that does not become raw does echo and line editing itself. */
        if (!r->wants_raw) {
                modes.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
                modes.c_oflag &= ~(tcflag_t)OPOST;
        }
        return tcsetattr(r->slave, TCSANOW, &modes) < 0 ? -errno : 0;
}

void relay_init(struct relay *r, struct tail *tail)
{
        *r = (struct relay){
                .tail = tail, .master = -1, .slave = -1, .in = -1, .out = -1, .restorer_pipe = -1
        };
}

int relay_open(struct relay *r, struct err *err)
{
        bool is_tty[3];
        int user = -1;
        for (int i = 2; i >= 0; i--) {
                r->stdio[i] = i;
                is_tty[i] = isatty(i);
                if (is_tty[i] && (user < 0 || i == STDOUT_FILENO))
                        user = i;
        }
        if (user < 0)
                return 0;
        r->is_tty = is_tty[0];
        r->wants_raw = is_tty[0] && is_tty[1];
        int e = terminal_make(r, user);
        if (e == 0) {
                r->out = terminal_reopen(user, O_WRONLY);
                r->in = r->is_tty ? terminal_reopen(STDIN_FILENO, O_RDONLY) : -1;
                e = r->out < 0 || (r->is_tty && r->in < 0) ? -errno : 0;
        }
        if (e < 0) {
                relay_close(r);
                err->step = "pty";
                err->os_errno = -e;
                return err_set(err, 0, e, "no terminal for the command: %s", errno_text(e));
        }
        for (int i = 0; i < 3; i++)
                if (is_tty[i])
                        r->stdio[i] = r->slave;
        return 0;
}

/* ---- the modes of the terminal of the user ---- */

static bool is_foreground(const struct relay *r)
{
        pid_t group = tcgetpgrp(r->in);
        return group < 0 || group == getpgrp(); /* not our controlling terminal: no other job uses it */
}

static bool modes_equal(const struct termios *a, const struct termios *b)
{
        return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
               a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof(a->c_cc)) == 0;
}

/* Waits until the relay ends, and restores the modes of the terminal, unless another process, such as the shell, has changed
 * them since. */
static NORETURN void restorer_run(int pipe_fd, int terminal, const struct termios *before)
{
        struct termios raw, now;
        char byte;
        ssize_t n;
        (void)setsid(); /* a process without a controlling terminal may set modes from the background */
        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-restorer");
        bool is_known = tcgetattr(terminal, &raw) == 0;
        do
                n = read(pipe_fd, &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n == 0 && is_known && tcgetattr(terminal, &now) == 0 && modes_equal(&now, &raw))
                (void)tcsetattr(terminal, TCSANOW, before);
        _exit(0);
}

/* Starts the process that restores the modes, once. Its signals are blocked, as ours are by now. If it cannot be started
 * the relay works without it. */
static void restorer_start(struct relay *r)
{
        int ends[2];
        if (r->restorer_pipe >= 0 || pipe2(ends, O_CLOEXEC) < 0)
                return;
        pid_t pid = fork();
        if (pid == 0) {
                int terminal = fcntl(r->in, F_DUPFD_CLOEXEC, 3), pipe_fd = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
                if (terminal < 0 || pipe_fd < 0 || dup2(terminal, 0) < 0 || dup2(pipe_fd, 1) < 0)
                        _exit(1);
                (void)sys_call3(SYS_close_range, 2, ~0U, 0);
                restorer_run(1, 0, &r->before);
        }
        fd_close(ends[0]);
        r->restorer = pid;
        r->restorer_pipe = pid > 0 ? ends[1] : fd_close(ends[1]);
}

static void modes_update(struct relay *r)
{
        if (r->in < 0)
                return;
        r->is_foreground = is_foreground(r);
        if (!r->is_foreground)
                r->is_raw = false; /* the process in the foreground has set modes of its own */
        if (r->is_raw || !r->is_foreground || !r->wants_raw || tcgetattr(r->in, &r->before) < 0)
                return;
        r->raw = r->before;
        cfmakeraw(&r->raw);
        if (tcsetattr(r->in, TCSANOW, &r->raw) < 0)
                return;
        r->is_raw = true;
        restorer_start(r);
        relay_resize(r);
}

void relay_restore(struct relay *r)
{
        if (r->is_raw && is_foreground(r))
                (void)tcsetattr(r->in, TCSANOW, &r->before);
        r->is_raw = false;
}

void relay_resize(struct relay *r)
{
        struct winsize size;
        if (r->master >= 0 && ioctl(r->out, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
                (void)!pty_resize(r->master, size.ws_row, size.ws_col); /* a wrong size does no harm */
}

/* ---- carrying bytes ---- */

/* Closes the terminal of the command when that of the user is gone, so that the kernel sends SIGHUP to the command. */
static void hang_up(struct relay *r)
{
        r->is_raw = false;
        r->in = fd_close(r->in);
        r->out = fd_close(r->out);
        r->master = fd_close(r->master);
        r->slave = fd_close(r->slave);
}

/* Does a pager that reads our output use the terminal? Then the keys are for the pager. */
static bool is_used_by_pager(const struct relay *r)
{
        struct termios now;
        return !r->wants_raw && tcgetattr(r->in, &now) == 0 && !(now.c_lflag & ICANON);
}

static void take_input(struct relay *r, bool is_hung_up)
{
        if (!r->is_foreground || is_used_by_pager(r)) {
                r->is_resting = true;
                return;
        }
        ssize_t n = read(r->in, r->to_command, sizeof(r->to_command));
        if (n > 0) {
                r->to_command_off = 0;
                r->to_command_n = (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                return;
        } else if (n < 0 && errno == EIO && !is_hung_up) {
                r->is_resting = true; /* we came into the background since the last check */
        } else if (n == 0 && !is_hung_up && !r->is_raw) {
                struct termios inner;
                bool is_known = tcgetattr(r->slave, &inner) == 0;
                r->to_command[0] = is_known ? (char)inner.c_cc[VEOF] : 4;
                r->to_command_off = 0;
                r->to_command_n = 1;
        } else {
                hang_up(r);
        }
}

/* Writes pending bytes; *n is 0 when all were written. Returns false when the other end is gone. */
static bool push(int fd, const char *bytes, size_t *off, size_t *n)
{
        while (*n > 0) {
                ssize_t done = write(fd, bytes + *off, *n);
                if (done < 0 && errno == EINTR)
                        continue;
                if (done < 0)
                        return errno == EAGAIN;
                *off += (size_t)done;
                *n -= (size_t)done;
        }
        return true;
}

static bool push_to_user(struct relay *r)
{
        return push(r->out, r->to_user, &r->to_user_off, &r->to_user_n);
}

/* Reads output of the command. Returns false at the end of the output. */
static bool take_output(struct relay *r)
{
        ssize_t n = read(r->master, r->to_user, sizeof(r->to_user));
        if (n > 0) {
                r->to_user_off = 0;
                r->to_user_n = (size_t)n;
                if (r->tail)
                        tail_add(r->tail, slice_from(r->to_user, r->to_user_n));
                return true;
        }
        return n < 0 && (errno == EAGAIN || errno == EINTR);
}

int relay_prepare(struct relay *r, struct pollfd fds[RELAY_FDS])
{
        for (int i = 0; i < RELAY_FDS; i++)
                fds[i] = (struct pollfd){ .fd = -1 };
        if (r->master < 0)
                return -1;
        modes_update(r);
        bool was_resting = r->is_resting;
        r->is_resting = false;
        if (r->in >= 0 && r->to_command_n == 0 && !was_resting && r->is_foreground)
                fds[FD_IN] = (struct pollfd){ .fd = r->in, .events = POLLIN };
        if (r->to_user_n > 0)
                fds[FD_OUT] = (struct pollfd){ .fd = r->out, .events = POLLOUT };
        short events = (short)((r->to_user_n == 0 ? POLLIN : 0) | (r->to_command_n > 0 ? POLLOUT : 0));
        if (events && !r->is_ended)
                fds[FD_MASTER] = (struct pollfd){ .fd = r->master, .events = events };
        return r->in >= 0 && (was_resting || !r->is_foreground) ? LOOK_MS : -1;
}

void relay_carry(struct relay *r, const struct pollfd fds[RELAY_FDS])
{
        if (r->master < 0)
                return;
        if (fds[FD_MASTER].revents & (POLLIN | POLLHUP | POLLERR) && r->to_user_n == 0)
                r->is_ended = !take_output(r);
        if (r->to_user_n > 0 && !push_to_user(r))
                r->to_user_n = 0; /* the terminal is gone, but the command goes on */
        if (fds[FD_IN].revents)
                take_input(r, fds[FD_IN].revents & (POLLHUP | POLLERR | POLLNVAL));
        if (r->master >= 0 && r->to_command_n > 0 &&
            !push(r->master, r->to_command, &r->to_command_off, &r->to_command_n))
                r->to_command_n = 0;
}

/* ---- ending the relay ---- */

void relay_drain(struct relay *r)
{
        uint64_t end_ms = clock_mono_ms() + DRAIN_TOTAL_MS;
        r->slave = fd_close(r->slave); /* without our copy the end of the output is noticed */
        while (r->master >= 0 && clock_mono_ms() < end_ms) {
                struct pollfd fd = { .fd = r->master, .events = POLLIN };
                if (r->to_user_n > 0)
                        fd = (struct pollfd){ .fd = r->out, .events = POLLOUT };
                int n = poll(&fd, 1, r->to_user_n > 0 ? LOOK_MS : DRAIN_QUIET_MS);
                if (n == 0 && r->to_user_n == 0)
                        return;
                if (r->to_user_n == 0 && !take_output(r))
                        return;
                if (r->to_user_n > 0 && !push_to_user(r))
                        return;
        }
}

void relay_close(struct relay *r)
{
        if (r->in >= 0)
                relay_restore(r);
        if (r->restorer_pipe >= 0) {
                (void)!write(r->restorer_pipe, "", 1);
                r->restorer_pipe = fd_close(r->restorer_pipe);
                (void)waitpid(r->restorer, NULL, 0);
        }
        r->master = fd_close(r->master);
        r->slave = fd_close(r->slave);
        r->in = fd_close(r->in);
        r->out = fd_close(r->out);
}
