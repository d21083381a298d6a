/* reach: the system calls of a process with a reach. Each acts on a name in an open directory, which reach_way.c finds. */
#include "reach/reach_internal.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Asks the rules about the name, and notes a refusal. */
static int judge(const struct spot *s, enum reach_deed deed)
{
        struct reach_reason reason;
        int r = reach_judge(reach_now(), deed, spot_path(s));
        if (r < 0 && reach_explain(reach_now(), deed, spot_path(s), &reason))
                refusal_note(r, s->operation, &reason, spot_path(s));
        return r;
}

/* Returns `e` as -errno, after the kernel has refused a call on the name that the rules allow. Notes it where the view of this
 * process lacks the name. */
static int failed(const struct spot *s, int e)
{
        struct reach_reason reason;
        if (e == ENOENT && reach_explain_missing(reach_now(), spot_path(s), &reason))
                refusal_note(-e, s->operation, &reason, spot_path(s));
        return -e;
}

static int judge_open(const struct spot *s, int flags)
{
        struct stat st;
        int r = flags & O_DIRECTORY ? judge(s, REACH_AS_DIRECTORY) : 0;
        if (r < 0)
                return r;
        if (flags & O_PATH)
                return judge(s, REACH_LOOK);
        if ((flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC)))
                return judge(s, REACH_GET);
        if ((flags & O_CREAT) && (flags & O_EXCL))
                return judge(s, REACH_MAKE);
        /* What the rules make look absent is absent, whatever is there. */
        bool is_new = (flags & O_CREAT) && !reach_is_point(reach_now(), spot_path(s)) &&
                      (reach_judge(reach_now(), REACH_LOOK, spot_path(s)) == -ENOENT ||
                       fstatat(s->dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0);
        return judge(s, is_new ? REACH_MAKE : REACH_PUT);
}

/* Returns what an open is for. An O_PATH descriptor or a directory may be opened in order to remove something: what the file operation has
 * announced counts then (reach_intended). */
static enum reach_operation operation_of(int flags)
{
        if (flags & (O_PATH | O_DIRECTORY))
                return reach_intended();
        bool reads = (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC));
        return reads ? REACH_OPERATION_READ : REACH_OPERATION_WRITE;
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
        return fd < 0 ? failed(s, -fd) : fd;
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

