/* fsop: opens paths, and turns the system's errors into the texts that clients know.
 *
 * openat2 opens a path in one call. It fails with ELOOP for a link at any place; clients know two errors, so after ELOOP the
 * path is walked once more, component by component, to find the right one. The same walk replaces openat2 where that is missing
 * or forbidden (old kernels, seccomp filters of containers).
 */
#include "fsop/fsop.h"

#include "base/fd.h"
#include "fsop/at.h"
#include "fsop/wary.h"
#include "reach/reach.h"

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
        reach_blame(number);
        return err_set(err, 0, -number, "%s (os error %d)", errno_text(number), number);
}

int fsop_refuse(struct err *err, const char *fmt, ...)
{
        char text[ERR_TEXT_BYTES + 8]; /* longer than err_set takes, which cuts between characters */
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
        while (fd < 0 && errno == EINTR); /* FUSE and network file systems can return EINTR */
        return fd < 0 ? -errno : fd;
}

static int open_without_links(int dirfd, const char *path, int flags, mode_t mode)
{
        bool makes_file = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
        struct open_how how = {
                .flags = (uint64_t)(unsigned)flags,
                .mode = makes_file ? mode & 07777
                                   : 0, /* openat2 refuses other bits, and a mode when no file is made */
                .resolve = RESOLVE_NO_SYMLINKS,
        };
        long fd;
        do
                fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
        while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : (int)fd;
}

/* Opens the last component, in `dirfd`. For a link the kernel says ENOTDIR when a directory is wanted, and opens the link itself
 * with O_PATH: both are ELOOP here, unless O_NOFOLLOW asked for the link. */
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

/* Opens a path component by component, from `start` or the root; none may be a link. Overwrites the text of `path`. */
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
                        /* A slash at the end asks for a directory. It is not passed on: the kernel would then follow a link. */
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

/* Returns whether the flags ask for the content of a regular file, so that a FIFO must be refused. A FIFO may be opened for
 * writing without O_CREAT. */
static bool opens_file(int flags)
{
        bool reads = (flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT);
        bool makes = (flags & (O_CREAT | O_EXCL)) == O_CREAT;
        return (reads || makes) && !(flags & (O_PATH | O_DIRECTORY));
}

/* Opens a file without ever opening a FIFO: for a FIFO it returns an O_PATH descriptor (fd_open_looked in base/fd.h). Returns
 * -ENOENT when the file does not exist, or /proc is not mounted. */
static int open_looking(int dirfd, const char *path, int flags, bool follow)
{
        int looked = fsop_open_at(dirfd, path, O_PATH | (flags & O_NOFOLLOW), 0, follow);
        return looked < 0 ? looked : fd_open_looked(looked, flags & ~O_CREAT);
}

int fsop_open_at(int dirfd, const char *path, int flags, mode_t mode, bool follow)
{
        /* With O_PATH no open blocks, and openat2 refuses O_NOCTTY and O_NONBLOCK. */
        flags |= flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

        if (path[0] == '\0')
                return -ENOENT;
        if (reach_is_limited())
                return reach_open(dirfd, path, flags, mode,
                                  !follow              ? REACH_NO_LINKS
                                  : flags & O_NOFOLLOW ? REACH_NOT_LAST
                                                       : REACH_FOLLOW);
        if (wary_is_set() && opens_file(flags)) {
                int fd = open_looking(dirfd, path, flags, follow);
                if (fd != -ENOENT)
                        return fd;
        }
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

struct slice fsop_last_name(const char *path)
{
        size_t end = strlen(path);
        while (end > 0 && path[end - 1] == '/')
                end--;

        size_t start = end;
        while (start > 0 && path[start - 1] != '/')
                start--;

        struct slice name = { path + start, end - start };
        if (slice_eq(name, S(".")) || slice_eq(name, S("..")))
                name.n = 0;
        return name;
}

int fsop_open_parent(const char *path, bool follow, struct slice *ret_name)
{
        char parent[PATH_MAX];

        if (path[0] != '/')
                return -EINVAL;
        if (strlen(path) >= sizeof(parent))
                return -ENAMETOOLONG;
        struct slice name = fsop_last_name(path);
        if (name.n == 0)
                return -EINVAL;

        size_t start = (size_t)(name.p - path);
        memcpy(parent, path, start);
        parent[start] = '\0';
        int fd = fsop_open(parent, O_PATH | O_DIRECTORY, 0, follow);
        if (fd < 0)
                reach_meant_name(fd, name);
        if (fd == -ELOOP && !follow)
                return -ENOTDIR; /* the link is not the last component of `path` */
        if (fd >= 0)
                *ret_name = name;
        return fd;
}

/* Returns 1 when the path is a device or a FIFO, 0 when it is not, or -errno. This is asked before the path is opened, because
 * opening some devices has an effect (watchdogs, tapes) and a FIFO may be locked. A file that is swapped in afterwards is opened
 * without waiting and refused after fstat; wary_set says when FIFOs are not opened. */
static int check_special(const char *path, bool follow)
{
        struct stat st;
        if (at_stat(AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
                return 0; /* the caller's open will give the error */
        if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode) && !S_ISFIFO(st.st_mode))
                return 0;

        _close_ int fd = fsop_open(path, O_PATH, 0, follow);
        return fd < 0 ? fd : 1;
}

static int refuse_irregular(const char *path, bool follow, struct err *err)
{
        return follow ? fsop_refuse(err, "path `%s` is not a file", path)
                      : fsop_refuse(err, "path is not a regular file");
}

int fsop_open_regular(const char *path, bool follow, int *ret_fd, struct stat *ret_st, struct err *err)
{
        int r = check_special(path, follow);
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
