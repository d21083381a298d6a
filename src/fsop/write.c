/* write: replaces the content of a file, completely or not at all.
 *
 * The new content is written to a temporary file beside the target when replacing the target changes nothing but its content, else
 * in place (write.h says when). If replacing turns out to be impossible (no room, a mount point), the write goes on in place.
 */
#include "fsop/write.h"

#include "base/mem.h"
#include "fsop/at.h"
#include "fsop/edit.h"
#include "fsop/keep_internal.h"
#include "fsop/name_lock_internal.h"
#include "fsop/room_internal.h"
#include "fsop/write_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define FIND_TRIES 64 /* how often the file is looked up while other processes create and remove it */

/* ---- Beginning a write */

/* Returns whether the write must be in place, as far as that is known before anything is tried. */
static bool must_stay_in_place(const struct writer *w)
{
        if (!w->o.is_atomic)
                return true;
        if (w->target < 0)
                return false;
        /* A replacement made without root could not keep set-id bits as the kernel would; in place the kernel decides. */
        return w->is_linked || w->st.st_nlink != 1 || ((w->st.st_mode & 06000) && geteuid() != 0);
}

static int begin_failed(struct writer *w, int why, const struct current *c)
{
        struct stat st;

        /* A file that cannot be opened for writing exists nevertheless: with MATCH_ABSENT that is a mismatch. */
        if (w->o.match == MATCH_ABSENT &&
            at_stat(w->at.dirfd, w->at.name, &st, w->o.follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0)
                return write_conflict(c, &st, false);
        return fsop_fail(c->err, why);
}

int writer_lock(struct writer *w, int fd)
{
        struct stat st;

        if (!w->lock) {
                int r = name_lock_take(w->at.dirfd, w->at.name, &w->lock);
                if (r < 0)
                        return r;
        }
        if (fd < 0)
                return 0;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (file_lock_is_of(w->file_lock, &st))
                return 0;
        w->file_lock = name_lock_release(w->file_lock);
        return file_lock_take(fd, &w->file_lock);
}

static bool is_locked(const struct writer *w)
{
        return w->lock && (w->target < 0 || file_lock_is_of(w->file_lock, &w->st));
}

/* Finds and opens the files of the write. For a write in place the locks come first and the file is looked up after that, because
 * the name may mean another file after waiting for a lock. */
static int writer_prepare(struct writer *w, const struct current *c)
{
        for (int i = 0; i < FIND_TRIES; i++) {
                int r = writer_find(w);
                if (r < 0)
                        return begin_failed(w, r, c);

                r = w->target < 0 || w->is_linked ? 0 : entry_check_change(w->at.dirfd, &w->st);
                if (r < 0)
                        return fsop_fail(c->err, r);

                bool is_stream = w->target >= 0 && !S_ISREG(w->st.st_mode);
                if (is_stream && !w->o.follow)
                        return fsop_refuse(c->err, "path is not a regular file");

                bool is_in_place = !is_stream && must_stay_in_place(w);
                if (is_in_place && !is_locked(w)) {
                        r = writer_lock(w, w->target);
                        if (r < 0)
                                return fsop_fail(c->err, r);
                        continue;
                }

                r = writer_match(w, w->target, &w->st, c);
                if (r < 0 || is_stream)
                        return r;

                if (!is_in_place) {
                        r = writer_make_temp(w);
                        if (r == 0 || w->target < 0)
                                return r < 0 ? fsop_fail(c->err, r) : 0;
                        /* No temporary file can be made, or it cannot get the owner and attributes of the target. */
                        w->o.is_atomic = false;
                        continue;
                }

                bool is_new = w->target < 0;
                r = is_new ? writer_make_in_place(w) : writer_secure_room(w, w->o.size);
                if (is_new && r == -EEXIST)
                        continue;
                return r < 0 ? fsop_fail(c->err, r) : 0;
        }
        return fsop_fail(c->err, EAGAIN);
}

int writer_begin(struct entry *at, const struct write_options *o, struct writer **ret,
                 struct fs_meta *ret_current, bool *ret_exists, struct err *err)
{
        struct writer *w = mem_new(struct writer);

        w->o = *o;
        w->at = *at;
        at->dirfd = -1;
        w->target = w->temp = w->slot = -1;

        int r = writer_prepare(w, &(struct current){ ret_current, ret_exists, err });
        if (r < 0) {
                (void)fsop_write_abort(w);
                return r;
        }

        bool is_old = w->target >= 0 && !w->is_made;
        w->has_mode = is_old ? writer_is_replacing(w) : o->has_mode;
        w->mode = (is_old ? w->st.st_mode : o->mode) & 07777;
        w->is_mode_kept = is_old;
        w->mode_from = w->st;
        *ret = w;
        return 0;
}

static int make_parents(const char *path, bool follow, struct err *err)
{
        char parent[PATH_MAX];
        size_t end = strlen(path);

        while (end > 0 && path[end - 1] == '/')
                end--;
        while (end > 0 && path[end - 1] != '/')
                end--;
        if (end >= sizeof(parent))
                return fsop_fail(err, ENAMETOOLONG);
        memcpy(parent, path, end);
        parent[end] = '\0';
        return fsop_create_directory(parent, true, follow, err);
}

int fsop_write_begin(const char *path, const struct write_options *o, struct writer **ret,
                     struct fs_meta *ret_current, bool *ret_exists, struct err *err)
{
        if (entry_is_unnamed(path))
                return o->follow ? fsop_fail(err, EISDIR) : fsop_refuse(err, "path must name an entry");

        bool may_be_absent = o->match == MATCH_ANY || o->match == MATCH_ABSENT;
        _entry_ struct entry at = ENTRY_INIT;
        int r = at_new_error(path, entry_open(path, o->follow, &at));
        if (r == -ENOENT && !may_be_absent)
                return write_conflict(&(struct current){ ret_current, ret_exists, err }, NULL, false);
        if (r == -ENOENT && o->create_parents) {
                r = make_parents(path, o->follow, err);
                if (r < 0)
                        return r;
                r = entry_open(path, o->follow, &at);
        }
        if (r < 0)
                return fsop_fail(err, r);
        return writer_begin(&at, o, ret, ret_current, ret_exists, err);
}

/* ---- Writing the content */

int writer_expect(struct writer *w, uint64_t size)
{
        bool is_in_place = !writer_is_replacing(w) && !w->is_made && S_ISREG(w->st.st_mode);

        w->o.size = size;
        return is_in_place ? writer_secure_room(w, size) : 0;
}

int writer_fd(const struct writer *w)
{
        return writer_is_replacing(w) ? w->temp : w->target;
}

void writer_set_written(struct writer *w, uint64_t bytes)
{
        w->written = bytes;
}

void writer_set_mode(struct writer *w, mode_t mode, const struct stat *from)
{
        w->has_mode = w->is_mode_asked = w->is_mode_kept = true;
        w->mode_from = *from;
        w->mode = mode & 07777;
}

static int put(struct writer *w, struct slice *bytes)
{
        while (bytes->n > 0) {
                ssize_t n = write(writer_fd(w), bytes->p, bytes->n);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ENOSPC;
                bytes->p += n;
                bytes->n -= (size_t)n;
                w->written += (uint64_t)n;
        }
        return 0;
}

int fsop_write_data(struct writer *w, struct slice bytes, struct err *err)
{
        int r = put(w, &bytes);
        /* There is no room for a second file. There may be enough in place, but then a match could not be checked any more. */
        if ((r == -ENOSPC || r == -EDQUOT) && w->o.match == MATCH_ANY) {
                r = writer_go_in_place(w, r);
                if (r == 0)
                        r = put(w, &bytes);
        }
        return r < 0 ? fsop_fail(err, r) : 0;
}

/* ---- Committing and aborting */

/* Sets the final mode of the file and reads its metadata. */
static int finish(struct writer *w, struct fs_meta *ret)
{
        int fd = writer_fd(w);
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        mode_t mode = w->is_mode_kept ? keep_mode(w->mode, &w->mode_from, &st) : w->mode;
        if (w->has_mode && S_ISREG(st.st_mode) && (st.st_mode & 07777) != mode) {
                if (fchmod(fd, mode) < 0)
                        return -errno;
                st.st_mode = (st.st_mode & S_IFMT) | mode;
        }
        if (ret)
                fs_meta_from_stat(&st, ret);
        return 0;
}

static int finish_in_place(struct writer *w, struct fs_meta *ret)
{
        struct stat st;

        if (fstat(w->target, &st) < 0)
                return -errno;
        /* The rest is cut off only now that the new content is complete: old content, what was appended meanwhile, reserved
         * space. */
        bool has_rest = (uint64_t)st.st_size > w->written || (w->has_room && w->written < w->o.size);
        if (S_ISREG(st.st_mode) && (has_rest || w->written == 0) &&
            ftruncate(w->target, (off_t)w->written) < 0)
                return -errno;
        int r = finish(w, ret);
        return r == 0 ? fsop_flush(w->target) : r;
}

/* Gives a new file its name. A file that appeared under the name meanwhile stays, and the result is -EEXIST. */
static int rename_to_absent(const struct writer *w)
{
        if (at_rename(w->at.dirfd, w->temp_name, w->at.dirfd, w->at.name, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EINVAL && errno != ENOSYS)
                return -errno;
        if (at_link(w->at.dirfd, w->temp_name, w->at.dirfd, w->at.name) < 0)
                return -errno;
        (void)at_unlink(w->at.dirfd, w->temp_name, 0);
        return 0;
}

static int rename_over(const struct writer *w)
{
        if (w->o.match == MATCH_ABSENT)
                return rename_to_absent(w);
        return at_rename(w->at.dirfd, w->temp_name, w->at.dirfd, w->at.name, 0) < 0 ? -errno : 0;
}

static int commit_replacing(struct writer *w, struct fs_meta *ret, const struct current *c)
{
        struct fs_meta meta;

        /* Flushes while the old file still exists. If the temporary file could not store the content, the content cannot be copied
         * from there to write in place either. */
        int r = fsop_flush(w->temp);
        if (r == 0)
                r = writer_lock(w, -1);
        if (r < 0)
                return fsop_fail(c->err, r);
        r = writer_match_again(w, c);
        if (r < 0)
                return r;

        r = finish(w, &meta);
        if (r == 0)
                r = rename_over(w);
        if (r == -EEXIST && w->o.match == MATCH_ABSENT) {
                struct stat st;
                bool is_there = at_stat(w->at.dirfd, w->at.name, &st, 0) == 0;
                return write_conflict(c, is_there ? &st : NULL, false);
        }
        if (r == 0) {
                w->temp = fd_close(w->temp);
                if (ret)
                        *ret = meta;
                return 0;
        }

        /* The target cannot be replaced: it is a mount point, or another user's file in a sticky directory, or only its owner may
         * set the mode. */
        r = writer_go_in_place(w, r);
        if (r == 0)
                r = finish_in_place(w, ret);
        return r < 0 ? fsop_fail(c->err, r) : 0;
}

int fsop_write_commit(struct writer *w, struct fs_meta *ret, struct fs_meta *ret_current, bool *ret_exists,
                      struct err *err)
{
        int r;

        if (writer_is_replacing(w)) {
                r = commit_replacing(w, ret, &(struct current){ ret_current, ret_exists, err });
        } else {
                r = finish_in_place(w, ret);
                if (r < 0)
                        fsop_fail(err, r);
        }
        if (r == 0) {
                w->is_made = false; /* fsop_write_abort must not remove the file */
                w->has_room = false;
        }
        (void)fsop_write_abort(w);
        return r;
}

static void abort_in_place(struct writer *w)
{
        if (w->is_made)
                entry_unmake(w->at.dirfd, w->at.name, w->target);
        else if (w->has_room && (w->written == 0 || w->st.st_size == 0))
                room_release(w->target, &w->st); /* nothing was overwritten: the file is as before */
}

struct writer *fsop_write_abort(struct writer *w)
{
        if (!w)
                return NULL;
        writer_drop_temp(w);
        if (w->target >= 0)
                abort_in_place(w);
        w->target = fd_close(w->target);
        w->file_lock = name_lock_release(w->file_lock);
        w->lock = name_lock_release(w->lock);
        entry_release(&w->at);
        free(w);
        return NULL;
}
