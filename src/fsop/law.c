/* law: see law.h. Here: the calls, each on a name in a directory that is held open (law_way.c). */
#include "fsop/law_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int judge_open(const struct spot *s, int flags)
{
        struct slice path = spot_path(s);
        struct stat st;
        int r = flags & O_DIRECTORY ? law_judge_directory(law_now(), path) : 0;
        if (r < 0)
                return r;
        if (flags & O_PATH)
                return law_judge_look(law_now(), path);
        if ((flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC)))
                return law_judge_read(law_now(), path);
        if ((flags & O_CREAT) && (flags & O_EXCL))
                return law_judge_make(law_now(), path);
        bool is_new = (flags & O_CREAT) && !law_is_point(law_now(), path) &&
                      fstatat(s->dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0;
        return is_new ? law_judge_make(law_now(), path) : law_judge_write(law_now(), path);
}

/* Whether it was a link after all: put there since we looked. */
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
        do
                fd = openat(s->dirfd, s->name, flags | O_NOFOLLOW, mode);
        while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : fd;
}

/* Without links the last may be opened itself, by who asks for just that. */
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

int law_open(int dirfd, const char *path, int flags, mode_t mode, enum law_links links)
{
        for (int i = 0; i < LAW_TRIES_MAX; i++) {
                _spot_ struct spot s;
                int r = law_locate(dirfd, path, links, &s);
                if (r < 0)
                        return r;
                if (links == LAW_NO_LINKS)
                        return open_no_links(&s, flags, mode);
                _close_ int fd = open_spot(&s, flags, mode);
                bool follows = links == LAW_FOLLOW && !(flags & O_NOFOLLOW) &&
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

int law_stat(int dirfd, const char *path, struct stat *ret, int flags)
{
        bool follows = !(flags & AT_SYMLINK_NOFOLLOW);
        for (int i = 0; i < LAW_TRIES_MAX; i++) {
                _spot_ struct spot s;
                int r = law_locate(dirfd, path, follows ? LAW_FOLLOW : LAW_NOT_LAST, &s);
                if (r == 0)
                        r = law_judge_look(law_now(), spot_path(&s));
                if (r < 0)
                        return r;
                if (fstatat(s.dirfd, s.name, ret, AT_SYMLINK_NOFOLLOW) < 0)
                        return -errno;
                if (follows && S_ISLNK(ret->st_mode))
                        continue; /* put there since we looked */
                return s.wants_directory && !S_ISDIR(ret->st_mode) ? -ENOTDIR : 0;
        }
        return -EAGAIN;
}

/* A name that is to come: where, and whether it may. */
static int locate_new(int dirfd, const char *path, struct spot *ret)
{
        int r = law_locate(dirfd, path, LAW_NOT_LAST, ret);
        return r < 0 ? r : law_judge_make(law_now(), spot_path(ret));
}

int law_mkdir(int dirfd, const char *path, mode_t mode)
{
        _spot_ struct spot s;
        int r = locate_new(dirfd, path, &s);
        if (r < 0)
                return r;
        return mkdirat(s.dirfd, s.name, mode) < 0 ? -errno : 0;
}

int law_symlink(const char *text, int dirfd, const char *path)
{
        _spot_ struct spot s;
        int r = locate_new(dirfd, path, &s);
        if (r < 0)
                return r;
        return symlinkat(text, s.dirfd, s.name) < 0 ? -errno : 0;
}

int law_unlink(int dirfd, const char *path, int flags)
{
        _spot_ struct spot s;
        struct stat st;
        int r = law_locate(dirfd, path, LAW_NOT_LAST, &s);
        if (r == 0)
                r = law_judge_unmake(law_now(), spot_path(&s));
        /* As the kernel: that it is a directory comes first. */
        if ((r == -EBUSY || r == -EACCES) && !(flags & AT_REMOVEDIR) &&
            fstatat(s.dirfd, s.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
                return -EISDIR;
        if (r < 0)
                return r;
        return unlinkat(s.dirfd, s.name, flags) < 0 ? -errno : 0;
}

int law_rename(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
        _spot_ struct spot a, b = { .dirfd = -1 };
        int r = law_locate(from_dirfd, from, LAW_NOT_LAST, &a);
        if (r == 0)
                r = law_locate(to_dirfd, to, LAW_NOT_LAST, &b);
        if (r == 0)
                r = law_judge_unmake(law_now(), spot_path(&a));
        if (r == 0)
                r = law_judge_unmake(law_now(), spot_path(&b));
        if (r < 0)
                return r;
        return renameat2(a.dirfd, a.name, b.dirfd, b.name, flags) < 0 ? -errno : 0;
}

int law_link(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
        _spot_ struct spot a, b = { .dirfd = -1 };
        int r = law_locate(from_dirfd, from, LAW_NOT_LAST, &a);
        if (r == 0)
                r = law_judge_write(law_now(), spot_path(&a));
        if (r == 0)
                r = locate_new(to_dirfd, to, &b);
        if (r < 0)
                return r;
        return linkat(a.dirfd, a.name, b.dirfd, b.name, 0) < 0 ? -errno : 0;
}

ssize_t law_readlink(int dirfd, const char *path, char *ret, size_t n)
{
        _spot_ struct spot s;
        int r = law_locate(dirfd, path, LAW_NOT_LAST, &s);
        if (r == 0)
                r = law_judge_look(law_now(), spot_path(&s));
        if (r < 0)
                return r;
        ssize_t got = readlinkat(s.dirfd, s.name, ret, n);
        return got < 0 ? -errno : got;
}

int law_real(const char *path, char **ret)
{
        _spot_ struct spot s;
        struct stat st;
        int r = law_locate(AT_FDCWD, path, LAW_FOLLOW, &s);
        if (r == 0)
                r = law_judge_look(law_now(), spot_path(&s));
        if (r < 0)
                return r;
        if (fstatat(s.dirfd, s.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (s.wants_directory && !S_ISDIR(st.st_mode))
                return -ENOTDIR;
        *ret = strdup(s.path);
        return *ret ? 0 : -ENOMEM;
}

static int judge_fd(int fd, int (*judge)(const struct law *, struct slice))
{
        char path[PATH_MAX];
        size_t n;
        if (!law_is_in_force())
                return 0;
        int r = law_where_is(fd, path, &n);
        return r < 0 ? r : judge(law_now(), slice_from(path, n));
}

int law_may_change(int fd)
{
        struct stat st;
        int r = judge_fd(fd, law_judge_write);
        if (r < 0 || !law_is_in_force())
                return r;
        /* To write to a device is one thing; what it is called to others is the machine's. */
        if (fstat(fd, &st) < 0)
                return -errno;
        return S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? -EROFS : 0;
}

int law_may_read(int fd)
{
        return judge_fd(fd, law_judge_read);
}
