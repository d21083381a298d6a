/* spawn_fs_helper: the server starts an fs helper, from any thread.
 *
 * A helper and the server have a socket of their own. Normally the server sends one end of a pair to the spawner. While the
 * kernel passes no descriptors on (keeper/lend.h), the server tells the spawner where to connect to, and lends it the image and
 * the programs.
 */
#include "proc/spawn.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "proc/spawn_internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ROOM_WAIT_MS 2000 /* wait for room in the spawner's socket */
#define CALLS_MAX 8       /* connections that may wait to be accepted */

static int listen_anywhere(struct spawn_order *order)
{
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        socklen_t n =
                sizeof(name.sun_family); /* without a name, so that the kernel chooses an abstract one */
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&name, n) < 0)
                return -errno;
        n = sizeof(name);
        if (getsockname(fd, (struct sockaddr *)&name, &n) < 0 || listen(fd, CALLS_MAX) < 0)
                return -errno;
        n -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
        if (n > sizeof(order->address))
                return -ENAMETOOLONG;
        memcpy(order->address, name.sun_path, n);
        order->address_bytes = (uint32_t)n;
        return TAKE_FD(fd);
}

/* Waits for the spawner to connect. Every process of the machine may connect; only the spawner's connection is kept. */
static int accept_from(int listener, pid_t spawner, uint64_t end_ms)
{
        for (uint64_t now_ms; (now_ms = clock_mono_ms()) < end_ms;) {
                struct pollfd call = { .fd = listener, .events = POLLIN };
                struct ucred who = { .pid = 0 };
                socklen_t n = sizeof(who);
                if (poll(&call, 1, (int)(end_ms - now_ms)) <= 0)
                        continue;
                _close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.pid == spawner)
                        return TAKE_FD(fd);
        }
        return -ETIMEDOUT;
}

/* Has the spawner connect to the server, and start a helper with that connection. Returns the server's end, or -errno. Once the
 * spawner is connected, it has taken what was lent. */
static int start_by_call(int spawner_socket, pid_t spawner, const int fds[], size_t fd_count)
{
        uint64_t end_ms = clock_mono_ms() + LIMIT_HANDOVER_MS;
        struct spawn_order order = { .kind = SPAWN_FS_HELPER,
                                     .has_bwrap = fd_count > 1,
                                     .lent_count = (uint32_t)fd_count };
        int r = 0;
        for (size_t i = 0; r == 0 && i < fd_count; i++)
                r = lend_describe(fds[i], i == 0 ? LEND_MEMORY : LEND_PROGRAM, &order.lent[i]);
        _close_ int listener = r < 0 ? r : listen_anywhere(&order);
        if (listener < 0)
                return listener;
        r = spawn_packet_send(spawner_socket, &order, S(""), NULL, 0);
        return r < 0 ? r : accept_from(listener, spawner, end_ms);
}

int spawn_start_fs_helper(int spawner_socket, pid_t spawner, int image_fd, const struct bwrap *bwrap,
                          int *ret_socket)
{
        const struct spawn_order order = { .kind = SPAWN_FS_HELPER, .has_bwrap = bwrap != NULL };
        uint64_t begun_ms = clock_mono_ms();
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        _close_ int ours = ends[0];
        _close_ int theirs = ends[1];
        int fds[2 + SPAWN_PROGRAMS] = { theirs, image_fd };
        size_t fd_count = 2 + command_programs(bwrap, fds + 2);
        for (bool has_called = false;;) {
                int r = spawn_packet_send(spawner_socket, &order, S(""), fds, fd_count);
                if (r == 0)
                        *ret_socket = TAKE_FD(ours);
                if (r == -ETOOMANYREFS && !has_called) {
                        has_called = true;
                        int called = start_by_call(spawner_socket, spawner, fds + 1, fd_count - 1);
                        if (called >= 0) {
                                *ret_socket = called;
                                return 0;
                        }
                }
                bool is_full = r == -EAGAIN, is_refused = r == -ETOOMANYREFS;
                uint64_t waited_ms = clock_mono_ms() - begun_ms;
                if ((!is_full && !is_refused) || waited_ms >= (is_full ? ROOM_WAIT_MS : LIMIT_HANDOVER_MS))
                        return r;
                struct pollfd room = { .fd = is_full ? spawner_socket : -1, .events = POLLOUT };
                (void)poll(&room, 1, LIMIT_HANDOVER_RETRY_MS);
        }
}
