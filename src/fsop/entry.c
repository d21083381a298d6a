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

bool entry_is_unnamed(const char *path)
{
        size_t end = strlen(path);
        while (end > 0 && path[end - 1] == '/')
                end--;

        size_t start = end;
        while (start > 0 && path[start - 1] != '/')
                start--;

        struct slice name = { path + start, end - start };
        return name.n == 0 || slice_eq(name, S(".")) || slice_eq(name, S(".."));
}

void entry_unmake(int dirfd, const char *name, int fd)
{
        struct stat made, now;

        if (fstat(fd, &made) == 0 && at_stat(dirfd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
            made.st_dev == now.st_dev && made.st_ino == now.st_ino)
                (void)at_unlink(dirfd, name, 0);
}
