/* wrapped: reads what a wrapper sends, and writes what it is answered (wrapped.h). */
#include "intercept/wrapped.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sys_proc.h"
#include "intercept/tell.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04
#endif

#define READ_BYTES (64 * KIB)
#define ANCESTORS_MAX 4096 /* between a wrapper and this process */
#define WALK_TRIES 4

/* Room for what the kernel can put beside a message: a full set of descriptors, and what options of the socket ask for. */
union control {
        char bytes[CMSG_SPACE(ESCALATE_MORE_FDS * sizeof(int)) + 512];
        struct cmsghdr align;
};

/* Takes the descriptors out of a message. Returns how many there are, at most `max`; or -EBADMSG when there are more, or anything else came
 * beside the bytes: then all are closed. */
static int descriptors_of(struct msghdr *m, int *ret, size_t max)
{
        size_t n = 0;
        bool is_bad = m->msg_flags & MSG_CTRUNC;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
                bool is_rights = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
                bool is_pidfd = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_PIDFD;
                size_t count = is_rights || is_pidfd ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
                is_bad = is_bad || !is_rights;
                for (size_t i = 0; i < count; i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
                        bool is_kept = n < max && is_rights;
                        is_bad = is_bad || !is_kept;
                        if (is_kept)
                                ret[n++] = fd;
                        else
                                fd_close(fd);
                }
        }
        for (size_t i = 0; is_bad && i < n; i++)
                fd_close(ret[i]);
        return is_bad ? -EBADMSG : (int)n;
}

static bool is_stream(int fd)
{
        int domain = 0, type = 0;
        socklen_t n = sizeof(int), m = sizeof(int);
        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &m) == 0 && domain == AF_UNIX &&
               type == SOCK_STREAM;
}

int wrapped_accept(int pair)
{
        union control control;
        char byte[2];
        struct iovec part = { byte, sizeof(byte) };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes) };
        int fd;
        ssize_t n = recvmsg(pair, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0)
                return errno == EINTR ? -EAGAIN : -errno;
        int count = descriptors_of(&m, &fd, 1);
        if (n == 0 && count == 0)
                return -EPIPE;
        if (count != 1)
                return -EPROTO;
        if (n == 1 && is_stream(fd))
                return fd;
        fd_close(fd);
        return -EPROTO;
}

struct wrapped *wrapped_new(int stream)
{
        struct wrapped *w = mem_new(struct wrapped);
        w->stream = stream;
        w->pidfd = w->umask = -1;
        buf_init(&w->in, LIMIT_ESCALATE_ASKED_BYTES + sizeof(uint32_t));
        buf_init(&w->env, LIMIT_INTERCEPT_EXEC_BYTES);
        return w;
}

struct wrapped *wrapped_free(struct wrapped *w)
{
        if (!w)
                return NULL;
        for (size_t i = 0; i < w->fd_count; i++)
                fd_close(w->fds[i].fd);
        fd_close(w->stream);
        buf_release(&w->in);
        buf_release(&w->env);
        free(w);
        return NULL;
}

static bool is_below(pid_t process)
{
        pid_t self = getpid();
        for (int i = 0; process > 1 && i < ANCESTORS_MAX; i++) {
                process = sys_parent_of(process);
                if (process == self)
                        return true;
        }
        return false;
}

/* A process on the way up may end meanwhile; then its children have another parent, and the walk is begun again. */
pid_t wrapped_process(const struct wrapped *w)
{
        struct ucred maker = { .pid = 0 };
        socklen_t n = sizeof(maker);
        if (getsockopt(w->stream, SOL_SOCKET, SO_PEERCRED, &maker, &n) < 0 || maker.pid <= 0)
                return -EACCES;
        for (int i = 0; i < WALK_TRIES; i++)
                if (is_below(maker.pid))
                        return maker.pid;
        return -EACCES;
}

