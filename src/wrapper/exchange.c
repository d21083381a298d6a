/* exchange: talks to the server over a stream of its own, on behalf of one program. */
#include "wrapper/exchange.h"

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often and how long a send is tried again: while other processes of this user have too many descriptors in flight, the kernel takes
 * none from a process with a low limit. */
#define IN_FLIGHT_TRIES 200
#define IN_FLIGHT_WAIT_MS 10

static const int passed_on[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT };

/* Returns the number in the variable, if it is that of a socket; or -errno. */
static int inherited(void)
{
        const char *text = getenv(ESCALATE_VARIABLE);
        uint64_t number;
        struct stat st;

        if (!text)
                return -ENOENT;
        if (slice_to_u64(slice_from_str(text), INT_MAX, &number) < 0 || *text == '\0')
                return -EINVAL;
        if (fstat((int)number, &st) < 0)
                return -errno;
        return S_ISSOCK(st.st_mode) ? (int)number : -ENOTSOCK;
}

/* Sends bytes, the first of them with descriptors. */
static int send_with(int fd, struct slice bytes, const int *fds, size_t count)
{
        union {
                char bytes[CMSG_SPACE(ESCALATE_MORE_FDS * sizeof(int))];
                struct cmsghdr align;
        } control = { 0 };
        struct iovec iov = { (char *)(uintptr_t)bytes.p, bytes.n };
        struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

        if (count > 0) {
                message.msg_control = control.bytes;
                message.msg_controllen = CMSG_SPACE(count * sizeof(int));
                struct cmsghdr *head = CMSG_FIRSTHDR(&message);
                head->cmsg_level = SOL_SOCKET;
                head->cmsg_type = SCM_RIGHTS;
                head->cmsg_len = CMSG_LEN(count * sizeof(int));
                memcpy(CMSG_DATA(head), fds, count * sizeof(int));
        }
        for (int tries = 0;;) {
                ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
                if (n >= 0)
                        return (int)n;
                if (errno == ETOOMANYREFS && tries++ < IN_FLIGHT_TRIES)
                        (void)poll(NULL, 0, IN_FLIGHT_WAIT_MS);
                else if (errno != EINTR)
                        return -errno;
        }
}

/* Sends a whole frame, which may be longer than what the socket takes at once. */
static int send_frame(int fd, struct slice frame, const int *fds, size_t count)
{
        while (frame.n > 0) {
                int n = send_with(fd, slice_from(frame.p, MIN(frame.n, (size_t)INT_MAX)), fds, count);
                if (n < 0)
                        return n;
                frame = slice_from(frame.p + n, frame.n - (size_t)n);
                count = 0;
        }
        return 0;
}

int exchange_begin(struct exchange *x)
{
        int pair[2];

        x->shared = inherited();
        if (x->shared < 0)
                return x->shared;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        /* A number that is free may be one of the standard streams, which are written to. */
        x->stream = fcntl(pair[0], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        fd_close(pair[0]);
        if (x->stream < 0) {
                int e = errno;
                fd_close(pair[1]);
                return -e;
        }
        /* The server never waits for a wrapper. */
        int r = fd_set_nonblock(pair[1], true);
        if (r == 0)
                r = send_with(x->shared, slice_from("\0", 1), &pair[1], 1);
        fd_close(pair[1]);
        return MIN(r, 0);
}

int exchange_take_over(struct exchange *x, int stream, bool has_given)
{
        int shared = inherited();
        x->shared = MAX(shared, -1);
        if (fcntl(stream, F_SETFD, FD_CLOEXEC) < 0)
                return -errno;
        x->stream = stream;
        x->has_given = has_given;
        return 0;
}

void exchange_end(struct exchange *x)
{
        x->stream = fd_close(x->stream);
        buf_release(&x->in);
        arena_release(&x->arena);
}

/* Reads what there is. Returns 1, or -errno; -EPIPE at the end. */
static int receive(struct exchange *x)
{
        char *room;

        if (buf_reserve(&x->in, 4096, &room) < 0 && buf_reserve(&x->in, 1, &room) < 0)
                return -EMSGSIZE;
        ssize_t n = read(x->stream, room, MIN((size_t)4096, x->in.cap - x->in.n));
        if (n < 0)
                return errno == EINTR ? 1 : -errno;
        buf_commit(&x->in, (size_t)n);
        return n > 0 ? 1 : -EPIPE;
}

/* Returns 1 with the text of the next frame, which stays where it is until the next call; 0 when it is not there yet. */
static int next_frame(struct exchange *x, size_t *taken, struct slice *ret)
{
        buf_consume(&x->in, *taken);
        *taken = 0;
        ssize_t n = escalate_frame(buf_slice(&x->in), LIMIT_ESCALATE_ANSWER_BYTES, ret);
        if (n <= 0)
                return (int)n;
        *taken = (size_t)n;
        return 1;
}

static size_t slices_of(struct arena *a, char **texts, bool is_env, const struct slice **ret)
{
        size_t count = 0, kept = 0;

        while (texts[count])
                count++;
        struct slice *slices = arena_alloc(a, (count + 1) * sizeof(*slices));
        for (size_t i = 0; i < count; i++) {
                struct slice text = slice_from_str(texts[i]), rest = text;
                if (!is_env || !escalate_is_variable(slice_split(&rest, '=')))
                        slices[kept++] = text;
        }
        *ret = slices;
        return kept;
}

int exchange_ask(struct exchange *x, const char *file, char **argv, char **env)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_ESCALATE_REQUEST_BYTES);
        struct escalate_request request = { .file = slice_from_str(file) };
        char cwd[PATH_MAX];

        if (!getcwd(cwd, sizeof(cwd)) &&
            readlink("/proc/self/cwd", memset(cwd, 0, sizeof(cwd)), sizeof(cwd) - 1) < 0)
                return -errno;
        request.workdir = slice_from_str(cwd);
        request.argc = slices_of(&x->arena, argv, false, &request.argv);
        request.env_count = slices_of(&x->arena, env, true, &request.env);
        int r = escalate_request_write(&out, &request);
        return r < 0 ? r : send_frame(x->stream, buf_slice(&out), NULL, 0);
}

