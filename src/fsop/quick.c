/* quick: gets metadata and reads small files on the loop; quick.h explains why the loop does not wait. */
#include "fsop/quick.h"

#include "base/clock.h"
#include "base/fatal.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

#define ATIME_FRESH_S (24 * 60 * 60) /* relatime: the next read moves an older time of last access */
#define ATIME_SLACK_S 60
#define SETTLED_S 2

static int capabilities_set(const struct __user_cap_data_struct set[2])
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        return syscall(SYS_capset, &head, set) < 0 ? -errno : 0;
}

/* Gives this thread its capabilities back. If that fails the program ends, because all later requests would lack them. */
static void capabilities_restore(const struct quick *q)
{
        unsigned tries = 0;
        for (int r; (r = capabilities_set(q->all)) < 0;)
                if (!fd_again(-r, &tries))
                        fatal("cannot take the capabilities of the server back", -r);
}

static bool has_other_groups(void)
{
        gid_t groups[1];
        int n = getgroups(ARRAY_LEN(groups), groups);
        return n < 0 || (n == 1 && groups[0] != getegid());
}

/* Returns whether the loop can read with the rights of an fs helper, which has no capability and, when the server is root, no
 * supplementary group: the loop can drop the former, but not the latter. Fills in the sets of capabilities. */
static bool can_fence(struct quick *q)
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        if (geteuid() == 0 && has_other_groups())
                return false;
        if (syscall(SYS_capget, &head, q->all) < 0)
                return false;
        memcpy(q->none, q->all, sizeof(q->none));
        q->has_capabilities = q->all[0].effective || q->all[1].effective;
        q->none[0].effective = q->none[1].effective = 0;
        return true;
}

void quick_init(struct quick *q)
{
        *q = (struct quick){ .fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC),
                             .mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) };
        q->is_off = q->fds < 0 || q->mounts < 0;
        q->can_fence = can_fence(q);
}

void quick_release(struct quick *q)
{
        q->fds = fd_close(q->fds);
        q->mounts = fd_close(q->mounts);
}

/* Returns how often this thread has slept so far. */
static long sleep_count(void)
{
        struct rusage used = { 0 };
        (void)getrusage(RUSAGE_THREAD, &used);
        return used.ru_nvcsw;
}

/* ---- looking at and reading a file, on the loop or in a trial on a thread */

/* Opens the path as an O_PATH descriptor. Returns -EAGAIN when not all of it is in the cache of the kernel. */
static int open_known(const char *path, uint64_t flags, uint64_t links)
{
        struct open_how how = { .flags = O_PATH | O_CLOEXEC | flags, .resolve = RESOLVE_CACHED | links };
        long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
        return fd < 0 ? -errno : (int)fd;
}

/* Opens a path from the cache; a link at the end is opened itself. Links of /proc are not followed: they lead to mounts of other
 * namespaces, and the kernel does not notify us when these change. */
static int open_cached(const char *path, bool follow)
{
        return open_known(path, O_NOFOLLOW, follow ? RESOLVE_NO_MAGICLINKS : RESOLVE_NO_SYMLINKS);
}

/* Gets the number of the mount. statx(2) could tell it too, but would ask the file system. */
static int mount_of(int fd, int *ret_id)
{
        struct file_handle handle = { .handle_bytes = 0 };
        int id = -1;
        bool is_told = name_to_handle_at(fd, "", &handle, &id, AT_EMPTY_PATH) == 0 || errno == EOVERFLOW;
        if (!is_told || id < 0)
                return -EOPNOTSUPP;
        *ret_id = id;
        return 0;
}

/* Returns whether closing the file is quick. The last close of a deleted file frees it, which takes long for a large file; our
 * close may be the last when another process deletes the file meanwhile. */
static bool is_light(const struct stat *st)
{
        return st->st_nlink > 0 && (!S_ISREG(st->st_mode) || st->st_blocks <= LIMIT_QUICK_FILE_BYTES / 512);
}

