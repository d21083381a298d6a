/* lend: describes a descriptor of the server, and opens it again in the spawner (lend.h). */
#include "keeper/lend.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define NULL_DEVICE makedev(1, 3)

/* A FIFO, which is a pipe with a name, cannot be lent: opening it may block until its other end is opened. */
static bool is_lendable(int fd, const struct stat *st)
{
        struct statfs fs;
        if (S_ISCHR(st->st_mode) && st->st_rdev == NULL_DEVICE)
                return true;
        return fstatfs(fd, &fs) == 0 && (fs.f_type == PIPEFS_MAGIC || fs.f_type == DEVPTS_SUPER_MAGIC);
}

int lend_describe(int fd, enum lend_kind kind, struct lent *ret)
{
        struct stat st;
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (kind == LEND_STDIO && !is_lendable(fd, &st))
                return -EINVAL;
        *ret = (struct lent){ .fd = fd,
                              .flags = kind == LEND_PROGRAM ? O_PATH : flags & O_ACCMODE,
                              .dev = st.st_dev,
                              .ino = st.st_ino };
        return 0;
}

int lend_take(pid_t lender, const struct lent *what)
{
        char path[64];
        struct stat st;
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)lender, (int)what->fd);
        _close_ int fd = open(path, what->flags | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        /* /proc may show another pid namespace, in which the pid of the lender belongs to another process. */
        if (st.st_dev != what->dev || st.st_ino != what->ino)
                return -ESTALE;
        return TAKE_FD(fd);
}
