/* small_file: reads a small file, locks its directory, and replaces it in one step. */
#include "base/small_file.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_RETRY_US 10000

int small_file_read(const char *path, struct buf *text, const char **ret_why)
{
        struct stat st;
        _close_ int fd = fd_open_looking(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd == -ENOENT && lstat(path, &st) == 0) {
                *ret_why = "it is a symlink that leads nowhere";
                return -ENOTDIR;
        }
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode)) {
                *ret_why = "it is not a regular file";
                return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
        }
        return fd_read_rest(fd, text->cap, text);
}

static int failed(const char *what, const char *path, int code, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;

        return err_set(err, 0, code, "failed to %s `%s`: %s (os error %d)", what, printable_str(&a, path),
                       errno_text(code), -code);
}

/* Returns the directory of a file, on the heap. */
static char *directory_of(const char *path)
{
        const char *slash = strrchr(path, '/');
        return slash ? slice_dup(slice_from(path, (size_t)(slash - path) + 1)) : mem_strdup(".");
}

/* Makes each directory above `path` that does not exist. */
static int make_parents(const char *path, struct err *err)
{
        _free_ char *part = mem_strdup(path);

        for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                int r = mkdir(part, 0700) < 0 ? -errno : 0;
                /* For a directory that exists, mkdir may report another error than EEXIST: EROFS for instance. So only access says
                 * that it is missing. */
                if (r < 0 && access(part, F_OK) < 0)
                        return failed("create the directory", part, r, err);
                *slash = '/';
        }
        return 0;
}

int small_file_lock(const char *path, struct err *err)
{
        int r = make_parents(path, err);
        if (r < 0)
                return r;
        _free_ char *directory = directory_of(path);
        _close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return failed("open the directory", directory, -errno, err);
        uint64_t end = clock_mono_ms() + LIMIT_FILE_LOCK_MS;
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if ((errno != EWOULDBLOCK && errno != EINTR) || clock_mono_ms() >= end)
                        return failed("lock the directory", directory, -errno, err);
                (void)usleep(LOCK_RETRY_US);
        }
        return TAKE_FD(fd);
}

/* Gives the new file `fd` the owner, the group and the mode of the old file. */
static int copy_owner(int fd, const struct stat *old)
{
        struct stat made;

        if (fstat(fd, &made) < 0)
                return -errno;
        if ((made.st_uid != old->st_uid || made.st_gid != old->st_gid) &&
            fchown(fd, old->st_uid, old->st_gid) < 0)
                return -errno;
        return fchmod(fd, old->st_mode & 07777) < 0 ? -errno : 0;
}

static int fill(int fd, const struct stat *old, struct slice text)
{
        int r = old ? copy_owner(fd, old) : 0;
        if (r == 0)
                r = fd_write_all(fd, text);
        return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

/* Writes the directory to the disk, so that the rename survives a crash of the machine. A failure is ignored: the file is
 * already replaced, and some file systems cannot sync a directory. */
static void sync_directory(const char *path)
{
        _free_ char *directory = directory_of(path);
        _close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
                (void)fsync(fd);
}

int small_file_replace(const char *path, struct slice text, struct err *err)
{
        struct stat old;
        bool is_new = stat(path, &old) < 0;
        if (is_new && errno != ENOENT)
                return failed("write", path, -errno, err);
        /* A file that this process may not write is not replaced, although rename would only need a writable directory. */
        if (!is_new && access(path, W_OK) < 0)
                return failed("write", path, -errno, err);
        _free_ char *target = is_new ? mem_strdup(path) : realpath(path, NULL);
        if (!target)
                return failed("write", path, -errno, err);

        _free_ char *temporary = mem_printf("%s.XXXXXX", target);
        _close_ int fd = mkostemp(temporary, O_CLOEXEC); /* the mode of the file is 0600 */
        if (fd < 0)
                return failed("create a file beside", target, -errno, err);
        int r = fill(fd, is_new ? NULL : &old, text);
        if (r == 0 && rename(temporary, target) < 0)
                r = -errno;
        if (r < 0) {
                (void)unlink(temporary);
                return failed("write", target, r, err);
        }
        sync_directory(target);
        return 0;
}
