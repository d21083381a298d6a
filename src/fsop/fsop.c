/* fsop: from a path to a descriptor, and from the system's refusals to the words that clients know.
 *
 * openat2 does the work in one call. It says ELOOP for a link anywhere; clients know two answers, so on ELOOP the path
 * is walked once more, component by component, for the right one. The same walk stands in where openat2 is missing or
 * forbidden (old kernels, seccomp filters of containers).
 */
#include "fsop/fsop.h"

#include "base/fd.h"
#include "fsop/at.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsop_fail(struct err *err, int e)
{
        int number = e < 0 ? -e : e;

        err->os_errno = number;
        return err_set(err, 0, -number, "%s (os error %d)", errno_text(number), number);
}

int fsop_refuse(struct err *err, const char *fmt, ...)
{
        char text[ERR_TEXT_BYTES + 8]; /* longer than what err_set takes: it cuts between characters */
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);

        err->os_errno = 0;
        return err_set(err, 0, -EINVAL, "%s", text);
}

static int open_at(int dirfd, const char *path, int flags, mode_t mode)
{
        int fd;
        do
                fd = openat(dirfd, path, flags, mode);
        while (fd < 0 && errno == EINTR); /* FUSE and network file systems do that */
        return fd < 0 ? -errno : fd;
}

static int open_without_links(int dirfd, const char *path, int flags, mode_t mode)
{
        bool makes_file = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
        struct open_how how = {
                .flags = (uint64_t)(unsigned)flags,
                .mode = makes_file ? mode & 07777
                                   : 0, /* openat2 takes no other bits, and none without need */
                .resolve = RESOLVE_NO_SYMLINKS,
        };
        long fd;
        do
                fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
        while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : (int)fd;
}

/* The last component, below `dirfd`. The kernel says ENOTDIR of a link when a directory is wanted, and hands out the link
 * itself for O_PATH: both are ELOOP here, unless O_NOFOLLOW asked for the link. */
static int open_last(int dirfd, const char *name, int flags, mode_t mode)
{
        _close_ int fd = open_at(dirfd, name, flags | O_NOFOLLOW, mode);
        struct stat st;

        if (fd == -ENOTDIR && at_stat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
                return -ELOOP;
        if (fd >= 0 && (flags & O_PATH) && !(flags & O_NOFOLLOW)) {
                if (fstat(fd, &st) < 0)
                        return -errno;
                if (S_ISLNK(st.st_mode))
                        return -ELOOP;
        }
        return TAKE_FD(fd);
}

/* The components one by one, none of them a link, from `start` or the root. `path` is scratch. */
static int open_walking(int start, char *path, int flags, mode_t mode)
{
        _close_ int dirfd = open_at(start, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        if (dirfd < 0)
                return dirfd;

        char *name = path + strspn(path, "/");
        if (*name == '\0')
                return open_at(dirfd, ".", flags, mode);

        for (;;) {
                size_t length = strcspn(name, "/");
                char *next = name + length + strspn(name + length, "/");
                bool has_slash = name[length] != '\0';

                name[length] = '\0';
                if (*next == '\0') {
                        /* A slash at the end asks for a directory; passed on, it would also follow a link. */
                        if (has_slash && (flags & O_CREAT))
                                return -EISDIR;
                        return open_last(dirfd, name, has_slash ? flags | O_DIRECTORY : flags, mode);
                }

                int fd = open_at(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
                if (fd < 0)
                        return fd;
                fd_close(dirfd);
                dirfd = fd;
                name = next;
        }
}

int fsop_open_at(int dirfd, const char *path, int flags, mode_t mode, bool follow)
{
        /* O_PATH opens nothing that could block, and openat2 refuses the other two beside it. */
        flags |= flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

        if (path[0] == '\0')
                return -ENOENT;
        if (law_is_in_force())
                return law_open(dirfd, path, flags, mode,
                                !follow              ? LAW_NO_LINKS
                                : flags & O_NOFOLLOW ? LAW_NOT_LAST
                                                     : LAW_FOLLOW);
        if (follow)
                return open_at(dirfd, path, flags, mode);

        int fd = open_without_links(dirfd, path, flags, mode);
        if (fd != -ELOOP && fd != -ENOSYS && fd != -EPERM)
                return fd;

        char scratch[PATH_MAX];
        size_t length = strlen(path);
        if (length >= sizeof(scratch))
                return -ENAMETOOLONG;
        memcpy(scratch, path, length + 1);
        return open_walking(dirfd, scratch, flags, mode);
}

int fsop_open(const char *path, int flags, mode_t mode, bool follow)
{
        return path[0] == '/' ? fsop_open_at(AT_FDCWD, path, flags, mode, follow) : -EINVAL;
}

int fsop_open_parent(const char *path, bool follow, struct slice *ret_name)
{
        char parent[PATH_MAX];
        size_t end = strlen(path);

        if (path[0] != '/')
                return -EINVAL;
        if (end >= sizeof(parent))
                return -ENAMETOOLONG;
        while (end > 0 && path[end - 1] == '/')
                end--;

        size_t start = end;
        while (start > 0 && path[start - 1] != '/')
                start--;

        /* "." and ".." name no entry of their parent: nothing can be made, renamed or removed under them. */
        struct slice name = { path + start, end - start };
        if (name.n == 0 || slice_eq(name, S(".")) || slice_eq(name, S("..")))
                return -EINVAL;

        memcpy(parent, path, start);
        parent[start] = '\0';
        int fd = fsop_open(parent, O_PATH | O_DIRECTORY, 0, follow);
        if (fd == -ELOOP && !follow)
                return -ENOTDIR; /* the last of the parent is not the last of the path */
        if (fd >= 0)
                *ret_name = name;
        return fd;
}

/* Some devices act on a mere open (watchdogs, tapes): those are told apart before. What is swapped in afterwards is
 * opened without waiting and refused by its descriptor. */
static int is_device(const char *path, bool follow)
{
        struct stat st;
        if (at_stat(AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
                return false; /* opening it will say why */
        if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
                return false;

        _close_ int fd = fsop_open(path, O_PATH, 0, follow);
        return fd < 0 ? fd : true;
}

static int refuse_irregular(const char *path, bool follow, struct err *err)
{
        return follow ? fsop_refuse(err, "path `%s` is not a file", path)
                      : fsop_refuse(err, "path is not a regular file");
}

int fsop_open_regular(const char *path, bool follow, int *ret_fd, struct stat *ret_st, struct err *err)
{
        int r = is_device(path, follow);
        if (r < 0)
                return fsop_fail(err, r);
        if (r)
                return refuse_irregular(path, follow, err);

        _close_ int fd = fsop_open(path, O_RDONLY, 0, follow);
        if (fd < 0)
                return fsop_fail(err, fd);

        struct stat st;
        if (fstat(fd, &st) < 0)
                return fsop_fail(err, errno);
        if (!S_ISREG(st.st_mode))
                return refuse_irregular(path, follow, err);

        *ret_fd = TAKE_FD(fd);
        *ret_st = st;
        return 0;
}
