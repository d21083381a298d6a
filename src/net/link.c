/* link: reads messages from the server's socket, and queues and sends messages to it. */
#include "net/link.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES (256 * KIB)
#define IN_MAX (NETMSG_HEAD_BYTES + NETMSG_PAYLOAD_MAX + READ_BYTES)
/* The most that can be queued: for each transfer its window, its HEAD and its END, each with the head of its message. */
#define OUT_MAX ((size_t)LIMIT_HTTP_REQUESTS * 4 * (LIMIT_HTTP_WINDOW_BYTES + NETMSG_PAYLOAD_MAX))

void link_init(struct link *l, int fd)
{
        *l = (struct link){ .fd = fd };
        buf_init(&l->in, IN_MAX);
        buf_init(&l->out, OUT_MAX);
}

void link_release(struct link *l)
{
        buf_release(&l->in);
        buf_release(&l->out);
}

int link_read(struct link *l, int (*take)(void *arg, const struct netmsg *m), void *arg)
{
        char *room;
        int r = buf_reserve(&l->in, READ_BYTES, &room);
        if (r < 0)
                return r;
        ssize_t n = recv(l->fd, room, READ_BYTES, 0);
        if (n < 0)
                return fd_is_passing(errno) ? 0 : -errno;
        if (n == 0)
                return -EPIPE;
        buf_commit(&l->in, (size_t)n);

        size_t at = 0;
        struct netmsg m;
        ssize_t used;
        while ((used = netmsg_next(slice_from(l->in.p + at, l->in.n - at), &m)) > 0) {
                at += (size_t)used;
                r = take(arg, &m);
                if (r < 0)
                        return r;
        }
        if (used < 0)
                return (int)used;
        if (at == l->in.n)
                buf_release(&l->in); /* an idle helper holds no memory */
        else
                buf_consume(&l->in, at);
        return 0;
}

int link_flush(struct link *l)
{
        while (l->sent < l->out.n) {
                ssize_t n = send(l->fd, l->out.p + l->sent, l->out.n - l->sent, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && fd_is_passing(errno))
                        break;
                if (n < 0)
                        return -errno;
                l->sent += (size_t)n;
        }
        if (l->sent == l->out.n)
                buf_release(&l->out);
        else if (l->sent > l->out.n / 2)
                buf_consume(&l->out, l->sent);
        else
                return 0;
        l->sent = 0;
        return 0;
}
