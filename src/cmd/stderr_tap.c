/* stderr_tap: carries the standard error of a command from a pipe of ours to the real one, and keeps the newest output. */
#include "cmd/stderr_tap.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define WRITES_PER_TURN 64 /* then other descriptors get their turn */
#define ROOM_MS 1000       /* how long to wait for room in a pipe that may have no reader */

enum { FD_IN, FD_OUT };

/* ---- opening the tap ---- */

void stderr_tap_init(struct stderr_tap *t)
{
        t->tail = NULL;
        t->is_file = t->is_out_own = false;
        t->in = t->out = t->write_end = -1;
        t->off = t->n = 0;
}

/* Opens the file again, so that O_NONBLOCK does not affect other processes that share the descriptor. */
static int reopen(int fd, int flags)
{
        char path[32];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void open_file(struct stderr_tap *t, const struct stat *st)
{
        int flags = fcntl(STDERR_FILENO, F_GETFL);
        off_t at = lseek(STDERR_FILENO, 0, SEEK_CUR);
        t->is_file = flags >= 0 && at >= 0;
        t->from = flags & O_APPEND ? st->st_size : at;
}

/* Makes our pipe. With O_DIRECT each read gets the bytes of one write, so that they can be passed on in one write as well. */
static int open_pipe(struct stderr_tap *t)
{
        int ends[2], flags = fcntl(STDERR_FILENO, F_GETFL);
        int out = reopen(STDERR_FILENO, O_WRONLY);
        /* open does not accept O_DIRECT for a pipe, fcntl does. */
        t->is_out_own = out >= 0 && flags >= 0 && fcntl(out, F_SETFL, O_NONBLOCK | (flags & O_DIRECT)) == 0;
        if (!t->is_out_own) { /* after su(1) the pipe may belong to another user */
                fd_close(out);
                out = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        }
        if (out < 0 || pipe2(ends, O_CLOEXEC | O_DIRECT) < 0) {
                fd_close(out);
                return -1;
        }
        t->in = ends[0];
        t->write_end = ends[1];
        t->out = out;
        if (fd_set_nonblock(t->in, true) < 0) {
                stderr_tap_close(t);
                return -1;
        }
        return 0;
}

void stderr_tap_open(struct stderr_tap *t, struct tail *tail, int stdio[static 3])
{
        struct stat err, out;
        stderr_tap_init(t);
        t->tail = tail;
        if (stdio[2] != STDERR_FILENO || fstat(STDERR_FILENO, &err) < 0 || fstat(STDOUT_FILENO, &out) < 0)
                return;
        if (S_ISREG(err.st_mode))
                open_file(t, &err);
        if (!S_ISFIFO(err.st_mode) || open_pipe(t) < 0)
                return;
        stdio[2] = t->write_end;
        if (stdio[1] == STDOUT_FILENO && out.st_dev == err.st_dev && out.st_ino == err.st_ino)
                stdio[1] = t->write_end;
}

void stderr_tap_close_write_end(struct stderr_tap *t)
{
        t->write_end = fd_close(t->write_end);
}

/* ---- carrying bytes ---- */

/* Reads from our pipe. Returns false when there is nothing now. At the end of the output, and when the reader of the real pipe is
 * gone, our pipe is closed, so that the command notices as it would with the real one. */
static bool take(struct stderr_tap *t)
{
        ssize_t n;
        do
                n = read(t->in, t->bytes, sizeof(t->bytes));
        while (n < 0 && errno == EINTR);
        if (n > 0) {
                t->off = 0;
                t->n = (size_t)n;
                tail_add(t->tail, slice_from(t->bytes, t->n));
                return true;
        }
        if (n == 0 || errno != EAGAIN)
                t->in = fd_close(t->in);
        return false;
}

/* Writes without waiting. When the open file is shared and the kernel has no RWF_NOWAIT for pipes (before Linux 6.4), poll
 * says that there is room; only another writer at the same moment could make this wait. */
static ssize_t write_now(const struct stderr_tap *t, const char *bytes, size_t n)
{
        if (t->is_out_own)
                return write(t->out, bytes, n);
        struct iovec part = { .iov_base = (void *)bytes, .iov_len = n };
        ssize_t done = pwritev2(t->out, &part, 1, -1, RWF_NOWAIT);
        if (done >= 0 || errno != EOPNOTSUPP)
                return done;
        struct pollfd fd = { .fd = t->out, .events = POLLOUT };
        if (poll(&fd, 1, 0) == 0) {
                errno = EAGAIN;
                return -1;
        }
        return write(t->out, bytes, MIN(n, (size_t)PIPE_BUF));
}

/* Writes pending bytes to the real pipe. Returns false when it has no room now. */
static bool push(struct stderr_tap *t)
{
        while (t->n > 0) {
                ssize_t done = write_now(t, t->bytes + t->off, t->n);
                if (done < 0 && errno == EINTR)
                        continue;
                if (done < 0 && errno == EAGAIN)
                        return false;
                if (done < 0) {
                        t->in = fd_close(t->in);
                        done = (ssize_t)t->n;
                }
                t->off += (size_t)done;
                t->n -= (size_t)done;
        }
        return true;
}

void stderr_tap_prepare(const struct stderr_tap *t, struct pollfd fds[STDERR_TAP_FDS])
{
        fds[FD_IN] = (struct pollfd){ .fd = t->n == 0 ? t->in : -1, .events = POLLIN };
        /* Polled also with nothing to write, because the end of the reader is reported as an error. */
        fds[FD_OUT] = (struct pollfd){ .fd = t->in >= 0 ? t->out : -1, .events = t->n > 0 ? POLLOUT : 0 };
}

void stderr_tap_carry(struct stderr_tap *t, const struct pollfd fds[STDERR_TAP_FDS])
{
        if (t->in < 0)
                return;
        if (fds[FD_OUT].revents & (POLLERR | POLLNVAL)) {
                t->in = fd_close(t->in);
                t->n = 0;
                return;
        }
        if (!fds[FD_IN].revents && !fds[FD_OUT].revents)
                return;
        for (int i = 0; i < WRITES_PER_TURN && push(t) && t->in >= 0; i++)
                if (!take(t))
                        return;
}

/* ---- after the command ---- */

/* Reads the end of a file that the command has written to, if we may read it. */
static void read_file(struct stderr_tap *t)
{
        off_t to = lseek(STDERR_FILENO, 0, SEEK_CUR);
        _close_ int fd = reopen(STDERR_FILENO, O_RDONLY);
        if (fd < 0 || to <= t->from)
                return;
        off_t room = LIMIT_REFUSED_TEXT_BYTES;
        off_t at = MAX(t->from, to - room);
        t->tail->is_cut = at > t->from;
        while (at < to) {
                ssize_t n = pread(fd, t->bytes, MIN(sizeof(t->bytes), (size_t)(to - at)), at);
                if (n <= 0)
                        return; /* the file was truncated meanwhile */
                tail_add(t->tail, slice_from(t->bytes, (size_t)n));
                at += n;
        }
}

/* Handles pending signals. Returns false when one of them ends the waiting. */
static bool may_go_on_waiting(int signals)
{
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof(info)) == sizeof(info)) {
                switch ((int)info.ssi_signo) {
                case SIGTSTP:
                        (void)kill(getpid(), SIGSTOP);
                        break;
                case SIGCONT:
                case SIGWINCH:
                        break;
                default:
                        return false;
                }
        }
        return true;
}

