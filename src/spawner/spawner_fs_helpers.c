/* spawner_fs_helpers: starts and reaps fs helpers, the processes that do file requests in a sandbox (confine/fs_helper.c). They
 * are children of the spawner that are neither keepers nor left by a keeper. */
#include "spawner/spawner_internal.h"

#include "base/fd.h"
#include "base/maps.h"
#include "base/mem.h"
#include "base/sys.h"
#include "keeper/fs_view.h"
#include "sandbox/enter.h"
#include "sandbox/image.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

struct fs_helper {
        struct list link; /* spawner_state::fs_helpers */
        pid_t pid;
};

static struct fs_helper *fs_helper_find(const struct spawner_state *s, pid_t pid)
{
        struct fs_helper *f;
        list_each (f, &s->fs_helpers, link)
                if (f->pid == pid)
                        return f;
        return NULL;
}

bool fs_helpers_have(const struct spawner_state *s, pid_t pid)
{
        return fs_helper_find(s, pid) != NULL;
}

bool fs_helpers_forget(struct spawner_state *s, pid_t pid)
{
        struct fs_helper *f = fs_helper_find(s, pid);
        if (!f)
                return false;
        list_remove(&f->link);
        free(f);
        return true;
}

/* Unmaps shared memory in a copy of the spawner that becomes an fs helper. The memory of keepers, and the plans of other
 * sandboxes, are shared by all copies of the spawner. A process that serves requests of a sandbox must not be able to write
 * there. */
static void memory_part(const struct spawner_state *s, int socket, const struct image *image)
{
        int r = maps_drop_shared(image);
        if (r == 0)
                return;
        s->setup.fs_helper->failed(socket, -1, -r, ENTER_NO_OP);
        sys_exit(0);
}

/* Makes a copy of the spawner, which has a heap, unlike a keeper. The copy is the first process of its namespaces; or it has bwrap
 * make the namespaces, and a helper in them. */
static long fs_helper_clone(struct spawner_state *s, int socket, struct image *image, const int programs[])
{
        bool is_bwrap = image->backend == BACKEND_BUBBLEWRAP;
        if (is_bwrap != (programs != NULL))
                return -EINVAL;
        const struct fs_view_order order = { .fs_helper = s->setup.fs_helper,
                                             .spawner = sys_getpid(),
                                             .is_forking = s->is_forking,
                                             .socket = socket,
                                             .image = image,
                                             .programs = programs,
                                             .fence = is_bwrap ? fence_get(&s->fence) : -1 };
        long pid = sys6(SYS_clone, (long)enter_flags(image) | SIGCHLD, 0, 0, 0, 0, 0);
        if (pid == 0)
                memory_part(s, socket, image);
        if (pid == 0 && is_bwrap)
                fs_view_run(&order);
        if (pid == 0)
                s->setup.fs_helper->run(socket, image, NULL);
        return pid;
}

static void fs_helper_start(struct spawner_state *s, int socket, int image_fd, const int programs[])
{
        struct image *image = image_map(image_fd);
        long pid = image ? fs_helper_clone(s, socket, image, programs) : -ENOMEM;
        image_unmap(image);
        if (pid < 0) {
                s->setup.fs_helper->failed(socket, -1, (int)-pid, ENTER_NO_OP);
                return;
        }
        struct fs_helper *f = mem_new(struct fs_helper);
        f->pid = (pid_t)pid;
        list_append(&s->fs_helpers, &f->link);
}

/* Connects to the server's listening socket. Returns the descriptor or -errno. Does not block: the socket has room, or the server
 * has given up. */
static int connect_to(const struct spawn_order *order)
{
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        size_t n = MIN(order->address_bytes, sizeof(order->address));
        memcpy(name.sun_path, order->address, n);
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&name,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
                return -errno;
        int r = fd_set_nonblock(fd, false);
        return r < 0 ? r : TAKE_FD(fd);
}

/* Starts no fs helper when the descriptors of the order did not arrive. The server notices: the socket closes, or the server's wait
 * for a connection ends. */
void fs_helpers_start(struct spawner_state *s, const struct spawn_order *order, const int fds[],
                      size_t fd_count)
{
        bool is_lent = order->lent_count > 0;
        size_t image = is_lent ? 0 : 1, programs = image + 1;
        if (!s->setup.fs_helper || fd_count != programs + (order->has_bwrap ? 2 : 0))
                return;
        _close_ int called = is_lent ? connect_to(order) : -1;
        if (!is_lent || called >= 0)
                fs_helper_start(s, is_lent ? called : fds[0], fds[image],
                                order->has_bwrap ? &fds[programs] : NULL);
}

void fs_helpers_kill(const struct spawner_state *s)
{
        const struct fs_helper *f;
        list_each (f, &s->fs_helpers, link)
                (void)sys_kill(f->pid, SIGKILL);
}
