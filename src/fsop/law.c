/* law: see law.h. Here: from a path to a name in a directory that is held open, and the calls on it. */
#include "fsop/law.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINKS_MAX 40  /* as the kernel */
#define TRIES_MAX 256 /* things move under our hands; then -EAGAIN */

/* One law per process: it is given up only with it. */
static const struct law *law;
static int proc_fds = -1; /* /proc/self/fd */

/* A name in a directory, and where that is. */
struct spot {
        int dirfd;               /* O_PATH or better */
        bool is_own;             /* dirfd is ours to close */
        bool wants_directory;    /* there was a slash behind it */
        char name[NAME_MAX + 1]; /* "." for the directory itself */
        char path[PATH_MAX];     /* of the name */
        size_t n;
        size_t dir_n; /* of the directory's path in it */
};

static void spot_release(struct spot *s)
{
        if (s->is_own)
                fd_close(s->dirfd);
        s->is_own = false;
}
#define _spot_ CLEANUP(spot_release)

int law_enact(const struct law *l)
{
        proc_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc_fds < 0)
                return -errno;
        law = l;
        return 0;
}

bool law_is_in_force(void)
{
        return law != NULL;
}

/* ---- where things are */

static int where_is(int fd, char ret[PATH_MAX], size_t *ret_n)
{
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", fd);
        ssize_t n = readlinkat(proc_fds, name, ret, PATH_MAX);
        if (n <= 0 || n >= PATH_MAX || ret[0] != '/')
                return n < 0 ? -errno : -ENAMETOOLONG;
        ret[n] = '\0';
        *ret_n = (size_t)n;
        return 0;
}

static struct slice dir_path(const struct spot *s)
{
        return slice_from(s->path, s->dir_n);
}

static struct slice spot_path(const struct spot *s)
{
        return slice_from(s->path, s->n);
}

static bool is_name(const char *path)
{
        return path[0] && !strchr(path, '/') && strcmp(path, ".") != 0 && strcmp(path, "..") != 0;
}

/* The name behind the directory's path. */
static int spot_name(struct spot *s, struct slice name)
{
        size_t slash = s->dir_n > 1;
        if (name.n > NAME_MAX || s->dir_n + slash + name.n >= sizeof(s->path))
                return -ENAMETOOLONG;
        memcpy(s->name, name.p, name.n);
        s->name[name.n] = '\0';
        s->n = s->dir_n;
        if (slash)
                s->path[s->n++] = '/';
        memcpy(s->path + s->n, name.p, name.n);
        s->n += name.n;
        s->path[s->n] = '\0';
        return 0;
}

/* The directory itself. */
static int spot_self(struct spot *s)
{
        memcpy(s->name, ".", 2);
        s->n = s->dir_n;
        s->path[s->n] = '\0';
        return 0;
}

/* ---- the way */

struct way {
        struct spot *spot;
        enum law_links links;
        int link_count;
        char rest[PATH_MAX]; /* what is still to go */
};

static int way_begin(struct way *w, int dirfd, const char *path)
{
        struct spot *s = w->spot;
        size_t n = strlen(path);
        if (n == 0)
                return -ENOENT;
        if (n >= sizeof(w->rest))
                return -ENAMETOOLONG;
        memcpy(w->rest, path, n + 1);
        spot_release(s);
        if (path[0] != '/') {
                s->dirfd = dirfd;
                return where_is(dirfd, s->path, &s->dir_n);
        }
        s->dirfd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s->dirfd < 0)
                return -errno;
        s->is_own = true;
        s->path[0] = '/';
        s->dir_n = 1;
        return 0;
}

/* Takes the next name off the rest; n == 0: there is none. */
static struct slice way_next(struct way *w, char name[NAME_MAX + 1], int *ret_error)
{
        char *from = w->rest + strspn(w->rest, "/");
        size_t n = strcspn(from, "/");
        *ret_error = n > NAME_MAX ? -ENAMETOOLONG : 0;
        if (*ret_error < 0)
                return slice_from(name, 0);
        memcpy(name, from, n);
        name[n] = '\0';
        memmove(w->rest, from + n, strlen(from + n) + 1);
        return slice_from(name, n);
}

/* What is behind it is only slashes. */
static bool way_is_over(const struct way *w)
{
        return w->rest[strspn(w->rest, "/")] == '\0';
}

