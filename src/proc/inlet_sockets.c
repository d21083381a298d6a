/* inlet_sockets: receives the one message with the inlets of a command (inlet_sockets.h). */
#include "proc/inlet_sockets.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static void fds_close(const int fds[], size_t count)
{
        for (size_t i = 0; i < count; i++)
                fd_close(fds[i]);
}

/* Copies the descriptors that came with a message; more than INLETS_MAX find no room in its control part. Returns how many. */
static size_t fds_of(struct msghdr *msg, int ret[static INLETS_MAX])
{
        size_t n = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                memcpy(ret, CMSG_DATA(c), n * sizeof(int));
        }
        return n;
}

int inlet_sockets_take(int socket, const struct inlets *inlets, int ret_fds[static INLETS_MAX])
{
        struct inlets_message m;
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(INLETS_MAX * sizeof(int))];
        struct iovec part = { &m, sizeof(m) };
        struct msghdr msg = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        ssize_t n;
        do
                n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        int fds[INLETS_MAX];
        size_t count = fds_of(&msg, fds);
        int r = n == 0                                                ? -EPIPE
                : msg.msg_flags & MSG_CTRUNC                          ? -EMFILE
                : n != sizeof(m) || m.count != count                  ? -EBADMSG
                : count != inlets->count || msg.msg_flags & MSG_TRUNC ? -EBADMSG
                                                                      : 0;
        if (r < 0)
                fds_close(fds, count);
        else
                memcpy(ret_fds, fds, count * sizeof(int));
        return r;
}
