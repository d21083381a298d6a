/* lifeline: watches a descriptor until it reaches its end. */
#include "server/lifeline.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A regular file is no lifeline, because it never ends; nor is a terminal, because it does not end with a process. */
static int check_kind(int fd, struct err *err)
{
        struct stat st;
        if (fstat(fd, &st) < 0)
                return err_set(err, 0, -errno, "--lifeline %d: %s", fd, errno_text(errno));
        if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
                return err_set(err, 0, -EINVAL, "--lifeline %d: neither a pipe nor a socket", fd);
        return 0;
}

/* Frees the number that the descriptor came with. Numbers below 3 must stay in use. */
static int free_number(int fd)
{
        if (fd > STDERR_FILENO) {
                fd_close(fd);
                return 0;
        }
        if (fd != STDIN_FILENO)
                return 0; /* the URL and the log are written there */
        _close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        return null < 0 || dup2(null, fd) < 0 ? -errno : 0;
}

int lifeline_open(struct lifeline *l, int fd, struct err *err)
{
        int r = check_kind(fd, err);
        if (r < 0)
                return r;
        l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        r = l->fd < 0 ? -errno : free_number(fd);
        if (r == 0)
                r = fd_set_nonblock(l->fd, true);
        return r < 0 ? err_set(err, 0, r, "--lifeline %d: %s", fd, errno_text(r)) : 0;
}

static void on_ready(void *arg, UNUSED unsigned events)
{
        struct lifeline *l = arg;
        char ignored[512];
        ssize_t n = read(l->fd, ignored, sizeof(ignored));
        if (n > 0 || (n < 0 && (errno == EINTR || fd_is_passing(errno))))
                return;
        l->watch = watch_free(l->watch);
        l->on_end(l->arg);
}

int lifeline_watch(struct lifeline *l, struct loop *loop, void (*on_end)(void *arg), void *arg,
                   struct err *err)
{
        if (l->fd < 0)
                return 0;
        l->on_end = on_end;
        l->arg = arg;
        int r = watch_new(loop, l->fd, WATCH_READ, on_ready, l, &l->watch);
        return r < 0 ? err_set(err, 0, r, "--lifeline: %s", errno_text(r)) : 0;
}

void lifeline_release(struct lifeline *l)
{
        l->watch = watch_free(l->watch);
        l->fd = fd_close(l->fd);
}