static int way_move(struct way *w, int fd)
{
        if (fd < 0)
                return -errno;
        spot_release(w->spot);
        w->spot->dirfd = fd;
        w->spot->is_own = true;
        return 0;
}

static int way_up(struct way *w)
{
        struct spot *s = w->spot;
        int r = way_move(w, openat(s->dirfd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
        while (r == 0 && s->dir_n > 1 && s->path[s->dir_n - 1] != '/')
                s->dir_n--;
        if (r == 0 && s->dir_n > 1)
                s->dir_n--;
        return r;
}

/* Puts the text of a link in front of what is still to go. -EINVAL when it is no link. */
static int way_link(struct way *w, const char *name)
{
        char text[PATH_MAX];
        ssize_t n = readlinkat(w->spot->dirfd, name, text, sizeof(text) - 1);
        if (n < 0)
                return -errno;
        if (n == 0)
                return -ENOENT;
        /* Where it points is as much as its text. */
        int r = spot_name(w->spot, slice_from_str(name));
        if (r == 0)
                r = law_judge_look(law, spot_path(w->spot));
        if (r < 0)
                return r;
        if (++w->link_count > LINKS_MAX)
                return -ELOOP;
        size_t rest = strlen(w->rest);
        if ((size_t)n + rest + 1 > sizeof(w->rest))
                return -ENAMETOOLONG;
        memmove(w->rest + n, w->rest, rest + 1);
        memcpy(w->rest, text, (size_t)n);
        if (text[0] == '/') {
                r = way_move(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
                if (r < 0)
                        return r;
                w->spot->path[0] = '/';
                w->spot->dir_n = 1;
        }
        return 0;
}

static int way_down(struct way *w, struct slice name)
{
        struct spot *s = w->spot;
        int fd = openat(s->dirfd, name.p, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOTDIR) {
                int r = w->links == LAW_NO_LINKS ? -ENOTDIR : way_link(w, name.p);
                return r == -EINVAL ? -ENOTDIR : r;
        }
        int r = spot_name(s, name);
        if (r < 0 || fd < 0) {
                r = r < 0 ? r : -errno;
                int why = r == -ENOENT ? law_judge_directory(law, spot_path(s)) : 0;
                fd_close(fd);
                return why < 0 ? why : r;
        }
        s->dir_n = s->n;
        return way_move(w, fd);
}

/* The last name. 1: it was a link, and the way goes on. */
static int way_last(struct way *w, struct slice name)
{
        bool has_slash = w->rest[0] == '/';
        w->spot->wants_directory |= has_slash;
        if (w->links == LAW_FOLLOW || (has_slash && w->links == LAW_NOT_LAST)) {
                int r = way_link(w, name.p);
                if (r == 0)
                        return 1;
                if (r != -EINVAL && r != -ENOENT)
                        return r;
        }
        w->rest[0] = '\0';
        return spot_name(w->spot, name);
}

static int way_walk(struct way *w)
{
        for (;;) {
                char room[NAME_MAX + 1];
                int r;
                struct slice name = way_next(w, room, &r);
                if (r < 0)
                        return r;
                if (name.n == 0)
                        return spot_self(w->spot);
                r = law_judge_search(law, dir_path(w->spot));
                if (r < 0)
                        return r;
                if (slice_eq(name, S(".")))
                        continue;
                if (slice_eq(name, S("..")))
                        r = way_up(w);
                else if (!way_is_over(w))
                        r = way_down(w, name);
                else if ((r = way_last(w, name)) == 0)
                        return 0;
                if (r < 0)
                        return r;
        }
}

/* Is the directory where we believe it to be? */
static bool spot_is_true(const struct spot *s)
{
        char now[PATH_MAX];
        size_t n;
        return where_is(s->dirfd, now, &n) == 0 && slice_eq(slice_from(now, n), dir_path(s));
}

static int locate(int dirfd, const char *path, enum law_links links, struct spot *ret)
{
        *ret = (struct spot){ .dirfd = dirfd };
        if (is_name(path) && links != LAW_FOLLOW) { /* nothing to walk */
                int r = where_is(dirfd, ret->path, &ret->dir_n);
                if (r == 0)
                        r = law_judge_search(law, dir_path(ret));
                return r < 0 ? r : spot_name(ret, slice_from_str(path));
        }
        for (int i = 0; i < TRIES_MAX; i++) {
                struct way w = { .spot = ret, .links = links };
                ret->wants_directory = false;
                int r = way_begin(&w, dirfd, path);
                if (r == 0)
                        r = way_walk(&w);
                if (r < 0)
                        return r;
                if (spot_is_true(ret))
                        return 0;
        }
        return -EAGAIN;
}

/* ---- the calls */

static int judge_open(const struct spot *s, int flags)
{
        struct slice path = spot_path(s);
        struct stat st;
        int r = flags & O_DIRECTORY ? law_judge_directory(law, path) : 0;
        if (r < 0)
                return r;
        if (flags & O_PATH)
                return law_judge_look(law, path);
        if ((flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC)))
                return law_judge_read(law, path);
        if ((flags & O_CREAT) && (flags & O_EXCL))
                return law_judge_make(law, path);
        bool is_new = (flags & O_CREAT) && !law_is_point(law, path) &&
                      fstatat(s->dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0;
        return is_new ? law_judge_make(law, path) : law_judge_write(law, path);
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
        for (int i = 0; i < TRIES_MAX; i++) {
                _spot_ struct spot s;
                int r = locate(dirfd, path, links, &s);
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
        for (int i = 0; i < TRIES_MAX; i++) {
                _spot_ struct spot s;
                int r = locate(dirfd, path, follows ? LAW_FOLLOW : LAW_NOT_LAST, &s);
                if (r == 0)
                        r = law_judge_look(law, spot_path(&s));
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
        int r = locate(dirfd, path, LAW_NOT_LAST, ret);
        return r < 0 ? r : law_judge_make(law, spot_path(ret));
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
        int r = locate(dirfd, path, LAW_NOT_LAST, &s);
        if (r == 0)
                r = law_judge_unmake(law, spot_path(&s));
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
        int r = locate(from_dirfd, from, LAW_NOT_LAST, &a);
        if (r == 0)
                r = locate(to_dirfd, to, LAW_NOT_LAST, &b);
        if (r == 0)
                r = law_judge_unmake(law, spot_path(&a));
        if (r == 0)
                r = law_judge_unmake(law, spot_path(&b));
        if (r < 0)
                return r;
        return renameat2(a.dirfd, a.name, b.dirfd, b.name, flags) < 0 ? -errno : 0;
}

int law_link(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
        _spot_ struct spot a, b = { .dirfd = -1 };
        int r = locate(from_dirfd, from, LAW_NOT_LAST, &a);
        if (r == 0)
                r = law_judge_write(law, spot_path(&a));
        if (r == 0)
                r = locate_new(to_dirfd, to, &b);
        if (r < 0)
                return r;
        return linkat(a.dirfd, a.name, b.dirfd, b.name, 0) < 0 ? -errno : 0;
}

ssize_t law_readlink(int dirfd, const char *path, char *ret, size_t n)
{
        _spot_ struct spot s;
        int r = locate(dirfd, path, LAW_NOT_LAST, &s);
        if (r == 0)
                r = law_judge_look(law, spot_path(&s));
        if (r < 0)
                return r;
        ssize_t got = readlinkat(s.dirfd, s.name, ret, n);
        return got < 0 ? -errno : got;
}

bool law_is_in_cover(const char *path)
{
        _spot_ struct spot s = { .dirfd = -1 };
        struct way w = { .spot = &s, .links = LAW_FOLLOW };
        int r = way_begin(&w, AT_FDCWD, path);
        if (r == 0)
                r = way_walk(&w);
        /* Where the way ended, or what it leads to. */
        return law_is_cover(law, spot_path(&s)) || law_is_cover(law, dir_path(&s));
}

int law_real(const char *path, char **ret)
{
        _spot_ struct spot s;
        struct stat st;
        int r = locate(AT_FDCWD, path, LAW_FOLLOW, &s);
        if (r == 0)
                r = law_judge_look(law, spot_path(&s));
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
        if (!law)
                return 0;
        int r = where_is(fd, path, &n);
        return r < 0 ? r : judge(law, slice_from(path, n));
}

int law_may_change(int fd)
{
        struct stat st;
        int r = judge_fd(fd, law_judge_write);
        if (r < 0 || !law)
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
