/* spawn_packet: orders on their way to the spawner.
 *
 * One order is one packet, with its strings and descriptors. It is sent at once when the socket takes it and nothing waits
 * before it; else it is queued, with duplicates of the descriptors, so that the caller may close its own.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "proc/spawn_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#define FILER_TRIES 100
#define FILER_WAIT_MS 20

/* A packet that the socket did not take. */
struct packet {
        struct list link; /* spawner::queue */
        struct spawn_order order;
        int fds[SPAWN_FDS_MAX]; /* ours */
        size_t fd_count;
        size_t n; /* strings behind the order */
        char bytes[];
};

static struct packet *packet_free(struct packet *p)
{
        list_remove(&p->link);
        for (size_t i = 0; i < p->fd_count; i++)
                fd_close(p->fds[i]);
        free(p);
        return NULL;
}

void packets_clear(struct spawner *s)
{
        struct packet *p;
        list_each (p, &s->queue, link)
                packet_free(p);
}

/* 0, -EAGAIN for later, or another -errno: the spawner has gone, which the receiving side will notice. */
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
                case ETOOMANYREFS: /* descriptors under way; the spawner is taking them */
                        return -EAGAIN;
                default:
                        return -errno;
                }
        }
}

void packets_send(struct spawner *s)
{
        struct packet *p;
        while ((p = list_first(&s->queue, struct packet, link))) {
                if (spawn_packet_send(s->socket, &p->order, slice_from(p->bytes, p->n), p->fds,
                                      p->fd_count) == -EAGAIN)
                        return;
                packet_free(p);
        }
}

static int packet_queue(struct spawner *s, const struct spawn_order *order, struct slice strings,
                        const int fds[], size_t fd_count)
{
        struct packet *p = mem_zalloc(sizeof(*p) + strings.n);
        list_init(&p->link);
        p->order = *order;
        p->n = strings.n;
        if (strings.n > 0)
                memcpy(p->bytes, strings.p, strings.n);
        for (size_t i = 0; i < fd_count; i++) {
                int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
                if (fd < 0) {
                        int r = -errno;
                        packet_free(p);
                        return r;
                }
                p->fds[p->fd_count++] = fd;
        }
        list_append(&s->queue, &p->link);
        return 0;
}

int packet_put(struct spawner *s, const struct spawn_order *order, struct slice strings, const int fds[],
               size_t fd_count)
{
        if (s->is_lost)
                return 0;
        if (list_is_empty(&s->queue) &&
            spawn_packet_send(s->socket, order, strings, fds, fd_count) != -EAGAIN)
                return 0;
        return packet_queue(s, order, strings, fds, fd_count);
}

int spawn_start_filer(int spawner_socket, int socket, int image_fd)
{
        const struct spawn_order order = { .kind = SPAWN_FILER };
        const int fds[] = { socket, image_fd };
        for (int i = 0; i < FILER_TRIES; i++) {
                int r = spawn_packet_send(spawner_socket, &order, S(""), fds, ARRAY_LEN(fds));
                if (r != -EAGAIN)
                        return r;
                struct pollfd room = { .fd = spawner_socket, .events = POLLOUT };
                (void)poll(&room, 1, FILER_WAIT_MS);
        }
        return -EAGAIN;
}