static bool is_after(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* Returns whether by the rule of relatime a read leaves the time of last access alone. */
static bool has_fresh_atime(const struct stat *st, time_t now)
{
        return is_after(&st->st_atim, &st->st_mtim) && is_after(&st->st_atim, &st->st_ctim) &&
               st->st_atim.tv_sec <= now && now - st->st_atim.tv_sec < ATIME_FRESH_S - ATIME_SLACK_S;
}

/* Returns whether the file was not changed for a while. The first close of a file that was truncated and written may write it to
 * the disk: our close must not be the first. Such a file was changed a moment ago, or another process has read and closed it
 * since. */
static bool is_settled(const struct stat *st, time_t now)
{
        return st->st_ctim.tv_sec < now - SETTLED_S;
}

static bool is_small(const struct stat *st)
{
        return S_ISREG(st->st_mode) && st->st_size <= LIMIT_QUICK_READ_BYTES && is_light(st);
}

/* Returns the flags for open(2) with which a read writes nothing to the disk; -1 when there are none. */
static int read_flags(const struct quick_mount *m, const struct stat *st, bool keeps_atime)
{
        time_t now = time(NULL);
        if (!is_small(st))
                return -1;
        if (has_fresh_atime(st, now))
                return 0;
        if (!is_settled(st, now))
                return -1;
        return m->keeps_atime ? 0 : keeps_atime ? O_NOATIME : -1;
}

/* Opens the regular file of the O_PATH descriptor `looked`. Returns -EAGAIN also when another process holds a lease on it. */
static int open_looked(int fds, int looked, int flags)
{
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", looked);
        int fd = openat(fds, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
        return fd < 0 ? -errno : fd;
}

/* Returns whether the whole file is in memory. RWF_NOWAIT alone would start to read missing pages from the disk, and wait to learn
 * where they are on the disk. Where the kernel does not answer (before Linux 6.5; for a file of another user) only RWF_NOWAIT is
 * used. */
static bool is_in_memory(int fd, size_t size)
{
        struct {
                uint64_t offset, bytes;
        } range = { 0, size };
        struct {
                uint64_t cached, dirty, written, evicted, recently_evicted;
        } pages = { 0 };
        size_t page = (size_t)sysconf(_SC_PAGESIZE);

        if (size == 0) /* for cachestat a length of 0 means up to the end */
                return true;
        if (syscall(SYS_cachestat, fd, &range, &pages, 0) < 0)
                return errno == ENOSYS || errno == EPERM;
        return pages.cached >= (size + page - 1) / page;
}

/* Reads the whole file: as many bytes as its size was when it was checked, or to its end. `to` has room for one byte more. */
static ssize_t read_cached(int fd, char *to, size_t size)
{
        size_t done = 0;
        if (!is_in_memory(fd, size))
                return -EAGAIN;
        while (done <= size) {
                struct iovec room = { to + done, size + 1 - done };
                ssize_t r = preadv2(fd, &room, 1, (off_t)done, RWF_NOWAIT);
                if (r < 0)
                        return -errno;
                done += (size_t)r;
                if (r == 0 || done == size)
                        return (ssize_t)done;
        }
        return -EFBIG; /* the file has grown since it was checked */
}

/* Reads a file that was looked up: opens the O_PATH descriptor `looked` again, by its name in `fds` (/proc/self/fd). */
static ssize_t read_looked(int fds, int looked, int flags, char *to, size_t size)
{
        _close_ int fd = open_looked(fds, looked, flags);
        return fd < 0 ? fd : read_cached(fd, to, size);
}

/* ---- answers on the loop */

static void notice_mounts(struct quick *q)
{
        struct pollfd p = { .fd = q->mounts, .events = POLLPRI };
        if (poll(&p, 1, 0) == 0)
                return;
        q->known_count = q->next = 0;
        q->age++;
}

static struct quick_mount *find(struct quick *q, int id)
{
        for (size_t i = 0; i < q->known_count; i++)
                if (q->known[i].id == id)
                        return &q->known[i];
        return NULL;
}

static enum quick_answer judge(const struct quick_verdict *v)
{
        if (v->until_ms <= clock_mono_ms())
                return QUICK_UNKNOWN;
        return v->is_allowed ? QUICK_DONE : QUICK_NOT;
}

/* A file on a mount that is known. */
struct looked {
        int fd; /* O_PATH */
        struct quick_mount *mount;
        struct stat st;
        long sleeps; /* sleep_count() when the file was found */
};

/* Finds a file whose mount the loop may use now. When the result is QUICK_DONE, the caller calls looked_close. */
static enum quick_answer look(struct quick *q, const char *path, bool follow, struct looked *ret)
{
        int id;
        if (q->is_off)
                return QUICK_NOT;
        _close_ int fd = open_cached(path, follow);
        q->is_off = fd == -EINVAL || fd == -ENOSYS; /* no RESOLVE_CACHED before Linux 5.12 */
        if (fd < 0 || mount_of(fd, &id) < 0)
                return QUICK_NOT;
        /* This comes after the path was resolved: its mount may have the number of a mount that is gone, which is noticed here. */
        notice_mounts(q);
        struct quick_mount *mount = find(q, id);
        enum quick_answer answer = mount ? judge(&mount->look) : QUICK_UNKNOWN;
        if (answer != QUICK_DONE)
                return answer;
        *ret = (struct looked){ .mount = mount, .sleeps = sleep_count() };
        if (fstat(fd, &ret->st) < 0)
                return QUICK_NOT;
        ret->fd = TAKE_FD(fd);
        return QUICK_DONE;
}

/* Leaves the mount to threads for a while, because using it has made a thread or the loop wait. */
static void leave_alone(struct quick_mount *m)
{
        m->look = m->read = (struct quick_verdict){ false, clock_mono_ms() + LIMIT_QUICK_OFF_MS };
}

static void looked_close(struct looked *l)
{
        l->fd = fd_close(l->fd);
        if (sleep_count() != l->sleeps)
                leave_alone(l->mount);
}

enum quick_answer quick_metadata(struct quick *q, const char *path, bool follow, struct fs_meta *ret)
{
        struct looked l;
        enum quick_answer answer = look(q, path, follow, &l);
        if (answer != QUICK_DONE)
                return answer;
        bool is_told = !S_ISLNK(l.st.st_mode) && is_light(&l.st);
        if (is_told)
                fs_meta_from_fd(l.fd, &l.st, ret);
        looked_close(&l);
        return is_told ? QUICK_DONE : QUICK_NOT;
}

/* Reads a file on the loop. With `is_fenced` the read is like that of an fs helper, whose mounts are read-only and so keep the time
 * of last access. */
static enum quick_answer read_here(struct quick *q, const char *path, bool follow, bool is_fenced, char *to,
                                   size_t *ret_n)
{
        struct looked l;
        enum quick_answer answer = look(q, path, follow, &l);
        if (answer != QUICK_DONE)
                return answer;
        bool may_read = l.mount->is_single || !is_fenced;
        int flags = may_read ? read_flags(l.mount, &l.st, is_fenced) : -1;
        answer = flags < 0 ? QUICK_NOT : judge(&l.mount->read);
        if (answer == QUICK_DONE) {
                ssize_t n = read_looked(q->fds, l.fd, flags, to, (size_t)l.st.st_size);
                answer = n < 0 ? QUICK_NOT : QUICK_DONE;
                *ret_n = n < 0 ? 0 : (size_t)n;
        }
        looked_close(&l);
        return answer;
}

/* ---- reads that a fence restricts */

static bool is_within(const char *path, const char *directory)
{
        size_t n = strlen(directory);
        return strncmp(path, directory, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool is_of_kernel(const char *path)
{
        return is_within(path, "/dev") || is_within(path, "/proc") || is_within(path, "/sys");
}

/* Returns whether `path` is outside of all files and directories that the fence closes. Comparing the texts is enough: neither
 * path goes through a link, and paths of requests contain no `.` and no `..`. */
static bool is_outside(const struct quick_fence *fence, const char *path)
{
        for (size_t i = 0; i < fence->count; i++) {
                const char *closed = fence->closed[i].p;
                _close_ int fd = open_known(closed, 0, RESOLVE_NO_SYMLINKS);
                bool is_known = fd >= 0 || fd == -ENOENT;
                if (!is_known || is_within(path, closed))
                        return false;
        }
        return true;
}

enum quick_answer quick_read(struct quick *q, const char *path, bool follow, const struct quick_fence *fence,
                             char *to, size_t *ret_n)
{
        if (!fence)
                return read_here(q, path, follow, false, to, ret_n);
        if (!q->can_fence || is_of_kernel(path) || (q->has_capabilities && capabilities_set(q->none) < 0))
                return QUICK_NOT;
        enum quick_answer answer = read_here(q, path, false, true, to, ret_n);
        if (q->has_capabilities)
                capabilities_restore(q);
        return answer == QUICK_DONE && !is_outside(fence, path) ? QUICK_NOT : answer;
}

/* ---- trials */

void quick_trial_init(const struct quick *q, struct quick_trial *ret)
{
        *ret = (struct quick_trial){ .fds = q->fds, .age = q->age };
}

/* Returns whether the file system is in this machine's memory or on its disks, and of a kind whose behaviour is known. overlayfs
 * is not, because it may lie on any other file system. */
static bool is_local(const struct statfs *fs)
{
        switch ((unsigned long)fs->f_type) {
        case EXT4_SUPER_MAGIC: /* ext2 and ext3 have the same number */
        case XFS_SUPER_MAGIC:
        case BTRFS_SUPER_MAGIC:
        case TMPFS_MAGIC:
                return true;
        default:
                return false;
        }
}

/* Finds out whether the file system supports quick reads. A file that is not suitable gives no verdict. */
static void try_reading(struct quick_trial *t, int fd)
{
        char content[LIMIT_QUICK_READ_BYTES + 1];
        struct stat st;
        if (fstat(fd, &st) < 0 || !is_small(&st))
                return;
        ssize_t n = read_looked(t->fds, fd, O_NOATIME, content, (size_t)st.st_size);
        if (n == -EPERM) /* the file belongs to another user */
                n = read_looked(t->fds, fd, 0, content, (size_t)st.st_size);
        t->has_read = n >= 0 || n == -EOPNOTSUPP;
        t->mount.read.is_allowed = n >= 0;
}

void quick_try(struct quick_trial *t, const char *path, bool follow, bool reads)
{
        struct statfs fs;
        _close_ int fd = open_cached(path, follow);
        if (fd < 0 || mount_of(fd, &t->mount.id) < 0 || fstatfs(fd, &fs) < 0)
                return;
        unsigned long flags = (unsigned long)fs.f_flags;
        t->mount.look.is_allowed = is_local(&fs);
        t->mount.keeps_atime = flags & (ST_NOATIME | ST_RDONLY);
        long before = sleep_count();
        if (reads && t->mount.look.is_allowed && (t->mount.keeps_atime || flags & ST_RELATIME))
                try_reading(t, fd);
        t->has_slept = sleep_count() != before;
        t->is_made = true;
}

void quick_learn(struct quick *q, const struct quick_trial *t)
{
        if (!t->is_made || t->age != q->age)
                return;
        struct quick_mount *m = find(q, t->mount.id);
        bool is_new = !m;
        if (is_new && q->known_count < ARRAY_LEN(q->known))
                m = &q->known[q->known_count++];
        else if (is_new)
                m = &q->known[q->next++ % ARRAY_LEN(q->known)];
        struct quick_verdict read = is_new ? (struct quick_verdict){ 0 } : m->read;
        uint64_t until_ms = clock_mono_ms() + LIMIT_QUICK_TRUST_MS;
        *m = t->mount;
        m->look.until_ms = until_ms;
        m->read = t->has_read ? (struct quick_verdict){ t->mount.read.is_allowed, until_ms } : read;
        if (t->has_slept)
                leave_alone(m);
}