int wrapped_read(struct wrapped *w)
{
        union control control;
        char *room;
        int fds[ESCALATE_MORE_FDS];
        size_t free_fds = ARRAY_LEN(w->fds) - w->fd_count,
               want = MIN(w->in.cap - w->in.n, (size_t)READ_BYTES);
        if (want == 0 || buf_reserve(&w->in, want, &room) < 0)
                return -EBADMSG;
        struct iovec part = { room, want };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes) };
        ssize_t n = recvmsg(w->stream, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0)
                return errno == EINTR || fd_is_passing(errno) ? 0 : -errno;
        int count = descriptors_of(&m, fds, free_fds);
        if (count < 0)
                return count;
        for (int i = 0; i < count; i++)
                w->fds[w->fd_count++].fd = fds[i];
        buf_commit(&w->in, (size_t)n);
        return n == 0 ? -EPIPE : 0;
}

/* Takes the next frame out of the buffer, into the arena: the bytes behind it stay in the buffer. */
static int frame_take(struct wrapped *w, struct arena *a, size_t max, struct slice *ret)
{
        struct slice text;
        ssize_t n = escalate_frame(buf_slice(&w->in), max, &text);
        if (n <= 0)
                return (int)n;
        char *copy = arena_alloc(a, text.n + BUF_PADDING);
        memcpy(copy, text.p, text.n);
        *ret = slice_from(copy, text.n);
        buf_consume(&w->in, (size_t)n);
        if (w->in.n == 0)
                buf_release(&w->in);
        return 1;
}

int wrapped_request(struct wrapped *w, struct arena *a, struct escalate_request *ret)
{
        struct slice text;
        int r = frame_take(w, a, LIMIT_ESCALATE_ASKED_BYTES, &text);
        if (r <= 0)
                return r;
        bool is_alone = w->in.n == 0 && w->fd_count == 0; /* nothing may follow before the answer */
        return is_alone && escalate_request_read(a, text, ret) == 0 ? 1 : -EBADMSG;
}

static bool has_number(const struct wrapped *w, size_t count, int number)
{
        for (size_t i = 0; i < count; i++)
                if (w->fds[i].number == number)
                        return true;
        return false;
}

int wrapped_more(struct wrapped *w, struct arena *a, int *ret_signal)
{
        struct escalate_more more;
        struct slice text;
        int r = frame_take(w, a, LIMIT_ESCALATE_ANSWER_BYTES, &text);
        if (r <= 0)
                return r;
        if (escalate_more_read(a, text, &more) < 0 || more.fd_count != w->fd_count)
                return -EBADMSG;
        for (size_t i = 0; i < more.fd_count; i++) {
                if (more.fds[i] == INT32_MAX || has_number(w, i, more.fds[i]))
                        return -EBADMSG;
                w->fds[i].number = more.fds[i];
        }
        w->umask = more.umask;
        *ret_signal = more.signal;
        return 1;
}

static int send_whole(const struct wrapped *w, const struct buf *frame)
{
        ssize_t n;
        do
                n = send(w->stream, frame->p, frame->n, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : (size_t)n == frame->n ? 0 : -EAGAIN;
}

int wrapped_answer(struct wrapped *w, enum escalate_action action, struct slice reason)
{
        _buf_ struct buf frame = BUF_INIT(LIMIT_ESCALATE_ANSWER_BYTES);
        const struct escalate_answer answer = { .action = action, .reason = reason, .is_ours = true };
        int r = escalate_answer_write(&frame, &answer);
        w->is_escalated = action == ESCALATE_ESCALATE;
        return r < 0 ? r : send_whole(w, &frame);
}

int wrapped_result(struct wrapped *w, int wait_status)
{
        _buf_ struct buf frame = BUF_INIT(LIMIT_ESCALATE_ANSWER_BYTES);
        int signo = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
        const struct escalate_result result = { .exit_code = signo ? 128 + signo : WEXITSTATUS(wait_status),
                                                .signal = signo };
        int r = escalate_result_write(&frame, &result);
        return r < 0 ? r : send_whole(w, &frame);
}

int wrapped_fail(struct wrapped *w, struct slice file, int error)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_INTERCEPT_REASON_BYTES + 8192);
        if (buf_printf(&text, "%.*s: %s\n", SLICE(file), strerror(-error)) == 0)
                tell_process(w->pidfd, STDERR_FILENO, buf_slice(&text));
        return wrapped_result(w, (error == -ENOENT || error == -ENOTDIR ? 127 : 126) << 8);
}