/* When this is called, the pipe holds all that the command has written. A process outside to which the command passed the pipe
 * may write more, but is not waited for. */
void stderr_tap_drain(struct stderr_tap *t, int signals, bool is_told_to_end)
{
        int left = 0;
        if (t->is_file)
                read_file(t);
        if (t->in >= 0 && ioctl(t->in, FIONREAD, &left) < 0)
                left = 0;
        while (t->in >= 0) {
                if (push(t)) {
                        if (left <= 0 || t->in < 0 || !take(t))
                                return;
                        left -= (int)t->n;
                        continue;
                }
                struct pollfd fds[] = { { .fd = t->out, .events = POLLOUT },
                                        { .fd = signals, .events = POLLIN } };
                int n = poll(fds, ARRAY_LEN(fds), is_told_to_end ? ROOM_MS : -1);
                if (n == 0 || (n > 0 && fds[1].revents && !may_go_on_waiting(signals)))
                        return;
        }
}

void stderr_tap_say(struct stderr_tap *t, struct slice text)
{
        if (t->out < 0) {
                (void)!fd_write_all(STDERR_FILENO, text); /* like our other messages */
                return;
        }
        if (t->n > 0)
                return; /* output from before could not be written */
        struct pollfd fd = { .fd = t->out, .events = POLLOUT };
        uint64_t end_ms = clock_mono_ms() + ROOM_MS, now_ms;
        while (write_now(t, text.p, text.n) < 0 && errno == EAGAIN && (now_ms = clock_mono_ms()) < end_ms)
                (void)!poll(&fd, 1, (int)(end_ms - now_ms));
}

void stderr_tap_close(struct stderr_tap *t)
{
        t->in = fd_close(t->in);
        t->out = fd_close(t->out);
        t->write_end = fd_close(t->write_end);
}
