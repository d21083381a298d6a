/* copy: copies a file, a link or a tree.
 *
 * Source and destination are opened by path; below them everything is done by descriptors. Links in the source are copied, never
 * followed. Links below the destination are not followed either, so that none leads out of it. An existing file is replaced as a
 * write would replace it (write.h). A new file is made under its final name, and removed again when it cannot be filled.
 */
#include "fsop/edit.h"

#include "base/mem.h"
#include "fsop/at.h"
#include "fsop/content_internal.h"
#include "fsop/entry_internal.h"
#include "fsop/keep_internal.h"
#include "fsop/tree_internal.h"
#include "fsop/write_internal.h"
#include "reach/reach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The mode bits that a copy of a directory gets. It inherits set-gid from the directory in which it is made. */
#define KEPT_MODE_BITS (S_ISVTX | 0777)

struct copy {
        struct content_ways ways;
        dev_t dev; /* dev and ino of the destination's root, which must not be copied into itself */
        ino_t ino;
        int into;    /* the directory that `lost` was found for, or -1 */
        mode_t lost; /* permission bits that new files do not get in `into`: umask or default ACL */
        struct journal *journal;
        struct err *err;
};

/* ---- Copying files */

static int open_source(int dirfd, const char *name, struct stat *ret)
{
        _close_ int fd = at_open(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (fstat(fd, ret) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* Gets the mode of the source after its content was copied. The kernel removes set-id bits when another user writes to a file, so
 * a mode that was read before could give set-id bits to content that another user wrote. Returns 0 or -errno. */
static int mode_after_copy(int from, const struct stat *st, mode_t *ret)
{
        mode_t mode = st->st_mode & 07777;
        struct stat now;

        if (mode & (S_ISUID | S_ISGID)) {
                if (fstat(from, &now) < 0)
                        return -errno;
                mode &= now.st_mode | ~(mode_t)(S_ISUID | S_ISGID);
                mode = keep_mode(mode, st, &now);
        }
        *ret = mode;
        return 0;
}

/* Copies the content to where the writer wants it, and tells the writer how much it was. */
static int copy_content(struct copy *c, int from, const struct stat *st, struct writer *w)
{
        bool is_fresh = writer_is_replacing(w) || w->is_made;
        uint64_t bytes = 0;

        /* Space is reserved only now that target and source are known to differ: else the holes of the source would be filled. */
        int r = writer_expect(w, (uint64_t)st->st_size);
        if (r == 0)
                r = content_copy(from, st, writer_fd(w), is_fresh, &c->ways, &bytes);
        if ((r == -ENOSPC || r == -EDQUOT) && writer_is_replacing(w)) {
                /* There is no room beside the target: write in place, from the beginning. */
                r = writer_go_in_place(w, r);
                if (r == 0)
                        r = content_copy(from, st, writer_fd(w), false, &c->ways, &bytes);
        }
        writer_set_written(w, bytes);
        return r;
}

/* Copies onto an existing file, or to a name that a link points at: as a write does it, with the mode of the source. */
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
                (void)fsop_write_abort(w); /* source and target are the same file */
                return 0;
        }

        mode_t mode = 0;
        r = copy_content(c, from, st, w);
        if (r == 0)
                r = mode_after_copy(from, st, &mode);
        if (r < 0) {
                (void)fsop_write_abort(w);
                return fsop_fail(c->err, r);
        }
        writer_set_mode(w, mode, st);
        return fsop_write_commit(w, NULL, NULL, NULL, c->err);
}

/* Adds the permission bits that a new file lacks: those that the umask removed (`lost`), and those that open(2) cannot set. */
static int complete_mode(int from, const struct stat *st, int to, mode_t lost)
{
        struct stat made;
        mode_t mode;

        int r = mode_after_copy(from, st, &mode);
        if (r < 0)
                return r;
        if (mode & (S_ISUID | S_ISGID)) {
                if (fstat(to, &made) < 0)
                        return -errno;
                mode = keep_mode(mode, st, &made);
        }
        return (mode & (lost | 07000)) && fchmod(to, mode) < 0 ? -errno : 0;
}

/* Makes a new file under its final name, without a temporary file, so that each small file of a tree takes only a few calls. */
static int copy_new(struct copy *c, int from, const struct stat *st, int dirfd, const char *name, mode_t lost)
{
        uint64_t bytes;

        _close_ int to = at_open(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                 st->st_mode & 0777);
        if (to < 0)
                return -errno;
        int r = content_copy(from, st, to, true, &c->ways, &bytes);
        if (r == 0)
                r = complete_mode(from, st, to, lost);
        if (r == 0)
                r = fsop_flush(to);
        if (r < 0)
                entry_unmake(dirfd, name, to);
        return r;
}

/* ---- Copying links */

static int copy_link(int from, const char *from_name, int to, const char *to_name)
{
        char target[PATH_MAX];
        ssize_t n = at_readlink(from, from_name, target, sizeof(target) - 1);
        if (n < 0)
                return errno == EINVAL ? -ENOENT : -errno; /* EINVAL: it is no link any more */
        target[n] = '\0';
        return at_symlink(target, to, to_name) < 0 ? -errno : 0;
}

/* ---- Copying trees */

/* Copies a file of a tree to the directory at.write. */
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
        return r == -ELOOP ? fsop_fail(c->err, EEXIST) : r; /* ELOOP: the name is a link, which stays */
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
        if (!S_ISREG(st.st_mode)) /* the file was swapped since it was listed */
                return TREE_DONE;
        return copy_member(c, at, name, from, &st);
}

