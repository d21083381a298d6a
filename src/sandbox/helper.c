/* helper: finds, checks and opens a program that is executed later. */
#include "sandbox/helper.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

#define UID_BYTES 32
#define ID_MAP_BYTES (64 * KIB) /* the kernel allows 340 lines */

int helper_find(const char *name, char *ret)
{
        static const char *const places[] = { "../libexec/farhand/", "" };
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        const char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
        for (size_t i = 0; slash && i < ARRAY_LEN(places); i++) {
                int length =
                        snprintf(ret, PATH_MAX, "%.*s%s%s", (int)(slash + 1 - self), self, places[i], name);
                struct stat st;
                if (length > 0 && length < PATH_MAX && stat(ret, &st) == 0 && S_ISREG(st.st_mode) &&
                    access(ret, X_OK) == 0)
                        return 0;
        }
        return -ENOENT;
}

/* ---- who may write the program ---- */

/* Returns the uid that files of the machine's root show: 0, unless the user namespace has no number for root. Each line of the
 * map holds the first number inside, the first number outside, and their count. */
static uid_t root_uid(void)
{
        _buf_ struct buf map = BUF_INIT(ID_MAP_BYTES), overflow = BUF_INIT(UID_BYTES);
        uint64_t uid;
        if (fd_read_file("/proc/self/uid_map", ID_MAP_BYTES, &map) < 0)
                return 0;
        struct slice rest = buf_slice(&map);
        while (rest.n > 0) {
                struct slice line = slice_trim(slice_split(&rest, '\n'));
                (void)slice_split(&line, ' ');
                if (slice_starts(slice_trim(line), S("0 ")))
                        return 0;
        }
        if (fd_read_file("/proc/sys/kernel/overflowuid", UID_BYTES, &overflow) < 0 ||
            slice_to_u64(slice_trim(buf_slice(&overflow)), UINT32_MAX, &uid) < 0)
                return 0;
        return (uid_t)uid;
}

static int refuse(struct err *err, const char *path, const char *words)
{
        err->os_errno = EPERM;
        err->remedy = HELPER_REMEDY;
        return err_set(err, 0, -EPERM, "%s %s", path, words);
}

/* The group bits of a mode may stand for an access control list instead of the group. Only two errors mean that there is no
 * list. */
static bool has_acl(int fd)
{
        return getxattr(fd_link(fd).text, "system.posix_acl_access", NULL, 0) >= 0 ||
               (errno != ENODATA && errno != EOPNOTSUPP);
}

static int judge(int fd, const struct stat *st, const char *path, uid_t root, struct err *err)
{
        if (st->st_uid != 0 && st->st_uid != root && st->st_uid != geteuid()) {
                char words[48];
                (void)snprintf(words, sizeof(words), "belongs to uid %u", st->st_uid);
                return refuse(err, path, words);
        }
        if (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX))
                return 0;
        if (st->st_mode & S_IWOTH)
                return refuse(err, path, "can be written by everybody");
        if ((st->st_mode & S_IWGRP) && st->st_gid != getegid())
                return refuse(err, path, "can be written by its group");
        if ((st->st_mode & S_IWGRP) && has_acl(fd))
                return refuse(err, path, "can be written by others: it has an access control list");
        return 0;
}

static int fail(struct err *err, int r, const char *path)
{
        err->os_errno = -r;
        return err_set(err, 0, r, "%s: %s", path, errno_text(r));
}