int exchange_answer(struct exchange *x, struct escalate_answer *ret)
{
        size_t taken = 0;
        struct slice text;
        int r = 0;

        while (r == 0 && (r = next_frame(x, &taken, &text)) == 0) {
                r = receive(x);
                r = MIN(r, 0);
        }
        if (r < 0)
                return r;
        /* The answer must stay while later frames come. */
        char *copy = arena_alloc(&x->arena, text.n + BUF_PADDING);
        memcpy(copy, text.p, text.n);
        buf_consume(&x->in, taken);
        return escalate_answer_read(&x->arena, slice_from(copy, text.n), ret);
}

/* Returns whether the program would inherit this descriptor. */
static bool is_passed_on(const struct exchange *x, int fd)
{
        int flags = fcntl(fd, F_GETFD);

        return fd != x->shared && fd != x->stream && flags >= 0 && !(flags & FD_CLOEXEC);
}

static int open_descriptors(const struct exchange *x, size_t max, struct escalate_more *ret)
{
        DIR *dir = opendir("/proc/self/fd");
        int r = dir ? 0 : -errno;

        for (struct dirent *entry; dir && r == 0 && (entry = readdir(dir));) {
                uint64_t number;
                if (slice_to_u64(slice_from_str(entry->d_name), INT_MAX, &number) < 0 ||
                    entry->d_name[0] == '.' || !is_passed_on(x, (int)number))
                        continue;
                if (ret->fd_count == max)
                        r = -E2BIG;
                else
                        ret->fds[ret->fd_count++] = (int)number;
        }
        if (dir)
                closedir(dir);
        return r;
}

/* Blocks the signals that are passed on, but not those that are ignored, and returns a descriptor from which they are read. */
static int signals_open(void)
{
        sigset_t set;

        (void)sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
                struct sigaction now;
                if (sigaction(passed_on[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
                        (void)sigaddset(&set, passed_on[i]);
        }
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static int pass_on_signals(struct exchange *x, int signals)
{
        struct signalfd_siginfo info;

        while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
                _buf_ struct buf out = BUF_INIT(LIMIT_ESCALATE_ANSWER_BYTES);
                const struct escalate_more more = { .signal = (int)info.ssi_signo };
                int r = escalate_more_write(&out, &more);
                if (r == 0)
                        r = send_frame(x->stream, buf_slice(&out), NULL, 0);
                /* A server that has gone, or that waits for no signal any more, is noticed where the result is read. */
                if (r < 0 && r != -EPIPE)
                        return r;
        }
        return 0;
}

static int wait_for_result(struct exchange *x, int signals, struct escalate_result *ret)
{
        size_t taken = 0;
        struct slice text;

        for (;;) {
                int r = next_frame(x, &taken, &text);
                if (r < 0)
                        return r;
                if (r > 0)
                        return escalate_result_read(&x->arena, text, ret);
                struct pollfd fds[] = { { x->stream, POLLIN, 0 }, { signals, POLLIN, 0 } };
                if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
                        return -errno;
                r = fds[1].revents ? pass_on_signals(x, signals) : 0;
                if (r == 0 && fds[0].revents)
                        r = receive(x);
                if (r < 0)
                        return r;
        }
}

/* Sends the descriptors. Returns 0 or -errno. */
static int hand_over(struct exchange *x, bool is_ours)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_ESCALATE_ANSWER_BYTES);
        struct escalate_more more = { .umask = -1 };

        int r = open_descriptors(x, is_ours ? ESCALATE_MORE_FDS : ESCALATE_PLAIN_FDS, &more);
        if (r < 0)
                return r;
        if (is_ours) {
                mode_t mask = umask(0);
                (void)umask(mask);
                more.umask = (int)mask;
        }
        r = escalate_more_write(&out, &more);
        return r < 0 ? r : send_frame(x->stream, buf_slice(&out), more.fds, more.fd_count);
}

int exchange_escalate(struct exchange *x, bool is_ours, struct escalate_result *ret)
{
        _close_ int signals = -1;

        int r = is_ours ? signals = signals_open() : 0;
        if (r >= 0 && !x->has_given)
                r = hand_over(x, is_ours);
        return r < 0 ? r : wait_for_result(x, signals, ret);
}
