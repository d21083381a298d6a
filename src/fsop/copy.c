/* copy: a file, a link or a tree.
 *
 * A path names the source and the destination; below them everything is done by descriptors. Links in the source are
 * copied, never followed; below the destination none is followed either, so that nothing that is planted there leads out
 * of it. A file that exists is replaced as a write would replace it (write.h); one that is new is made under its own name,
 * and taken away again when it cannot be filled.
 */
#include "fsop/edit.h"

#include "base/mem.h"
#include "fsop/at.h"
#include "fsop/content_internal.h"
#include "fsop/entry_internal.h"
#include "fsop/tree_internal.h"
#include "fsop/write_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define DIRECTORY_MODE 0777 /* less the umask */

struct copy {
        struct content_ways ways;
        dev_t dev; /* of the destination's root: never a source */
        ino_t ino;
        int into;    /* the directory that `lost` was found for, or -1 */
        mode_t lost; /* permission bits that new files do not get there: umask or default ACL */
        struct journal *journal;
        struct err *err;
};

/* ---- Files */

static int open_source(int dirfd, const char *name, struct stat *ret)
{
        _close_ int fd = at_open(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (fstat(fd, ret) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* Where a writer wants the content, and how much of it there was. */
static int copy_content(struct copy *c, int from, const struct stat *st, struct writer *w)
{
        bool is_fresh = writer_is_replacing(w) || w->is_made;
        uint64_t bytes = 0;

        /* Only now that it is another file: the holes of the source itself would be filled. */
        int r = writer_expect(w, (uint64_t)st->st_size);
        if (r == 0)
                r = content_copy(from, st, writer_fd(w), is_fresh, &c->ways, &bytes);
        if ((r == -ENOSPC || r == -EDQUOT) && writer_is_replacing(w)) {
                /* No room beside it: in place, from the beginning. */
                r = writer_go_in_place(w, r);
                if (r == 0)
                        r = content_copy(from, st, writer_fd(w), false, &c->ways, &bytes);
        }
        writer_set_written(w, bytes);
        return r;
}

/* Onto what exists, or a name behind links: as a write, with the mode of the source. */
static int copy_over(struct copy *c, int from, const struct stat *st, struct entry *to, bool follow)
{
        struct write_options o = { .is_atomic = true, .follow = follow, .has_mode = true };
        struct writer *w;

        o.mode = st->st_mode & 07777;
        o.journal = c->journal;
        int r = writer_begin(to, &o, &w, NULL, NULL, c->err);
        if (r < 0)
                return r;
        if (w->target >= 0 && w->st.st_dev == st->st_dev && w->st.st_ino == st->st_ino) {
                (void)fsop_write_abort(w); /* onto itself */
                return 0;
        }

        r = copy_content(c, from, st, w);
        if (r < 0) {
                (void)fsop_write_abort(w);
                return fsop_fail(c->err, r);
        }
        writer_set_mode(w, st->st_mode);
        return fsop_write_commit(w, NULL, NULL, NULL, c->err);
}

/* Under its own name: nobody has it open, and a tree of many small files is copied in few calls each. */
static int copy_new(struct copy *c, int from, const struct stat *st, int dirfd, const char *name, mode_t lost)
{
        mode_t mode = st->st_mode & 07777;
        uint64_t bytes;

        _close_ int to =
                at_open(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
        if (to < 0)
                return -errno;
        int r = content_copy(from, st, to, true, &c->ways, &bytes);
        if (r == 0 && (mode & (lost | 07000)) && fchmod(to, mode) < 0)
                r = -errno;
        if (r == 0)
                r = fsop_flush(to);
        if (r < 0)
                entry_unmake(dirfd, name, to);
        return r;
}

/* ---- Links */

static int copy_link(int from, const char *from_name, int to, const char *to_name)
{
        char target[PATH_MAX];
        ssize_t n = at_readlink(from, from_name, target, sizeof(target) - 1);
        if (n < 0)
                return errno == EINVAL ? -ENOENT : -errno; /* it was a link a moment ago: that one has gone */
        target[n] = '\0';
        return at_symlink(target, to, to_name) < 0 ? -errno : 0;
}

/* ---- Trees */

/* A file below the destination. */
static int copy_member(struct copy *c, struct tree_pair at, const char *name, int from, const struct stat *st)
{
        mode_t lost = c->into == at.write ? c->lost : 0777;
        int r = copy_new(c, from, st, at.write, name, lost);
        if (r != -EEXIST)
                return r < 0 ? fsop_fail(c->err, r) : 0;

        _entry_ struct entry to = ENTRY_INIT;
        to.dirfd = fcntl(at.write, F_DUPFD_CLOEXEC, 3);
        if (to.dirfd < 0)
                return fsop_fail(c->err, errno);
        (void)snprintf(to.name, sizeof(to.name), "%s", name);
        r = copy_over(c, from, st, &to, false);
        return r == -ELOOP ? fsop_fail(c->err, EEXIST) : r; /* a link is in its place, and stays */
}

static int type_of(int dirfd, const char *name, unsigned char *type)
{
        struct stat st;
        if (at_stat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        *type = (unsigned char)IFTODT(st.st_mode);
        return 0;
}

static int copy_entry(void *arg, struct tree_pair at, const char *name, unsigned char type)
{
        struct copy *c = arg;

        int r = type == DT_UNKNOWN ? type_of(at.read, name, &type) : 0;
        if (r < 0)
                return fsop_fail(c->err, r);
        if (type == DT_DIR)
                return TREE_DESCEND;
        if (type == DT_LNK) {
                r = copy_link(at.read, name, at.write, name);
                return r < 0 ? fsop_fail(c->err, r) : TREE_DONE;
        }
        if (type != DT_REG)
                return TREE_DONE;

        struct stat st;
        _close_ int from = open_source(at.read, name, &st);
        if (from < 0)
                return fsop_fail(c->err, from);
        if (!S_ISREG(st.st_mode)) /* swapped since it was listed */
                return TREE_DONE;
        return copy_member(c, at, name, from, &st);
}

/* The directory to copy into, made if it is missing; never through a link. */
static int enter_destination(struct copy *c, int dirfd, const char *name)
{
        bool is_new = at_mkdir(dirfd, name, DIRECTORY_MODE) == 0;
        if (!is_new && errno != EEXIST)
                return -errno;

        _close_ int fd = at_open(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
        if (fd < 0)
                return errno == ENOTDIR ? -EEXIST : -errno;

        struct stat st;
        c->into = -1;
        if (is_new && fstat(fd, &st) == 0) {
                c->into = fd;
                c->lost = DIRECTORY_MODE & ~st.st_mode;
        }
        return TAKE_FD(fd);
}

static int copy_enter(void *arg, struct tree_pair at, const char *name, struct tree_pair *ret)
{
        struct copy *c = arg;
        struct stat st;

        _close_ int from =
                at_open(at.read, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
        if (from < 0)
                return fsop_fail(c->err, errno);
        if (fstat(from, &st) < 0)
                return fsop_fail(c->err, errno);
        /* The destination is mounted somewhere in the source: there would be no end. */
        if (st.st_dev == c->dev && st.st_ino == c->ino)
                return fsop_refuse(c->err,
                                   "fs/copy cannot copy a directory to itself or one of its descendants");

        int to = enter_destination(c, at.write, name);
        if (to < 0)
                return fsop_fail(c->err, to);
        *ret = (struct tree_pair){ TAKE_FD(from), to };
        return TREE_DONE;
}

static const struct tree_ops copy_ops = {
        .entry = copy_entry,
        .enter = copy_enter,
};

/* Whether `fd` or a directory above it is the one of `st`. */
static int is_within(int fd, const struct stat *st)
{
        _close_ int at = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        struct stat here, last = { 0 };

        for (int depth = 0; at >= 0 && depth < TREE_DEPTH_MAX; depth++) {
                if (fstat(at, &here) < 0)
                        return -errno;
                if (here.st_dev == st->st_dev && here.st_ino == st->st_ino)
                        return true;
                if (here.st_dev == last.st_dev && here.st_ino == last.st_ino)
                        return false; /* above the root is the root */
                last = here;

                int above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                int e = errno;
                fd_close(at);
                at = above;
                errno = e;
        }
        return at < 0 ? -errno : -ENAMETOOLONG;
}

/* The nearest directory on the way to `path` that exists. */
static int open_nearest(const char *path)
{
        char part[PATH_MAX];
        size_t end = strlen(path);

        if (end >= sizeof(part))
                return -ENAMETOOLONG;
        memcpy(part, path, end + 1);
        for (;;) {
                int fd = at_open(AT_FDCWD, part, O_PATH | O_CLOEXEC, 0);
                if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR) || end <= 1)
                        return fd < 0 ? -errno : fd;
                while (end > 1 && part[end - 1] == '/')
                        end--;
                while (end > 1 && part[end - 1] != '/')
                        end--;
                part[end] = '\0';
        }
}

static int copy_tree(struct copy *c, int from, const struct stat *st, const char *to)
{
        _close_ int nearest = open_nearest(to);
        if (nearest < 0)
                return fsop_fail(c->err, nearest);
        struct stat near;
        int r = fstat(nearest, &near) < 0 ? -errno : 0;
        if (r == 0 && S_ISDIR(near.st_mode))
                r = is_within(nearest, st);
        if (r < 0)
                return fsop_fail(c->err, r);
        if (r)
                return fsop_refuse(c->err,
                                   "fs/copy cannot copy a directory to itself or one of its descendants");

        r = fsop_create_directory(to, true, true, c->err);
        if (r < 0)
                return r;
        _close_ int into = fsop_open(to, O_PATH | O_DIRECTORY, 0, true);
        if (into < 0)
                return fsop_fail(c->err, into);
        if (fstat(into, &near) < 0)
                return fsop_fail(c->err, errno);
        c->dev = near.st_dev;
        c->ino = near.st_ino;

        r = tree_walk((struct tree_pair){ from, into }, &copy_ops, c);
        /* What the walk itself met has no words yet. */
        return r < 0 && c->err->code != r ? fsop_fail(c->err, r) : r;
}

/* ---- The top */

static int copy_file(struct copy *c, int from, const struct stat *st, const char *to)
{
        if (entry_is_unnamed(to))
                return fsop_fail(c->err, EISDIR);
        _entry_ struct entry at = ENTRY_INIT;
        int r = at_new_error(to, entry_open(to, true, &at));
        if (r < 0)
                return fsop_fail(c->err, r);
        return copy_over(c, from, st, &at, true);
}

static int copy_top_link(struct copy *c, const struct entry *from, const char *to)
{
        if (entry_is_unnamed(to))
                return fsop_fail(c->err, EEXIST);
        _entry_ struct entry at = ENTRY_INIT;
        int r = at_new_error(to, entry_open(to, true, &at));
        if (r == 0)
                r = copy_link(from->dirfd, from->name, at.dirfd, at.name);
        return r < 0 ? fsop_fail(c->err, r) : 0;
}

static int copy_from(struct copy *c, const struct entry *from, const char *to, bool recursive)
{
        struct stat st;

        /* Before it is opened: some devices act on a mere open. */
        if (at_stat(from->dirfd, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return fsop_fail(c->err, errno);
        if (S_ISLNK(st.st_mode))
                return copy_top_link(c, from, to);
        if (S_ISDIR(st.st_mode) && !recursive)
                return fsop_refuse(c->err, "fs/copy requires recursive: true when sourcePath is a directory");
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return fsop_refuse(c->err, "fs/copy only supports regular files, directories, and symlinks");

        mode_t seen = st.st_mode & S_IFMT;
        _close_ int fd = open_source(from->dirfd, from->name, &st);
        if (fd < 0)
                return fsop_fail(c->err, fd);
        if ((st.st_mode & S_IFMT) != seen)
                return fsop_fail(c->err, EAGAIN); /* swapped since it was looked at */
        return S_ISDIR(seen) ? copy_tree(c, fd, &st, to) : copy_file(c, fd, &st, to);
}

int fsop_copy(const char *from, const char *to, bool recursive, struct journal *journal, struct err *err)
{
        struct copy c = { .into = -1, .journal = journal, .err = err };
        struct entry at = ENTRY_INIT;

        err->code = 0;
        /* "/" has no name, and "." is as good as one. */
        bool is_unnamed = entry_is_unnamed(from);
        int r = is_unnamed ? fsop_open(from, O_PATH | O_DIRECTORY, 0, true) : entry_open(from, true, &at);
        if (r < 0)
                return fsop_fail(err, r);
        if (is_unnamed) {
                at.dirfd = r;
                memcpy(at.name, ".", 2);
        }

        r = copy_from(&c, &at, to, recursive);
        free(c.ways.chunk);
        entry_release(&at);
        return r;
}