/* Makes a directory with the mode that it has while it is filled: the owner has all rights, whatever the mode of the source is;
 * others never have more rights than the final mode gives them. */
static int make_directory(int dirfd, const char *name, const struct stat *source)
{
        return at_mkdir(dirfd, name, (source->st_mode & 0777) | 0700) < 0 ? -errno : 0;
}

static bool is_empty(int fd)
{
        int list = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = list < 0 ? NULL : fdopendir(list);
        const struct dirent *e = NULL;
        int seen = 0;

        if (!dir) {
                fd_close(list);
                return false;
        }
        errno = 0;
        while (seen++ < 3 && (e = readdir(dir)) &&
               (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0))
                ;
        bool is_at_end = !e && errno == 0;
        (void)closedir(dir);
        return is_at_end;
}

/* Returns whether the directory that was opened can be the one that was made a moment ago. In a directory of another user, that
 * user may have renamed the new one away and put another directory of ours in its place, whose mode protects its files and must not
 * be changed. */
static bool is_fresh_directory(int fd, const struct stat *st)
{
        return st->st_uid == geteuid() && is_empty(fd);
}

static int note_made(struct copy *c, int fd, const struct stat *source, bool *ret_is_new)
{
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        c->into = fd;
        c->lost = 0777 & ~st.st_mode;
        bool is_right = ((st.st_mode ^ source->st_mode) & KEPT_MODE_BITS) == 0;
        *ret_is_new = !is_right && is_fresh_directory(fd, &st);
        return 0;
}

