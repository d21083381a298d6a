/* open: opens a file for fs/open, fs/readFile or a watch. */
#include "base/fd.h"
#include "files/request.h"
#include "fsop/at.h"
#include "fsop/fsop.h"
#include "proto/fs.h"
#include "reach/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

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
