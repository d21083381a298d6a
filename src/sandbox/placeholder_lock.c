/* placeholder_lock: counts the users of placeholders with locks on single bytes of a file. */
#include "sandbox/placeholder_lock.h"

#include "base/fd.h"
#include "base/map.h"
#include "base/random.h"
#include "base/sys_proc.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 100            /* attempts while another process is removing the same placeholder */
#define TRY_WAIT_NS 1000000L /* the wait between two attempts */

/* The byte that is locked while the key is read or written. Bytes of placeholders are lower. */
#define KEY_BYTE ((uint64_t)INT64_MAX)
#define PLACEHOLDER_BYTES ((UINT64_C(1) << 62) - 1)

/* ---- locks ---- */

static int lock_set(int fd, int type, uint64_t byte)
{
        const struct flock lock = {
                .l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1
        };
        int r = (int)sys_call3(SYS_fcntl, fd, F_OFD_SETLK, &lock);
        return r == -EACCES ? -EAGAIN : r; /* POSIX allows both errors for a lock that is held */
}

static int lock_wait(int fd, int type, uint64_t byte)
{
        for (int n = 0;; n++) {
                int r = lock_set(fd, type, byte);
                if (r != -EAGAIN || n == TRIES)
                        return r;
                const struct timespec wait = { .tv_nsec = TRY_WAIT_NS };
                (void)sys_call2(SYS_nanosleep, &wait, NULL);
        }
}

int placeholder_lock_open(const char *path)
{
        const int flags = O_RDWR | O_NONBLOCK | O_NOCTTY;
        struct sys_path link = { .n = 0 };
        struct stat st;
        int looked = sys_open(path, O_PATH | O_NOFOLLOW);
        if (looked < 0)
                return looked;
        int fd = sys_fstat(looked, &st);
        if (fd == 0 && !S_ISREG(st.st_mode))
                fd = S_ISLNK(st.st_mode) ? -ELOOP : -EPERM; /* opening a FIFO may wait for ever: base/fd.h */
        sys_path_add(&link, "/proc/self/fd/");
        sys_path_add_pid(&link, looked);
        if (fd == 0) {
                fd = sys_open(link.text, flags);
                if (fd == -ENOENT) /* there is no /proc */
                        fd = sys_open(path, flags | O_NOFOLLOW);
        }
        sys_close(looked);
        return fd;
}

/* Opens without O_CREAT first: with O_CREAT the kernel refuses a file of another user in a directory that all may write. */
int placeholder_common_open(void)
{
        int fd = placeholder_lock_open(PLACEHOLDER_COMMON_FILE);
        if (fd == -ENOENT) {
                fd = (int)sys_call4(SYS_openat, AT_FDCWD, PLACEHOLDER_COMMON_FILE,
                                    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
                if (fd >= 0)
                        (void)sys_call2(SYS_fchmod, fd, 0666);
                else if (fd == -EEXIST)
                        fd = placeholder_lock_open(PLACEHOLDER_COMMON_FILE);
        }
        struct stat st;
        if (fd >= 0 && (sys_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
                sys_close(fd);
                return -EPERM;
        }
        return fd;
}

int placeholder_lock_share(int fd, uint64_t byte)
{
        return lock_wait(fd, F_RDLCK, byte);
}

int placeholder_lock_share_now(int fd, uint64_t byte)
{
        return lock_set(fd, F_RDLCK, byte);
}

int placeholder_lock_alone(int fd, uint64_t byte)
{
        int r = lock_set(fd, F_WRLCK, byte);
        if (r != -EAGAIN)
                return r;
        /* Two users that share the byte and end at once are both refused. So each drops its lock before it asks again; then
         * the last one to drop gets the lock. */
        placeholder_lock_drop(fd, byte);
        return lock_set(fd, F_WRLCK, byte);
}

void placeholder_lock_drop(int fd, uint64_t byte)
{
        (void)lock_set(fd, F_UNLCK, byte);
}

/* ---- the lock file and its key ---- */

static int key_get(int fd, uint64_t ret[2])
{
        const ssize_t bytes = 2 * sizeof(*ret);
        ssize_t n = pread(fd, ret, (size_t)bytes, 0);
        if (n < 0)
                return -errno;
        if (n == bytes)
                return 0;
        /* The file is new, or a crash of the machine has emptied it. */
        random_bytes(ret, (size_t)bytes);
        n = pwrite(fd, ret, (size_t)bytes, 0);
        return n == bytes ? 0 : n < 0 ? -errno : -ENOSPC;
}

static int file_open(const char *path, struct placeholder_locks *ret)
{
        _close_ int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
                return -EPERM;
        int r = lock_wait(fd, F_WRLCK, KEY_BYTE);
        if (r < 0)
                return r;
        r = key_get(fd, ret->key);
        /* Closing is not enough: a child that another thread has forked meanwhile would keep the lock. */
        placeholder_lock_drop(fd, KEY_BYTE);
        ret->dev = st.st_dev;
        ret->ino = st.st_ino;
        return r;
}

int placeholder_locks_open(const char *directory, struct placeholder_locks *ret, struct err *err)
{
        struct placeholder_locks locks = { 0 };
        int n = snprintf(locks.path, sizeof(locks.path), "%s/" PLACEHOLDER_LOCK_FILE, directory);
        int r = n < (int)sizeof(locks.path) ? file_open(locks.path, &locks) : -ENAMETOOLONG;
        if (r < 0)
                return err_set(err, 0, r, "%s/" PLACEHOLDER_LOCK_FILE ": %s", directory, errno_text(r));
        *ret = locks;
        return 0;
}

bool placeholder_locks_are_current(const struct placeholder_locks *l)
{
        struct stat st;
        return l->path[0] && stat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

static uint64_t byte_of(const uint64_t key[2], uint64_t dev, uint64_t ino, struct slice name)
{
        uint64_t where[2 + (NAME_MAX + 1) / sizeof(uint64_t)] = { dev, ino };
        size_t n = MIN(name.n, (size_t)NAME_MAX); /* longer names cannot exist */
        memcpy(&where[2], name.p, n);
        return map_hash(key, slice_from((const char *)where, 2 * sizeof(*where) + n)) & PLACEHOLDER_BYTES;
}

uint64_t placeholder_lock_byte(const struct placeholder_locks *l, uint64_t dev, uint64_t ino,
                               struct slice name)
{
        return byte_of(l->key, dev, ino, name);
}

uint64_t placeholder_common_byte(uint64_t dev, uint64_t ino, struct slice name)
{
        static const uint64_t no_key[2];
        return byte_of(no_key, dev, ino, name);
}