static int open_path(int dirfd, const char *path, int flags, mode_t mode, enum reach_links links)
{
        for (int i = 0; i < REACH_TRIES_MAX; i++) {
                _spot_ struct spot s;
                int r = reach_locate(dirfd, path, links, operation_of(flags), &s);
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

int reach_open(int dirfd, const char *path, int flags, mode_t mode, enum reach_links links)
{
        return refusal_settle(open_path(dirfd, path, flags, mode, links));
}

static int locate_to_look(int dirfd, const char *path, int flags, struct spot *ret)
{
        int r = reach_locate(dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? REACH_NOT_LAST : REACH_FOLLOW,
                             reach_intended(), ret);
        return r < 0 ? r : judge(ret, REACH_LOOK);
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
                return failed(&s, errno);
        return check_seen(&s, ret->st ? ret->st->st_mode : ret->stx->stx_mode, flags);
}

static int look(int dirfd, const char *path, int flags, const struct look_result *ret)
{
        int r = 1;
        for (int i = 0; i < REACH_TRIES_MAX && r == 1; i++)
                r = look_once(dirfd, path, flags, ret);
        return refusal_settle(r == 1 ? -EAGAIN : r);
}

int reach_stat(int dirfd, const char *path, struct stat *ret, int flags)
{
        return look(dirfd, path, flags, &(struct look_result){ .st = ret });
}

int reach_statx(int dirfd, const char *path, struct statx *ret, int flags, unsigned mask)
{
        return look(dirfd, path, flags, &(struct look_result){ .stx = ret, .mask = mask });
}

/* Resolves a name that is to be created, removed or replaced; a link at the end is meant itself. */
static int locate_name(int dirfd, const char *path, struct spot *ret)
{
        return reach_locate(dirfd, path, REACH_NOT_LAST, REACH_OPERATION_WRITE, ret);
}

/* Resolves a name that is to be created, and checks whether it may be. */
static int locate_new(int dirfd, const char *path, struct spot *ret)
{
        int r = locate_name(dirfd, path, ret);
        return r < 0 ? r : judge(ret, REACH_MAKE);
}

int reach_mkdir(int dirfd, const char *path, mode_t mode)
{
        _spot_ struct spot s;
        int r = locate_new(dirfd, path, &s);
        if (r == 0 && mkdirat(s.dirfd, s.name, mode) < 0)
                r = failed(&s, errno);
        return refusal_settle(r);
}

int reach_symlink(const char *text, int dirfd, const char *path)
{
        _spot_ struct spot s;
        int r = locate_new(dirfd, path, &s);
        if (r == 0 && symlinkat(text, s.dirfd, s.name) < 0)
                r = failed(&s, errno);
        return refusal_settle(r);
}

int reach_unlink(int dirfd, const char *path, int flags)
{
        _spot_ struct spot s;
        struct stat st;
        int r = locate_name(dirfd, path, &s);
        if (r == 0)
                r = judge(&s, REACH_UNMAKE);
        /* As the kernel does, this returns EISDIR for a directory before any other refusal. */
        if ((r == -EBUSY || r == -EACCES) && !(flags & AT_REMOVEDIR) &&
            fstatat(s.dirfd, s.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
                r = -EISDIR;
        if (r == 0 && unlinkat(s.dirfd, s.name, flags) < 0)
                r = failed(&s, errno);
        return refusal_settle(r);
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
        if (!S_ISDIR(st.st_mode))
                return 0;
        refusal_note(-EBUSY, s->operation, &(struct reach_reason){ .rule = REACH_RULE_PATTERN },
                     spot_path(s));
        return -EBUSY;
}

int reach_rename(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
        _spot_ struct spot a, b = { .dirfd = -1 };
        int r = locate_name(from_dirfd, from, &a);
        if (r == 0)
                r = locate_name(to_dirfd, to, &b);
        if (r == 0)
                r = judge(&a, REACH_UNMAKE);
        if (r == 0)
                r = judge(&b, REACH_UNMAKE);
        if (r == 0)
                r = judge_move(&a);
        if (r == 0 && (flags & RENAME_EXCHANGE))
                r = judge_move(&b);
        if (r == 0 && renameat2(a.dirfd, a.name, b.dirfd, b.name, flags) < 0)
                r = failed(&a, errno);
        return refusal_settle(r);
}

int reach_link(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
        _spot_ struct spot a, b = { .dirfd = -1 };
        int r = locate_name(from_dirfd, from, &a);
        if (r == 0)
                r = judge(&a, REACH_PUT);
        if (r == 0)
                r = locate_new(to_dirfd, to, &b);
        if (r == 0 && linkat(a.dirfd, a.name, b.dirfd, b.name, 0) < 0)
                r = failed(&a, errno);
        return refusal_settle(r);
}

ssize_t reach_readlink(int dirfd, const char *path, char *ret, size_t n)
{
        _spot_ struct spot s;
        ssize_t got = locate_to_look(dirfd, path, AT_SYMLINK_NOFOLLOW, &s);
        if (got == 0)
                got = readlinkat(s.dirfd, s.name, ret, n);
        if (got == -1)
                got = failed(&s, errno);
        return got < 0 ? refusal_settle((int)got) : got;
}

static int find_real(const char *path, struct spot *ret)
{
        struct stat st;
        int r = locate_to_look(AT_FDCWD, path, 0, ret);
        if (r < 0)
                return r;
        if (fstatat(ret->dirfd, ret->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return failed(ret, errno);
        return ret->wants_directory && !S_ISDIR(st.st_mode) ? -ENOTDIR : 0;
}

int reach_real(const char *path, char **ret)
{
        _spot_ struct spot s;
        int r = refusal_settle(find_real(path, &s));
        if (r < 0)
                return r;
        *ret = strdup(s.path);
        return *ret ? 0 : -ENOMEM;
}

/* Asks the kernel about a name that the rules allow, by an O_PATH descriptor, so that no link is followed. */
static int access_spot(const struct spot *s, int mode)
{
        struct stat st;
        _close_ int fd = openat(s->dirfd, s->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return failed(s, errno);
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISLNK(st.st_mode))
                return -EAGAIN; /* the file was put there after the path was followed */
        if (s->wants_directory && !S_ISDIR(st.st_mode))
                return -ENOTDIR;
        if (S_ISDIR(st.st_mode) && (mode & W_OK))
                return -EISDIR;
        return reach_access_fd(fd, mode);
}

int reach_access(int dirfd, const char *path, int mode, bool follow)
{
        _spot_ struct spot s;
        bool writes = mode & W_OK;
        int r = reach_locate(dirfd, path, follow ? REACH_FOLLOW : REACH_NOT_LAST,
                             writes ? REACH_OPERATION_WRITE : REACH_OPERATION_READ, &s);
        if (r == 0)
                r = judge(&s, writes ? REACH_PUT : REACH_GET);
        return refusal_settle(r < 0 ? r : access_spot(&s, mode));
}

int reach_check_name(int dirfd, const char *path, enum reach_deed deed)
{
        _spot_ struct spot s;
        int r = reach_locate_new(dirfd, path, &s);
        return refusal_settle(r < 0 ? r : judge(&s, deed));
}

static int judge_fd(int fd, enum reach_deed deed, enum reach_operation operation)
{
        struct spot s = { .operation = operation };
        int r = reach_where_is(fd, s.path, &s.n);
        return r < 0 ? r : judge(&s, deed);
}

/* A device may be written to, but its attributes belong to the machine and may not be changed. */
static int judge_attributes(int fd)
{
        struct spot s = { .operation = REACH_OPERATION_WRITE };
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
                return 0;
        int r = reach_where_is(fd, s.path, &s.n);
        if (r < 0)
                return r;
        refusal_note(-EROFS, s.operation, &(struct reach_reason){ .rule = REACH_RULE_OWN }, spot_path(&s));
        return -EROFS;
}

int reach_check_change(int fd)
{
        if (!reach_is_limited())
                return 0;
        int r = judge_fd(fd, REACH_PUT, REACH_OPERATION_WRITE);
        return refusal_settle(r < 0 ? r : judge_attributes(fd));
}

int reach_check_read(int fd)
{
        return reach_is_limited() ? refusal_settle(judge_fd(fd, REACH_GET, REACH_OPERATION_READ)) : 0;
}
