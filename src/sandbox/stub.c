/* stub: see stub.h. */
#include "sandbox/stub.h"

#include "sandbox/sys_mount.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/file.h>

#define TRIES 100            /* while somebody else is making or removing the same one … */
#define TRY_WAIT_NS 1000000L /* … for so long each */

struct spot {
        char path[PATH_MAX]; /* of the directory, without its leading slash */
        char name[NAME_MAX + 1];
};

bool stub_looks_so(const struct stat *st)
{
        /* A mask for new files, or an access list of the directory, may take permissions away, but adds none. */
        if ((st->st_mode & (S_ISVTX | 0222)) != S_ISVTX)
                return false;
        return S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && st->st_size == 0);
}

/* ---- places ---- */

/* Splits "/a/b/c" into "a/b" and "c". */
static int spot_split(const char *path, size_t n, struct spot *ret)
{
        size_t name = n;
        while (name > 0 && path[name - 1] != '/')
                name--;
        if (name == 0 || n - name > NAME_MAX || n == name)
                return -EINVAL;
        for (size_t k = name; k <= n; k++)
                ret->name[k - name] = path[k];
        size_t above = name > 1 ? name - 2 : 0; /* without both slashes */
        for (size_t k = 0; k < above; k++)
                ret->path[k] = path[k + 1];
        if (above == 0)
                ret->path[above++] = '.';
        ret->path[above] = 0;
        return 0;
}

static int spot_of(const char *path, struct spot *ret)
{
        size_t n = 0;
        while (n < PATH_MAX && path[n])
                n++;
        return n < PATH_MAX ? spot_split(path, n, ret) : -ENAMETOOLONG;
}

static int spot_open(const struct spot *p)
{
        int root = sys_open("/", O_PATH | O_DIRECTORY);
        if (root < 0)
                return root;
        int dir = sys_open_beneath(root, p->path, O_PATH | O_DIRECTORY); /* which need not be readable */
        sys_close(root);
        return dir;
}

/* ---- making ---- */

