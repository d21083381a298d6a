/* write_place: makes the file for the new content: a temporary file beside the target, or the target itself. */
#include "fsop/write_internal.h"

#include "base/mem.h"
#include "fsop/at.h"
#include "fsop/keep_internal.h"
#include "fsop/room_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)65536)

/* ---- Making a temporary file beside the target */

void writer_drop_temp(struct writer *w)
{
        if (w->temp >= 0)
                (void)at_unlink(w->at.dirfd, w->temp_name, 0);
        w->temp = fd_close(w->temp);
        if (w->slot >= 0)
                journal_remove(w->o.journal, w->slot);
        w->slot = -1;
}

/* Records the name in the journal before the file exists, so that a kill at any moment leaves no unrecorded file. */
static void temp_note(struct writer *w)
{
        char link[32], directory[PATH_MAX];

        if (!w->o.journal)
                return;
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", w->at.dirfd);
        ssize_t n = readlink(link, directory, sizeof(directory) - 1);
        if (n <= 0)
                return;
        directory[n] = '\0';
        w->slot = journal_add(w->o.journal, directory, w->temp_name);
}

int writer_make_temp(struct writer *w)
{
        /* A file that replaces another is private until it has the other's owner and ACL. */
        mode_t mode = w->target >= 0 ? 0600 : w->o.has_mode ? w->o.mode & 0777 : 0666;

        journal_temp_name(w->temp_name);
        temp_note(w);
        do
                w->temp = at_open(w->at.dirfd, w->temp_name,
                                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        while (w->temp < 0 && errno == EINTR);

        int r = w->temp < 0 ? -errno : 0;
        if (r < 0)
                reach_meant_instead(r, slice_from_str(w->at.name));
        if (r == 0 && w->target >= 0)
                r = keep_attributes(w->target, w->temp, &w->st);
        if (r < 0)
                writer_drop_temp(w);
        return r;
}

/* ---- Writing the target in place */

int writer_make_in_place(struct writer *w)
{
        mode_t mode = w->o.has_mode ? w->o.mode & 0777 : 0666;

        w->target = at_open(w->at.dirfd, w->at.name,
                            O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
        if (w->target < 0)
                return -errno;
        w->is_made = true;
        return fstat(w->target, &w->st) < 0 ? -errno : 0;
}

int writer_secure_room(struct writer *w, uint64_t size)
{
        int r = room_secure(w->target, &w->st, size);
        if (r == 0)
                w->has_room = true;
        return r;
}

static int place_copy_temp(struct writer *w)
{
        _free_ char *bytes = mem_alloc(COPY_BYTES);
        uint64_t at = 0;

        while (at < w->written) {
                ssize_t n = pread(w->temp, bytes, MIN(COPY_BYTES, w->written - at), (off_t)at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                for (ssize_t done = 0; done < n;) {
                        ssize_t put = pwrite(w->target, bytes + done, (size_t)(n - done), (off_t)at + done);
                        if (put < 0 && errno == EINTR)
                                continue;
                        if (put <= 0)
                                return put < 0 ? -errno : -ENOSPC;
                        done += put;
                }
                at += (uint64_t)n;
        }
        return lseek(w->target, (off_t)w->written, SEEK_SET) < 0 ? -errno : 0;
}

/* Returns whether the name still means the file that is open: it may have been replaced or renamed. */
static bool is_still_named(const struct writer *w)
{
        struct stat st;

        return at_stat(w->at.dirfd, w->at.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == w->st.st_dev &&
               st.st_ino == w->st.st_ino;
}

int writer_go_in_place(struct writer *w, int why)
{
        if (!writer_is_replacing(w) || w->target < 0)
                return why;
        if (writer_lock(w, w->target) < 0)
                return why;
        if (fstat(w->target, &w->st) < 0 || !is_still_named(w))
                return why;

        int r = writer_secure_room(w, MAX(w->o.size, w->written));
        if (r < 0)
                return r;
        r = place_copy_temp(w);
        writer_drop_temp(w);
        /* A file that is written in place keeps its mode, unless another one was asked for. */
        w->has_mode = w->is_mode_asked;
        return r;
}
