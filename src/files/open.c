/* open: opens a file for fs/open, fs/readFile or a watch. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "files/request.h"
#include "fsop/at.h"
#include "fsop/fsop.h"
#include "proto/fs.h"
#include "reach/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_PAUSE_MS 10

/* Locks a file that was opened by its path. Returns 0 or -errno. On a file system without locks nothing is locked. */
static int lock(const struct file_open *how, int fd, const struct stat *st)
{
        struct stat now;
        uint64_t end = clock_mono_ms() + LIMIT_HANDLE_LOCK_MS;
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK)
                        return errno == EINTR ? -EAGAIN : 0;
                if (clock_mono_ms() >= end)
                        return -EAGAIN;
                (void)poll(NULL, 0, LOCK_PAUSE_MS);
        }
        /* Whoever had the lock may have removed or renamed the file before it was free. */
        _close_ int again = fsop_open(how->path.p, O_PATH, 0, how->follows);
        bool is_same =
                again >= 0 && fstat(again, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino;
        return is_same ? 0 : -EAGAIN;
}

/* Opens a file for writing, and truncates it only after it was found to be a regular file. */
static int open_for_writing(const struct file_open *how, int *ret_fd, struct stat *ret_st, struct err *err)
{
        _close_ int fd = at_new_error(how->path.p, fsop_open_to_change(how->path.p, O_WRONLY | O_CREAT, 0666,
                                                                       how->follows));
        if (fd < 0)
                return fsop_fail(err, fd);
        if (fstat(fd, ret_st) < 0)
                return fsop_fail(err, errno);
        if (!S_ISREG(ret_st->st_mode))
                return fsop_refuse(err, "path `%s` is not a file", how->path.p);
        int r = how->wants_lock ? lock(how, fd, ret_st) : 0;
        if (r < 0)
                return fsop_fail(err, -r);
        if (how->mode == FS_OPEN_REPLACE && ret_st->st_size > 0 && ftruncate(fd, 0) < 0)
                return fsop_fail(err, errno);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int open_to_look(const struct file_open *how, int *ret_fd, struct stat *ret_st, struct err *err)
{
        _close_ int fd = fsop_open(how->path.p, O_PATH, 0, true);
        int r = fd < 0 ? fd : reach_check_read(fd);
        if (r == 0 && fstat(fd, ret_st) < 0)
                r = -errno;
        if (r < 0)
                return fsop_fail(err, r);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int file_open(const struct file_open *how, int *ret_fd, struct stat *ret_st, struct err *err)
{
        if (how->mode == FS_OPEN_LOOK)
                return open_to_look(how, ret_fd, ret_st, err);
        return how->mode == FS_OPEN_READ ? fsop_open_regular(how->path.p, how->follows, ret_fd, ret_st, err)
                                         : open_for_writing(how, ret_fd, ret_st, err);
}