static bool is_at(int dir, const char *name, const struct stat *st)
{
        struct stat now;
        return sys_call4(SYS_newfstatat, dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
               now.st_dev == st->st_dev && now.st_ino == st->st_ino;
}

/* A locked descriptor; -EAGAIN when somebody else is at it. */
static int try_make(int dir, const char *name, bool is_directory)
{
        int made = is_directory ? sys_mkdirat(dir, name, S_ISVTX | 0555)
                                : sys_touchat(dir, name, S_ISVTX | 0444);
        if (made < 0 && made != -EEXIST)
                return made;
        int fd = sys_openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return fd == -ENOENT ? -EAGAIN : fd;
        struct stat st;
        int r = sys_fstat(fd, &st);
        /* Where modes are not kept it cannot be shared. */
        if (r == 0 && made < 0 && !stub_looks_so(&st))
                r = -EAGAIN;
        if (r == 0)
                r = (int)sys_call2(SYS_flock, fd, LOCK_SH | LOCK_NB);
        if (r == 0 && !is_at(dir, name, &st))
                r = -EAGAIN;
        if (r == 0)
                return fd;
        sys_close(fd);
        return r;
}

/* Where we cannot make anything the command cannot either: it is who we are, without our privileges. Unless the directory
 * is its own, whose mode it can change. */
static bool is_out_of_reach(int r, const struct stat *dir, uint32_t uid)
{
        return r == -EROFS || ((r == -EACCES || r == -EPERM) && dir->st_uid != uid);
}

static int stub_make(const struct image *i, struct image_stub *stub)
{
        struct spot p;
        int r = spot_of(image_at(i, stub->path), &p);
        int dir = r < 0 ? r : spot_open(&p);
        if (dir < 0)
                return dir;
        struct stat st;
        r = sys_fstat(dir, &st);
        if (r == 0 && (st.st_dev != stub->parent_dev || st.st_ino != stub->parent_ino))
                r = -ESTALE;
        if (r < 0) {
                sys_close(dir);
                return r;
        }
        stub->dir = dir;
        for (int n = 0; n < TRIES; n++) {
                stub->fd = try_make(dir, p.name, stub->is_directory);
                if (stub->fd != -EAGAIN)
                        break;
                const struct timespec wait = { .tv_nsec = TRY_WAIT_NS };
                (void)sys_call2(SYS_nanosleep, &wait, NULL);
        }
        struct image_op *ops = (struct image_op *)(uintptr_t)image_at(i, i->ops);
        if (is_out_of_reach(stub->fd, &st, i->uid)) {
                ops[stub->op].may_miss = true;
                return 0;
        }
        if (stub->fd < 0)
                return stub->fd == -EAGAIN ? -EEXIST : stub->fd;
        /* Another command may have made it first, of another kind. */
        r = sys_fstat(stub->fd, &st);
        ops[stub->op].is_directory = S_ISDIR(st.st_mode);
        ops[stub->op].dev = stub->dev = st.st_dev;
        ops[stub->op].ino = stub->ino = st.st_ino;
        return r;
}

static struct image_stub *stubs_of(const struct image *i)
{
        return (struct image_stub *)(uintptr_t)image_at(i, i->stubs);
}

int stubs_make(struct image *i, struct enter_failure *ret)
{
        for (uint32_t n = 0; n < i->stub_count; n++) {
                int r = stub_make(i, &stubs_of(i)[n]);
                if (r == 0)
                        continue;
                *ret = (struct enter_failure){ .step = ENTER_STUB, .os_errno = -r, .op = n };
                stubs_remove(i, true);
                return r;
        }
        if (__atomic_exchange_n(&i->stubs_due, 0, __ATOMIC_ACQ_REL))
                (void)sys_call3(SYS_futex, &i->stubs_due, FUTEX_WAKE, INT_MAX);
        return 0;
}

/* ---- removing ---- */

/* What others still hold is theirs to remove. `known`: what we made, or NULL. True when it was removed. */
static bool remove_unless_held(int dir, const char *name, int fd, const struct image_stub *known)
{
        struct stat st;
        bool is_held = sys_call2(SYS_flock, fd, LOCK_EX | LOCK_NB) == -EWOULDBLOCK;
        bool is_one = sys_fstat(fd, &st) == 0 &&
                      (stub_looks_so(&st) || (known && st.st_dev == known->dev && st.st_ino == known->ino &&
                                              (S_ISDIR(st.st_mode) || st.st_size == 0)));
        return !is_held && is_one && is_at(dir, name, &st) &&
               sys_call3(SYS_unlinkat, dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) == 0;
}

static void spot_sweep(const struct spot *p, const struct image_stub *known)
{
        int dir = spot_open(p);
        if (dir < 0)
                return;
        int fd = sys_openat(dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0) {
                (void)remove_unless_held(dir, p->name, fd, known);
                sys_close(fd);
        }
        sys_close(dir);
}

/* Not by its path: somebody may have moved the directory meanwhile, or closed one above it. */
static void remove_own(const struct image *i, struct image_stub *stub)
{
        if (stub->fd >= 0) {
                if (remove_unless_held(stub->dir, image_at(i, stub->name), stub->fd, stub))
                        stub->spent = stub->fd;
                else
                        sys_close(
                                stub->fd); /* with our lock: whoever else has one may be waiting to be the last */
        }
        if (stub->dir >= 0)
                sys_close(stub->dir);
}

/* Of a keeper that was killed: perhaps before it could say which it had made. */
static void remove_of_other(const struct image *i, struct image_stub *stub)
{
        struct spot p;
        if (spot_of(image_at(i, stub->path), &p) == 0)
                spot_sweep(&p, stub);
}

bool stubs_exist(const struct image *i)
{
        for (uint32_t n = 0; n < i->stub_count; n++) {
                struct stat st;
                const char *path = image_at(i, stubs_of(i)[n].path);
                if (sys_call4(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    stub_looks_so(&st))
                        return true;
        }
        return false;
}

bool stubs_are_left(const struct image *i)
{
        for (uint32_t n = 0; n < i->stub_count; n++)
                if (stubs_of(i)[n].fd >= 0)
                        return true;
        return false;
}

void stubs_remove(struct image *i, bool has_fds)
{
        __atomic_store_n(&i->is_over, 1, __ATOMIC_SEQ_CST); /* who guards them knows that it is us */
        for (uint32_t n = 0; n < i->stub_count; n++) {
                struct image_stub *stub = &stubs_of(i)[n];
                (has_fds ? remove_own : remove_of_other)(i, stub);
                stub->fd = stub->dir = -1;
        }
}

void stubs_forget(struct image *i)
{
        for (uint32_t n = 0; n < i->stub_count; n++) {
                struct image_stub *stub = &stubs_of(i)[n];
                if (stub->spent >= 0)
                        sys_close(stub->spent);
                stub->spent = -1;
        }
}

void stub_sweep(const char *path)
{
        struct spot p;
        if (spot_of(path, &p) == 0)
                spot_sweep(&p, NULL);
}
