/* link: takes messages from the server's socket, and queues and sends messages to it. */
#include "egress/link.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "wire/egressmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define BATCH 32                   /* messages of one call */
#define OUT_MAX ((size_t)64 * MIB) /* beyond, the server does not read, and asks for answers all the same */
#define LATER_MS 3
#define SOON_BYTES ((size_t)64 * KIB)
#define ROUNDS 32 /* messages that one turn takes */

bool link_is_full(const struct link *l)
{
        return l->out.n - l->sent > LIMIT_EGRESS_OUT_BYTES;
}

static void end(struct link *l, int why)
{
        if (!l->watch)
                return;
        l->watch = watch_free(l->watch);
        l->on_end(l->arg, why);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static void append(struct link *l, struct slice message)
{
        uint32_t n = (uint32_t)message.n;
        if (l->out.n + sizeof(n) + message.n > OUT_MAX) {
                end(l, -ENOBUFS);
                return;
        }
        must(buf_append(&l->out, slice_from(&n, sizeof(n))) == 0 && buf_append(&l->out, message) == 0);
}

void link_send(struct link *l, struct slice message)
{
        append(l, message);
        loop_defer(l->loop, &l->flush);
}

void link_send_later(struct link *l, struct slice message)
{
        append(l, message);
        if (l->out.n - l->sent > SOON_BYTES) {
                loop_defer(l->loop, &l->flush);
        } else if (!l->is_later) {
                l->is_later = true;
                timer_start(l->later, LATER_MS);
        }
}

static void on_later(void *arg)
{
        struct link *l = arg;
        l->is_later = false;
        loop_defer(l->loop, &l->flush);
}

void link_pong(struct link *l)
{
        l->has_pong = true;
        loop_defer(l->loop, &l->flush);
}

/* Collects the next messages. Returns how many there are. */
static unsigned collect(struct link *l, struct mmsghdr messages[BATCH], struct iovec parts[BATCH])
{
        unsigned count = 0;
        for (size_t at = l->sent; count < BATCH && at < l->out.n; count++) {
                uint32_t n;
                memcpy(&n, l->out.p + at, sizeof(n));
                parts[count] = (struct iovec){ .iov_base = l->out.p + at + sizeof(n), .iov_len = n };
                messages[count] =
                        (struct mmsghdr){ .msg_hdr = { .msg_iov = &parts[count], .msg_iovlen = 1 } };
                at += sizeof(n) + n;
        }
        return count;
}

static int send_all(struct link *l)
{
        struct mmsghdr messages[BATCH];
        struct iovec parts[BATCH];
        unsigned count;
        while ((count = collect(l, messages, parts)) > 0) {
                int n = sendmmsg(l->fd, messages, count, MSG_NOSIGNAL);
                if (n < 0)
                        return fd_is_passing(errno) ? 0 : -errno;
                for (int i = 0; i < n; i++)
                        l->sent += sizeof(uint32_t) + parts[i].iov_len;
        }
        return 0;
}

void link_send_now(struct link *l, struct slice message)
{
        bool was_full = link_is_full(l); /* then the flush has to notice that there is room again */
        append(l, message);
        if (l->watch && !was_full)
                (void)send_all(l); /* the flush meets an error again */
        loop_defer(l->loop, &l->flush);
}

static void on_flush(struct deferred *d)
{
        struct link *l = container_of(d, struct link, flush);
        if (!l->watch)
                return;
        if (l->has_pong) {
                _buf_ struct buf pong = BUF_INIT(EGRESSMSG_MAX);
                l->has_pong = false;
                must(egressmsg_pong_write(&pong) == 0);
                append(l, buf_slice(&pong));
        }
        bool was_full = link_is_full(l);
        int r = send_all(l);
        if (r < 0) {
                end(l, r == -EPIPE || r == -ECONNRESET ? 0 : r);
                return;
        }
        bool has_more = l->sent < l->out.n;
        if (!has_more) {
                buf_release(&l->out); /* an idle program holds no memory */
                l->sent = 0;
        } else if (l->sent > l->out.n / 2) {
                buf_consume(&l->out, l->sent);
                l->sent = 0;
        }
        watch_set(l->watch, WATCH_READ | (has_more ? WATCH_WRITE : 0u));
        if (was_full && !link_is_full(l))
                l->on_room(l->arg);
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

static size_t take_fds(struct msghdr *h, int fds[LINK_FDS_MAX])
{
        size_t count = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                must(count + n <= LINK_FDS_MAX);
                memcpy(fds + count, CMSG_DATA(c), n * sizeof(int));
                count += n;
        }
        return count;
}

/* Connections may use up all descriptors. Those that come with a message would be lost then, so that room is kept for them. */
static void keep_spare(struct link *l)
{
        while (l->spare_count < LINK_SPARE) {
                int fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
                if (fd < 0)
                        return;
                l->spare[l->spare_count++] = fd;
        }
}

static void close_spare(struct link *l)
{
        while (l->spare_count > 0)
                fd_close(l->spare[--l->spare_count]);
}

/* Does the next message bring descriptors? */
static bool brings_fds(const struct link *l)
{
        char head[2];
        return recv(l->fd, head, sizeof(head), MSG_PEEK) == sizeof(head) &&
               (head[1] == EGRESSMSG_OPEN || head[1] == EGRESSMSG_RULES);
}

/* Takes one message. Returns 1, 0 when there is none, or -errno; -EPIPE when the server has closed the socket. */
static int receive(struct link *l)
{
        static char bytes[EGRESSMSG_MAX];
        alignas(struct cmsghdr) char control[CMSG_SPACE(LINK_FDS_MAX * sizeof(int))];
        struct iovec part = { .iov_base = bytes, .iov_len = sizeof(bytes) };
        struct msghdr h = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        if (brings_fds(l))
                close_spare(l);
        ssize_t n = recvmsg(l->fd, &h, MSG_CMSG_CLOEXEC);
        if (n < 0)
                return fd_is_passing(errno) ? 0 : -errno;
        int fds[LINK_FDS_MAX];
        size_t count = take_fds(&h, fds);
        int r = n == 0 ? -EPIPE : 0;
        if (r == 0 && (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
                r = -EPROTO;
        if (r == 0)
                r = l->take(l->arg, slice_from(bytes, (size_t)n), fds, count);
        for (size_t i = 0; i < count; i++)
                fd_close(fds[i]);
        return r < 0 ? r : 1;
}

static void on_ready(void *arg, unsigned events)
{
        struct link *l = arg;
        if (events & WATCH_WRITE)
                loop_defer(l->loop, &l->flush);
        int r = events & WATCH_READ ? 1 : 0;
        for (int round = 0; r > 0 && round < ROUNDS; round++)
                r = receive(l);
        keep_spare(l);
        if (r < 0)
                end(l, r == -EPIPE || r == -ECONNRESET ? 0 : r);
}

int link_open(struct link *l, struct loop *loop, int fd)
{
        l->fd = fd;
        l->loop = loop;
        buf_init(&l->out, OUT_MAX);
        deferred_init(&l->flush, on_flush);
        keep_spare(l);
        l->later = timer_new(loop, on_later, l);
        int r = fd_set_nonblock(fd, true);
        return r < 0 ? r : watch_new(loop, fd, WATCH_READ, on_ready, l, &l->watch);
}

void link_release(struct link *l)
{
        l->watch = watch_free(l->watch);
        l->later = timer_free(l->later);
        if (l->loop)
                deferred_cancel(&l->flush);
        buf_release(&l->out);
        close_spare(l);
}
