/* spawn_msg: sends one packet to the spawner, or from the spawner to a sandbox that waits for its order. */
#include "keeper/spawn_msg.h"

#include <errno.h>
#include <sys/socket.h>

int spawn_packet_send(int socket, const struct spawn_order *order, struct slice strings, const int fds[],
                      size_t fd_count)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(SPAWN_FDS_MAX * sizeof(int))] = { 0 };
        struct iovec parts[] = {
                { (void *)(uintptr_t)order, sizeof(*order) },
                { (void *)(uintptr_t)strings.p, strings.n },
        };
        struct msghdr m = { .msg_iov = parts, .msg_iovlen = ARRAY_LEN(parts) };
        if (fd_count > 0) {
                m.msg_control = control;
                m.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
                struct cmsghdr *c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
                memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
        }

        for (;;) {
                if (sendmsg(socket, &m, MSG_NOSIGNAL) >= 0)
                        return 0;
                switch (errno) {
                case EINTR:
                        continue;
                case EAGAIN:
                case ENOBUFS:
                case ENOMEM:
                        return -EAGAIN;
                default:
                        return -errno;
                }
        }
}
