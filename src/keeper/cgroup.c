/* cgroup: makes, fills and removes the cgroups of commands (cgroup.h). Used by the spawner, and by the server to find out which
 * limits are possible. */
#include "keeper/cgroup.h"

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NAME_PREFIX "farhand-"
#define NAME_TRIES 8 /* servers in other pid namespaces may have taken the first names, with the same pid */
#define SELF_MAX (64 * 1024) /* bytes of /proc/self/cgroup, and of a path */
#define MOUNTINFO_MAX (4 * 1024 * 1024)
#define CONTROL_BYTES 512            /* bytes of a file that lists controllers */
#define BELOW_DEPTH 8                /* levels of cgroups that a command may have made in its leaf */
#define PIDS_LIMIT (4 * 1024 * 1024) /* the kernel refuses larger limits; there cannot be more pids */

static const struct {
        uint32_t bit;
        const char *name, *enable;
} controllers[] = {
        { CGROUP_MEMORY, "memory", "+memory" },
        { CGROUP_PIDS, "pids", "+pids" },
};

/* A leaf that could not be removed. */
struct busy_leaf {
        struct list link; /* cgroup::busy */
        uint64_t leaf;
};

/* ---- reading and writing files of a cgroup ---- */

static int file_write(int dir, const char *name, const char *text)
{
        _close_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int file_write_u64(int dir, const char *name, uint64_t value)
{
        char text[24];
        snprintf(text, sizeof(text), "%" PRIu64, value);
        return file_write(dir, name, text);
}

/* Reads up to size - 1 bytes, and puts a NUL behind them. Returns how many bytes were read, or -errno. */
static int file_read(int dir, const char *name, char *ret, size_t size)
{
        _close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ssize_t n = read(fd, ret, size - 1);
        if (n < 0)
                return -errno;
        ret[n] = 0;
        return (int)n;
}

static int dir_open(int at, const char *name)
{
        int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static void dir_closep(DIR **d)
{
        if (*d)
                closedir(*d);
}

static DIR *dir_list(int dir)
{
        int fd = dir_open(dir, ".");
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        if (!d)
                fd_close(fd);
        return d;
}

/* ---- controllers ---- */

static uint32_t controllers_read(int dir, const char *name)
{
        char text[CONTROL_BYTES];
        if (file_read(dir, name, text, sizeof(text)) < 0)
                return 0;
        uint32_t found = 0;
        struct slice rest = slice_trim(slice_from_str(text));
        while (rest.n > 0) {
                struct slice word = slice_split(&rest, ' ');
                for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
                        if (slice_eq(word, slice_from_str(controllers[i].name)))
                                found |= controllers[i].bit;
        }
        return found;
}

/* Enables in the children of `dir` the controllers that `dir` has; returns those that the children have then. */
static uint32_t controllers_enable(int dir)
{
        uint32_t missing = controllers_read(dir, "cgroup.controllers") &
                           ~controllers_read(dir, "cgroup.subtree_control");
        for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
                if (missing & controllers[i].bit)
                        (void)file_write(dir, "cgroup.subtree_control", controllers[i].enable);
        return controllers_read(dir, "cgroup.subtree_control");
}

/* ---- the directory in which farhand-PID is made ---- */

static bool is_cgroup2(int dir)
{
        struct statfs fs;
        return fstatfs(dir, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* systemd marks the cgroups that it delegates: since version 251 with an attribute that every user can read, before that with an
 * attribute that only root can read. */
static bool is_delegated(int dir)
{
        static const char *const marks[] = { "user.delegate", "trusted.delegate" };
        char value;
        for (size_t i = 0; i < ARRAY_LEN(marks); i++)
                if (fgetxattr(dir, marks[i], &value, 1) == 1 && value == '1')
                        return true;
        return false;
}

/* Opens the parent of our own cgroup, if that parent was delegated and holds no process: there, and only there, leaves can have
 * controllers. A cgroup with processes (our own has at least us) cannot pass the memory controller on, and passing on
 * pids would turn it into a domain of threads. */
static int delegated_open(struct slice own, size_t mount)
{
        while (own.n > mount && own.p[own.n - 1] != '/')
                own.n--;
        if (own.n <= mount)
                return -ENOENT;
        _free_ char *path = slice_dup(own);
        _close_ int dir = dir_open(AT_FDCWD, path);
        if (dir < 0)
                return dir;
        char first[2];
        if (!is_cgroup2(dir) || !is_delegated(dir) ||
            file_read(dir, "cgroup.procs", first, sizeof(first)) != 0)
                return -ENOENT;
        (void)controllers_enable(dir); /* leaves without controllers can still be killed as a whole */
        return TAKE_FD(dir);
}

static int base_open(void)
{
        _buf_ struct buf self = BUF_INIT(SELF_MAX), mounts = BUF_INIT(MOUNTINFO_MAX),
                         path = BUF_INIT(SELF_MAX);
        size_t mount;
        int r = fd_read_file("/proc/self/cgroup", SELF_MAX, &self);
        if (r == 0)
                r = fd_read_file("/proc/self/mountinfo", MOUNTINFO_MAX, &mounts);
        if (r == 0)
                r = cgroup_path_find(buf_slice(&self), buf_slice(&mounts), &path, &mount);
        if (r < 0)
                return r;

        int parent = delegated_open(buf_slice(&path), mount);
        if (parent >= 0)
                return parent;
        _close_ int own = dir_open(AT_FDCWD, path.p);
        if (own < 0)
                return own;
        return is_cgroup2(own) ? TAKE_FD(own) : -ENOENT;
}

/* ---- removing cgroups ---- */

/* Removes the cgroups below a leaf or below farhand-PID; rmdir refuses those that are not empty. */
static void below_remove(int dir, int depth)
{
        CLEANUP(dir_closep) DIR *d = dir_list(dir);
        struct dirent *e;
        while (d && (e = readdir(d))) {
                if (e->d_type != DT_DIR || e->d_name[0] == '.')
                        continue;
                _close_ int child = depth > 0 ? dir_open(dir, e->d_name) : -1;
                if (child >= 0)
                        below_remove(child, depth - 1);
                (void)unlinkat(dir, e->d_name, AT_REMOVEDIR);
        }
}

static bool name_is_ours(const char *name)
{
        size_t prefix = strlen(NAME_PREFIX);
        if (strncmp(name, NAME_PREFIX, prefix) != 0 || !name[prefix])
                return false;
        return name[prefix + strspn(name + prefix, "0123456789-")] == 0;
}

/* Ends what is left in the directories farhand-PID of dead servers, and removes those. The lock on a directory tells whether a process of
 * its server is alive, also in another pid namespace. A directory whose processes have not ended yet is left to the next call. */
static void stale_remove(int base)
{
        CLEANUP(dir_closep) DIR *d = dir_list(base);
        struct dirent *e;
        while (d && (e = readdir(d))) {
                if (e->d_type != DT_DIR || !name_is_ours(e->d_name))
                        continue;
                _close_ int home = dir_open(base, e->d_name);
                if (home < 0 || flock(home, LOCK_EX | LOCK_NB) < 0)
                        continue;
                (void)cgroup_leaf_kill(home);
                below_remove(home, BELOW_DEPTH);
                (void)unlinkat(base, e->d_name, AT_REMOVEDIR);
        }
}

/* ---- farhand-PID ---- */

/* Makes and locks farhand-PID. Returns its descriptor, or -errno: -EAGAIN when the name is taken, or when another server removed
 * the directory as stale before it was locked. */
static int home_make(int base, const char *name)
{
        if (mkdirat(base, name, 0755) < 0)
                return errno == EEXIST ? -EAGAIN : -errno;
        _close_ int home = dir_open(base, name);
        char type[CONTROL_BYTES];
        if (home < 0 || flock(home, LOCK_EX | LOCK_NB) < 0 ||
            file_read(home, "cgroup.type", type, sizeof(type)) < 0) {
                (void)unlinkat(base, name, AT_REMOVEDIR);
                return -EAGAIN;
        }
        /* A cgroup below a threaded domain cannot hold processes. */
        if (strcmp(type, "domain\n") != 0) {
                (void)unlinkat(base, name, AT_REMOVEDIR);
                return -EOPNOTSUPP;
        }
        return TAKE_FD(home);
}

int cgroup_open(struct cgroup *ret)
{
        *ret = CGROUP_CLOSED;
        _close_ int base = base_open();
        if (base < 0)
                return base;
        stale_remove(base);

        int home = -EAGAIN;
        for (int i = 0; i < NAME_TRIES && home == -EAGAIN; i++) {
                snprintf(ret->name, sizeof(ret->name), i ? NAME_PREFIX "%d-%d" : NAME_PREFIX "%d",
                         (int)getpid(), i);
                home = home_make(base, ret->name);
        }
        if (home < 0)
                return home;
        list_init(&ret->busy);
        ret->base = TAKE_FD(base);
        ret->home = home;
        ret->controllers = controllers_enable(home);
        return 0;
}

void cgroup_close(struct cgroup *c)
{
        if (c->home < 0)
                return;
        struct busy_leaf *b;
        list_each (b, &c->busy, link)
                free(b);
        fd_close(c->ready_fd);
        below_remove(c->home, BELOW_DEPTH);
        (void)unlinkat(c->base, c->name, AT_REMOVEDIR); /* the next server removes what is still busy */
        fd_close(c->home);
        fd_close(c->base);
        *c = CGROUP_CLOSED;
}

int cgroup_probe(void)
{
        struct cgroup c;
        int r = cgroup_open(&c);
        if (r < 0)
                return r;
        r = (int)c.controllers;
        cgroup_close(&c);
        return r;
}

/* A process in a directory that is not locked has no server any more. The kill takes time, so the next server or spawner may
 * have to remove the directory. */
void cgroup_reclaim(pid_t pid)
{
        char name[CGROUP_NAME_BYTES];
        snprintf(name, sizeof(name), NAME_PREFIX "%d", (int)pid);
        _close_ int base = base_open();
        _close_ int home = base < 0 ? -1 : dir_open(base, name);
        if (home < 0 || flock(home, LOCK_EX | LOCK_NB) < 0)
                return;
        (void)cgroup_leaf_kill(home); /* reaches every process below */
        below_remove(home, BELOW_DEPTH);
        (void)unlinkat(base, name, AT_REMOVEDIR);
}

/* ---- leaves ---- */

int cgroup_leaf_limit(int leaf, const struct cgroup_limits *limits)
{
        int r = 0;
        if (limits->memory_bytes > 0) {
                r = file_write_u64(leaf, "memory.max", limits->memory_bytes);
                /* At the limit the tree must not swap, and the kernel must kill all of it, not only its largest process. Kernels
                 * without swap or before 4.19 lack these files. */
                (void)file_write(leaf, "memory.swap.max", "0");
                (void)file_write(leaf, "memory.oom.group", "1");
        }
        if (r == 0 && limits->processes > 0)
                r = file_write_u64(leaf, "pids.max", MIN(limits->processes, (uint64_t)PIDS_LIMIT));
        return r;
}

/* Makes a leaf for the next command, unless there is one already. Returns 0 or -errno. */
static int leaf_make(struct cgroup *c)
{
        if (c->ready)
                return 0;
        struct leaf_name name = cgroup_leaf_name(c->last + 1);
        if (mkdirat(c->home, name.text, 0755) < 0)
                return -errno;
        c->ready_fd = dir_open(c->home, name.text);
        if (c->ready_fd < 0) {
                (void)unlinkat(c->home, name.text, AT_REMOVEDIR);
                return c->ready_fd;
        }
        c->ready = ++c->last;
        return 0;
}

int cgroup_leaf_add(struct cgroup *c, const struct cgroup_limits *limits, uint64_t *ret_leaf, int *ret_fd)
{
        uint32_t needed =
                (limits->memory_bytes ? CGROUP_MEMORY : 0u) | (limits->processes ? CGROUP_PIDS : 0u);
        if (needed & ~c->controllers)
                return -ENOTSUP;
        int r = leaf_make(c);
        if (r < 0)
                return r;
        uint64_t leaf = c->ready;
        c->ready = 0;
        _close_ int fd = TAKE_FD(c->ready_fd);
        r = cgroup_leaf_limit(fd, limits);
        if (r < 0) {
                (void)unlinkat(c->home, cgroup_leaf_name(leaf).text, AT_REMOVEDIR);
                return r;
        }
        *ret_leaf = leaf;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

void cgroup_leaf_prepare(struct cgroup *c)
{
        if (c->home >= 0)
                (void)leaf_make(c); /* a command that needs a leaf tries again, and reports the failure */
}

void cgroup_leaf_end(const struct cgroup *c, uint64_t leaf)
{
        _close_ int fd = dir_open(c->home, cgroup_leaf_name(leaf).text);
        if (fd >= 0)
                (void)cgroup_leaf_kill(fd); /* the caller kills by pid as well */
}

static bool leaf_try_remove(const struct cgroup *c, uint64_t leaf)
{
        struct leaf_name name = cgroup_leaf_name(leaf);
        if (unlinkat(c->home, name.text, AT_REMOVEDIR) == 0 || errno != EBUSY)
                return true;
        _close_ int fd = dir_open(c->home, name.text);
        if (fd >= 0)
                below_remove(fd, BELOW_DEPTH);
        return unlinkat(c->home, name.text, AT_REMOVEDIR) == 0 || errno != EBUSY;
}

void cgroup_leaf_remove(struct cgroup *c, uint64_t leaf)
{
        if (leaf_try_remove(c, leaf))
                return;
        struct busy_leaf *b = mem_new(struct busy_leaf);
        b->leaf = leaf;
        list_append(&c->busy, &b->link);
}

bool cgroup_tidy(struct cgroup *c)
{
        if (c->home < 0)
                return false;
        struct busy_leaf *b;
        list_each (b, &c->busy, link) {
                if (!leaf_try_remove(c, b->leaf))
                        continue;
                list_remove(&b->link);
                free(b);
        }
        return !list_is_empty(&c->busy);
}