/* Checks the directories from that of the file up to the root, each opened as `..` of the previous one. Shortens `path`. */
static int judge_above(const struct stat *file, char *path, uid_t root, struct err *err)
{
        char *slash = strrchr(path, '/');
        struct stat st, above;
        const char *name = slash + 1;
        *slash = 0;
        _close_ int dir = open(*path ? path : "/", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir < 0 || fstat(dir, &st) < 0 || fstatat(dir, name, &above, AT_SYMLINK_NOFOLLOW) < 0)
                return fail(err, -errno, path);
        if (above.st_dev != file->st_dev || above.st_ino != file->st_ino)
                return fail(err, -ESTALE, path);
        for (;;) {
                int r = judge(dir, &st, *path ? path : "/", root, err);
                if (r < 0)
                        return r;
                int up = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (up < 0 || fstat(up, &above) < 0) {
                        r = fail(err, -errno, path);
                        fd_close(up);
                        return r;
                }
                fd_close(dir);
                dir = up;
                if (above.st_dev == st.st_dev && above.st_ino == st.st_ino)
                        return 0;
                st = above;
                slash = strrchr(path, '/');
                if (slash)
                        *slash = 0;
        }
}

/* ---- the copy ---- */

static int memfd_new(void)
{
        const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
        int fd = memfd_create("farhand-helper", flags | MFD_EXEC);
        if (fd < 0 && errno == EINVAL) /* before Linux 6.3 every memfd can be executed */
                fd = memfd_create("farhand-helper", flags);
        return fd;
}

static bool copy_all(int from, int to, off_t size)
{
        off_t at = 0;
        while (at < size) {
                ssize_t n = sendfile(to, from, &at, (size_t)(size - at));
                if (n <= 0 && !(n < 0 && errno == EINTR))
                        return false;
        }
        return true;
}

/* Copies the file into a sealed memfd. Returns 0 also where no copy can be made: then *ret stays -1, and the file itself is
 * executed. Returns -EAGAIN when another process has a lease on the file, and execve would wait for that process. */
static int copy_make(int file, const struct stat *st, int *ret)
{
        if (st->st_size > LIMIT_HELPER_BYTES)
                return 0;
        _close_ int from = open(fd_link(file).text, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (from < 0)
                return errno == EAGAIN ? -EAGAIN : 0;
        _close_ int to = memfd_new();
        if (to >= 0 && copy_all(from, to, st->st_size) &&
            fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
                *ret = TAKE_FD(to);
        return 0;
}

/* ---- opening a program ---- */

static int open_checked(const char *path, struct helper *ret, struct stat *ret_st, struct err *err)
{
        char real[PATH_MAX];
        if (!realpath(path, real))
                return fail(err, -errno, path);
        _close_ int file = open(real, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (file < 0 || fstat(file, ret_st) < 0)
                return fail(err, -errno, real);
        if (!S_ISREG(ret_st->st_mode))
                return fail(err, -EACCES, real);
        uid_t root = root_uid();
        int r = judge(file, ret_st, real, root, err);
        if (r == 0)
                r = judge_above(ret_st, real, root, err);
        if (r < 0)
                return r;
        ret->file = TAKE_FD(file);
        ret->mark = helper_mark_of(ret_st);
        return 0;
}

static int check_mark(const struct helper *h)
{
        struct stat st;
        if (fstat(h->file, &st) < 0)
                return -errno;
        struct helper_mark now = helper_mark_of(&st);
        return helper_mark_eq(&now, &h->mark) ? 0 : -ESTALE;
}

int helper_open(const char *path, bool copies, struct helper *ret, struct err *err)
{
        struct helper h = HELPER_NONE;
        struct stat st;
        int r = open_checked(path, &h, &st, err);
        if (r < 0)
                return r;
        if (copies)
                r = copy_make(h.file, &st, &h.copy);
        if (r == 0)
                r = check_mark(&h); /* refuses a file that is being written */
        if (r < 0) {
                helper_close(&h);
                return fail(err, r, path);
        }
        *ret = h;
        return 0;
}

void helper_close(struct helper *h)
{
        fd_close(h->file);
        fd_close(h->copy);
        *h = HELPER_NONE;
}

int helper_fd(const struct helper *h)
{
        if (h->copy >= 0)
                return h->copy;
        int r = check_mark(h);
        return r < 0 ? r : h->file;
}

void helper_drop_copy(struct helper *h)
{
        h->copy = fd_close(h->copy);
}
