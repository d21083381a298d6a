/* reach: the system calls of a process with a reach. Each acts on a name in an open directory, which reach_way.c finds. */
#include "reach/reach_internal.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int judge_open(const struct spot *s, int flags)
{
        struct slice path = spot_path(s);
        struct stat st;
        int r = flags & O_DIRECTORY ? reach_judge_directory(reach_now(), path) : 0;
        if (r < 0)
                return r;
        if (flags & O_PATH)
                return reach_judge_look(reach_now(), path);
        if ((flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC)))
                return reach_judge_read(reach_now(), path);
        if ((flags & O_CREAT) && (flags & O_EXCL))
                return reach_judge_make(reach_now(), path);
        bool is_new = (flags & O_CREAT) && !reach_is_point(reach_now(), path) &&
                      fstatat(s->dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0;
        return is_new ? reach_judge_make(reach_now(), path) : reach_judge_write(reach_now(), path);
}

/* Returns whether the name is a link. reach_locate has followed links, so this one was put there afterwards. */
static bool is_link(const struct spot *s)
{
        struct stat st;
        return fstatat(s->dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

static int open_spot(const struct spot *s, int flags, mode_t mode)
{
        if (s->wants_directory && (flags & O_CREAT))
                return -EISDIR;
        if (s->wants_directory)
                flags |= O_DIRECTORY;
        int r = judge_open(s, flags);
        if (r < 0)
                return r;
        int fd;
        bool reads = (flags & (O_ACCMODE | O_CREAT | O_PATH | O_DIRECTORY)) == O_RDONLY;
        do {
                fd = reads ? fd_open_looking(s->dirfd, s->name, flags | O_NOFOLLOW)
                           : openat(s->dirfd, s->name, flags | O_NOFOLLOW, mode);
                if (fd == -1 && !reads)
                        fd = -errno;
        } while (fd == -EINTR);
        return fd;
}

/* Opens a path in which no link is allowed. Only a link at the end may be opened itself, with O_PATH | O_NOFOLLOW. */
static int open_no_links(const struct spot *s, int flags, mode_t mode)
{
        bool opens_link = (flags & O_PATH) && (flags & O_NOFOLLOW) && !s->wants_directory;
        if (!opens_link && is_link(s))
                return -ELOOP;
        _close_ int fd = open_spot(s, flags, mode);
        struct stat st;
        if (fd >= 0 && !opens_link && (flags & O_PATH) && (fstat(fd, &st) < 0 || S_ISLNK(st.st_mode)))
                return -ELOOP;
        return TAKE_FD(fd);
}

int reach_open(int dirfd, const char *path, int flags, mode_t mode, enum reach_links links)
{
        for (int i = 0; i < REACH_TRIES_MAX; i++) {
                _spot_ struct spot s;
                int r = reach_locate(dirfd, path, links, &s);
                if (r < 0)
                        return r;
                if (links == REACH_NO_LINKS)
                        return open_no_links(&s, flags, mode);
                _close_ int fd = open_spot(&s, flags, mode);
                bool follows = links == REACH_FOLLOW && !(flags & O_NOFOLLOW) &&
                               (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
                struct stat st;
                if (follows && fd >= 0 && (flags & O_PATH) && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode))
                        continue;
                if (follows && (fd == -ELOOP || fd == -ENOTDIR) && is_link(&s))
                        continue;
                return TAKE_FD(fd);
        }
        return -EAGAIN;
}

static int locate_to_look(int dirfd, const char *path, int flags, struct spot *ret)
{
        int r = reach_locate(dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? REACH_NOT_LAST : REACH_FOLLOW, ret);
        return r < 0 ? r : reach_judge_look(reach_now(), spot_path(ret));
}

/* Checks the kind of the file that was found. Returns 0 or -errno; 1 when it is a link that was put there since the path was
 * followed. */
static int check_seen(const struct spot *s, mode_t mode, int flags)
{
        if (S_ISLNK(mode) && !(flags & AT_SYMLINK_NOFOLLOW))
                return 1;
        return s->wants_directory && !S_ISDIR(mode) ? -ENOTDIR : 0;
}

/* Where reach_stat (st) or reach_statx (stx) wants the result; the other pointer is NULL. */
struct look_result {
        struct stat *st;
        struct statx *stx;
        unsigned mask; /* for statx(2) */
};

static int look_once(int dirfd, const char *path, int flags, const struct look_result *ret)
{
        _spot_ struct spot s;
        int r = locate_to_look(dirfd, path, flags, &s);
        if (r < 0)
                return r;
        r = ret->st ? fstatat(s.dirfd, s.name, ret->st, AT_SYMLINK_NOFOLLOW)
                    : statx(s.dirfd, s.name, AT_SYMLINK_NOFOLLOW, ret->mask, ret->stx);
        if (r < 0)
                return -errno;
        return check_seen(&s, ret->st ? ret->st->st_mode : ret->stx->stx_mode, flags);
}

static int look(int dirfd, const char *path, int flags, const struct look_result *ret)
{
        int r = 1;
        for (int i = 0; i < REACH_TRIES_MAX && r == 1; i++)
                r = look_once(dirfd, path, flags, ret);
        return r == 1 ? -EAGAIN : r;
}

int reach_stat(int dirfd, const char *path, struct stat *ret, int flags)
{
        return look(dirfd, path, flags, &(struct look_result){ .st = ret });
}

int reach_statx(int dirfd, const char *path, struct statx *ret, int flags, unsigned mask)
{
        return look(dirfd, path, flags, &(struct look_result){ .stx = ret, .mask = mask });
}

/* Resolves a name that is to be created, and checks whether it may be. */
static int locate_new(int dirfd, const char *path, struct spot *ret)
{
        int r = reach_locate(dirfd, path, REACH_NOT_LAST, ret);
        return r < 0 ? r : reach_judge_make(reach_now(), spot_path(ret));
}

int reach_mkdir(int dirfd, const char *path, mode_t mode)
{
        _spot_ struct spot s;
        int r = locate_new(dirfd, path, &s);
        if (r < 0)
                return r;
        return mkdirat(s.dirfd, s.name, mode) < 0 ? -errno : 0;
}

int reach_symlink(const char *text, int dirfd, const char *path)
{
        _spot_ struct spot s;
        int r = locate_new(dirfd, path, &s);
        if (r < 0)
                return r;
        return symlinkat(text, s.dirfd, s.name) < 0 ? -errno : 0;
}

int reach_unlink(int dirfd, const char *path, int flags)
{
        _spot_ struct spot s;
        struct stat st;
        int r = reach_locate(dirfd, path, REACH_NOT_LAST, &s);
        if (r == 0)
                r = reach_judge_unmake(reach_now(), spot_path(&s));
        /* As the kernel does, this returns EISDIR for a directory before any other refusal. */
        if ((r == -EBUSY || r == -EACCES) && !(flags & AT_REMOVEDIR) &&
            fstatat(s.dirfd, s.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
                return -EISDIR;
        if (r < 0)
                return r;
        return unlinkat(s.dirfd, s.name, flags) < 0 ? -errno : 0;
}

/* Refuses to rename a directory in which a pattern may deny files: under the new name the pattern might not match them. */
static int judge_move(const struct spot *s)
{
        struct stat st;
        const struct reach *reach = reach_now();
        if (!reach->may_deny_below || !reach->may_deny_below(reach->arg, spot_path(s)))
                return 0;
        if (fstatat(s->dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        return S_ISDIR(st.st_mode) ? -EBUSY : 0;
}

int reach_rename(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
        _spot_ struct spot a, b = { .dirfd = -1 };
        int r = reach_locate(from_dirfd, from, REACH_NOT_LAST, &a);
        if (r == 0)
                r = reach_locate(to_dirfd, to, REACH_NOT_LAST, &b);
        if (r == 0)
                r = reach_judge_unmake(reach_now(), spot_path(&a));
        if (r == 0)
                r = reach_judge_unmake(reach_now(), spot_path(&b));
        if (r == 0)
                r = judge_move(&a);
        if (r == 0 && (flags & RENAME_EXCHANGE))
                r = judge_move(&b);
        if (r < 0)
                return r;
        return renameat2(a.dirfd, a.name, b.dirfd, b.name, flags) < 0 ? -errno : 0;
}

int reach_link(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
        _spot_ struct spot a, b = { .dirfd = -1 };
        int r = reach_locate(from_dirfd, from, REACH_NOT_LAST, &a);
        if (r == 0)
                r = reach_judge_write(reach_now(), spot_path(&a));
        if (r == 0)
                r = locate_new(to_dirfd, to, &b);
        if (r < 0)
                return r;
        return linkat(a.dirfd, a.name, b.dirfd, b.name, 0) < 0 ? -errno : 0;
}

ssize_t reach_readlink(int dirfd, const char *path, char *ret, size_t n)
{
        _spot_ struct spot s;
        int r = locate_to_look(dirfd, path, AT_SYMLINK_NOFOLLOW, &s);
        if (r < 0)
                return r;
        ssize_t got = readlinkat(s.dirfd, s.name, ret, n);
        return got < 0 ? -errno : got;
}

int reach_real(const char *path, char **ret)
{
        _spot_ struct spot s;
        struct stat st;
        int r = locate_to_look(AT_FDCWD, path, 0, &s);
        if (r < 0)
                return r;
        if (fstatat(s.dirfd, s.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (s.wants_directory && !S_ISDIR(st.st_mode))
                return -ENOTDIR;
        *ret = strdup(s.path);
        return *ret ? 0 : -ENOMEM;
}

static int judge_fd(int fd, int (*judge)(const struct reach *, struct slice))
{
        char path[PATH_MAX];
        size_t n;
        if (!reach_is_limited())
                return 0;
        int r = reach_where_is(fd, path, &n);
        return r < 0 ? r : judge(reach_now(), slice_from(path, n));
}

int reach_check_change(int fd)
{
        struct stat st;
        int r = judge_fd(fd, reach_judge_write);
        if (r < 0 || !reach_is_limited())
                return r;
        /* A device may be written to, but its attributes belong to the machine and may not be changed. */
        if (fstat(fd, &st) < 0)
                return -errno;
        return S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? -EROFS : 0;
}

int reach_check_read(int fd)
{
        return judge_fd(fd, reach_judge_read);
}
