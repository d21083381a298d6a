/* entry: a name in a directory that is held open. */
#include "fsop/entry_internal.h"

#include "fsop/at.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int entry_open(const char *path, bool follow, struct entry *ret)
{
        struct slice name;
        _close_ int dirfd = fsop_open_parent(path, follow, &name);

        if (dirfd < 0)
                return dirfd;
        if (name.n > NAME_MAX)
                return -ENAMETOOLONG;
        memcpy(ret->name, name.p, name.n);
        ret->name[name.n] = '\0';
        ret->dirfd = TAKE_FD(dirfd);
        return 0;
}

int entry_check_change(int dirfd, const struct stat *st)
{
        struct stat dir;

        if (!S_ISREG(st->st_mode) || st->st_nlink <= 1)
                return 0;
        if (fstat(dirfd, &dir) < 0)
                return -errno;
        bool is_ours = dir.st_uid == 0 || dir.st_uid == geteuid();
        return is_ours || dir.st_uid == st->st_uid ? 0 : -EPERM;
}

int fsop_open_to_change(const char *path, int flags, mode_t mode, bool follow)
{
        size_t length = strlen(path);
        /* Such a path leads to a directory. Directories have no hard links, so entry_check_change is not needed. */
        if (entry_is_unnamed(path) || path[length - 1] == '/')
                return fsop_open(path, flags, mode, follow);

        _entry_ struct entry e = ENTRY_INIT;
        int r = entry_open(path, follow, &e);
        if (r < 0)
                return r;
        /* Only a file that the name itself means is checked, so the first try does not follow a link. */
        _close_ int fd = fsop_open_at(e.dirfd, e.name, flags | O_NOFOLLOW, mode, follow);
        struct stat st;
        if (fd >= 0 && fstat(fd, &st) < 0)
                return -errno;
        if (fd == -ELOOP || (fd >= 0 && S_ISLNK(st.st_mode))) /* O_PATH opens a link itself */
                return follow ? fsop_open_at(e.dirfd, e.name, flags, mode, true) : -ELOOP;
        if (fd < 0)
                return fd;
        r = entry_check_change(e.dirfd, &st);
        return r < 0 ? r : TAKE_FD(fd);
}

void entry_unmake(int dirfd, const char *name, int fd)
{
        struct stat made, now;

        if (fstat(fd, &made) == 0 && at_stat(dirfd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
            made.st_dev == now.st_dev && made.st_ino == now.st_ino)
                (void)at_unlink(dirfd, name, 0);
}