/* Opens the directory to copy into, and makes it if it is missing; never follows a link. Returns a descriptor or -errno. */
static int enter_destination(struct copy *c, int dirfd, const char *name, const struct stat *source,
                             bool *ret_is_new)
{
        int made = make_directory(dirfd, name, source);
        if (made < 0 && made != -EEXIST)
                return made;

        _close_ int fd = at_open(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
        if (fd < 0)
                return errno == ENOTDIR ? -EEXIST : -errno;

        c->into = -1;
        int r = made == 0 ? note_made(c, fd, source, ret_is_new) : 0;
        return r < 0 ? r : TAKE_FD(fd);
}

static int copy_enter(void *arg, struct tree_pair at, const char *name, struct tree_pair *ret)
{
        struct copy *c = arg;
        struct stat st;

        reach_intend(REACH_OPERATION_READ);
        _close_ int from =
                at_open(at.read, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
        reach_intend(REACH_OPERATION_WRITE);
        if (from < 0)
                return fsop_fail(c->err, errno);
        if (fstat(from, &st) < 0)
                return fsop_fail(c->err, errno);
        /* The destination is mounted somewhere in the source: the copy would never end. */
        if (st.st_dev == c->dev && st.st_ino == c->ino)
                return fsop_refuse(c->err,
                                   "fs/copy cannot copy a directory to itself or one of its descendants");

        bool is_new = false;
        int to = enter_destination(c, at.write, name, &st, &is_new);
        if (to < 0)
                return fsop_fail(c->err, to);
        *ret = (struct tree_pair){ TAKE_FD(from), to, is_new };
        return TREE_DONE;
}

/* Sets the final mode. This comes last, because the mode may forbid even the owner to write there. */
static int copy_mode(void *arg, struct tree_pair at)
{
        struct copy *c = arg;
        struct stat from, to;

        if (!at.is_new)
                return 0;
        _close_ int fd = openat(at.write, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(at.read, &from) < 0 || fstat(fd, &to) < 0)
                return fsop_fail(c->err, errno);
        mode_t mode = (from.st_mode & KEPT_MODE_BITS) | (to.st_mode & S_ISGID);
        int r = reach_check_change(fd);
        /* EPERM: the directory is ours, so it is the file system that has no such modes. */
        if (r == 0 && fchmod(fd, mode) < 0 && errno != EPERM)
                r = -errno;
        return r < 0 ? fsop_fail(c->err, r) : 0;
}

static const struct tree_ops copy_ops = {
        .entry = copy_entry,
        .enter = copy_enter,
        .filled = copy_mode,
};

/* Returns 1 when `fd`, or a directory above it, is the directory of `st`, 0 when it is not, or -errno. */
static int check_within(int fd, const struct stat *st)
{
        _close_ int at = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        struct stat here, last = { 0 };

        for (int depth = 0; at >= 0 && depth < TREE_DEPTH_MAX; depth++) {
                if (fstat(at, &here) < 0)
                        return -errno;
                if (here.st_dev == st->st_dev && here.st_ino == st->st_ino)
                        return 1;
                if (here.st_dev == last.st_dev && here.st_ino == last.st_ino)
                        return 0; /* ".." of the root is the root */
                last = here;

                int above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                int e = errno;
                fd_close(at);
                at = above;
                errno = e;
        }
        return at < 0 ? -errno : -ENAMETOOLONG;
}

/* Opens `path`, or the nearest directory above it that exists. Returns a descriptor or -errno. */
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

/* Makes the directory `path`, and those above it. Returns 1 when `path` is new, 0 when it existed, or -errno. */
static int make_root(const char *path, const struct stat *source, struct err *err)
{
        if (!entry_is_unnamed(path)) {
                _entry_ struct entry e = ENTRY_INIT;
                int r = entry_open(path, true, &e);
                if (r == -ENOENT) {
                        _free_ char *above = mem_strdup(path);
                        *strrchr(above, '/') = '\0'; /* not empty: -ENOENT means that the parent is not "/" */
                        r = fsop_create_directory(above, true, true, err);
                        if (r < 0)
                                return r;
                        r = entry_open(path, true, &e);
                }
                if (r == 0 && make_directory(e.dirfd, e.name, source) == 0)
                        return 1;
        }
        return fsop_create_directory(path, true, true, err); /* `path` exists, or this gives the error */
}

static int copy_tree(struct copy *c, int from, const struct stat *st, const char *to)
{
        _close_ int nearest = open_nearest(to);
        if (nearest < 0)
                return fsop_fail(c->err, nearest);
        struct stat near;
        int r = fstat(nearest, &near) < 0 ? -errno : 0;
        if (r == 0 && S_ISDIR(near.st_mode))
                r = check_within(nearest, st);
        if (r < 0)
                return fsop_fail(c->err, r);
        if (r)
                return fsop_refuse(c->err,
                                   "fs/copy cannot copy a directory to itself or one of its descendants");

        int made = make_root(to, st, c->err);
        if (made < 0)
                return made;
        _close_ int into = fsop_open(to, O_PATH | O_DIRECTORY, 0, true);
        if (into < 0)
                return fsop_fail(c->err, into);
        if (fstat(into, &near) < 0)
                return fsop_fail(c->err, errno);
        c->dev = near.st_dev;
        c->ino = near.st_ino;

        struct tree_pair root = { from, into, false };
        r = made ? note_made(c, into, st, &root.is_new) : 0;
        if (r == 0)
                r = tree_walk(root, &copy_ops, c);
        if (r == 0)
                r = copy_mode(c, root);
        /* An error of the walk itself has no text yet. */
        return r < 0 && c->err->code != r ? fsop_fail(c->err, r) : r;
}

/* ---- Copying what the request names */

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

        /* The kind is checked before the source is opened, because some devices act when they are opened. */
        if (at_stat(from->dirfd, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return fsop_fail(c->err, errno);
        if (S_ISLNK(st.st_mode)) {
                reach_intend(REACH_OPERATION_WRITE);
                return copy_top_link(c, from, to);
        }
        if (S_ISDIR(st.st_mode) && !recursive)
                return fsop_refuse(c->err, "fs/copy requires recursive: true when sourcePath is a directory");
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return fsop_refuse(c->err, "fs/copy only supports regular files, directories, and symlinks");

        mode_t seen = st.st_mode & S_IFMT;
        _close_ int fd = open_source(from->dirfd, from->name, &st);
        if (fd < 0)
                return fsop_fail(c->err, fd);
        if ((st.st_mode & S_IFMT) != seen)
                return fsop_fail(c->err, EAGAIN); /* the source was swapped since at_stat */
        reach_intend(REACH_OPERATION_WRITE);
        return S_ISDIR(seen) ? copy_tree(c, fd, &st, to) : copy_file(c, fd, &st, to);
}

int fsop_copy(const char *from, const char *to, bool recursive, struct journal *journal, struct err *err)
{
        struct copy c = { .into = -1, .journal = journal, .err = err };
        struct entry at = ENTRY_INIT;

        err->code = 0;
        reach_intend(REACH_OPERATION_READ); /* until the source was found */
        /* A path without a last name ("/", or one that ends in "." or "..") is opened itself, and named "." from there. */
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
