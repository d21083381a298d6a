/* remove: removes a file, a link, a directory or a tree.
 *
 * Directories are opened one below the other, without following links, and names are removed relative to their descriptors: when
 * a directory is swapped for a link meanwhile, the link is removed. Mount points are not entered: the answer is EBUSY, as it
 * would be after emptying what is mounted there.
 */
#include "fsop/edit.h"

#include "base/buf.h"
#include "base/fd.h"
#include "fsop/at.h"
#include "fsop/entry_internal.h"
#include "fsop/tree_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How many times in one request a directory may be emptied again because it was filled meanwhile. Beyond: ENOTEMPTY. */
#define REMOVE_AGAIN_MAX 1024
/* How often one directory may be swapped for a link and back while it is opened. Beyond: ENOTEMPTY. */
#define SWAPPED_MAX 64
#define FDINFO_BYTES_MAX 4096

struct removal {
        unsigned repeats; /* how many times directories were emptied again; at most REMOVE_AGAIN_MAX */
};

static int remove_entry(UNUSED void *arg, struct tree_pair at, const char *name, unsigned char type)
{
        if (type == DT_DIR)
                return TREE_DESCEND;
        if (at_unlink(at.read, name, 0) == 0 || errno == ENOENT)
                return TREE_DONE;
        return errno == EISDIR ? TREE_DESCEND : -errno;
}

/* Gets the id of the mount. It differs also for two mounts of the same file system, as long as both descriptors are open. */
static int mount_of(int fd, uint64_t *ret)
{
        struct statx stx;
        if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) == 0 &&
            (stx.stx_mask & STATX_MNT_ID)) {
                *ret = stx.stx_mnt_id;
                return 0;
        }

        /* Before Linux 5.8 only fdinfo tells the mount. */
        char path[64];
        _buf_ struct buf text = BUF_INIT(FDINFO_BYTES_MAX);
        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        if (fd_read_file(path, FDINFO_BYTES_MAX, &text) < 0)
                return -EOPNOTSUPP;
        struct slice rest = buf_slice(&text);
        while (rest.n > 0) {
                struct slice line = slice_split(&rest, '\n'), name = slice_split(&line, ':');
                if (slice_eq(name, S("mnt_id")) && slice_to_u64(slice_trim(line), UINT64_MAX, ret) == 0)
                        return 0;
        }
        return -EOPNOTSUPP;
}

/* Opens a directory unless it is a mount point. Replaces openat2 where that is missing or forbidden (old kernels, filters of some
 * containers), and under a reach. If the kernel does not say whether a directory is a mount point, it is treated as one. */
static int open_on_mount(int dirfd, const char *name, int flags)
{
        uint64_t outer, inner;
        _close_ int fd = at_open(dirfd, name, flags, 0);
        if (fd < 0)
                return -errno;

        int r = mount_of(dirfd, &outer);
        if (r == 0)
                r = mount_of(fd, &inner);
        if (r < 0)
                return r;
        return inner == outer ? TAKE_FD(fd) : -EBUSY;
}

static int open_directory(int dirfd, const char *name)
{
        struct open_how how = {
                .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                .resolve = RESOLVE_NO_XDEV,
        };

        long fd = reach_is_limited() ? -1 : syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
        if (reach_is_limited() || (fd < 0 && (errno == ENOSYS || errno == EPERM)))
                return open_on_mount(dirfd, name, (int)how.flags);
        if (fd < 0)
                return errno == EXDEV ? -EBUSY : -errno;
        return (int)fd;
}

/* Opens a child for the walk. Returns TREE_DONE; TREE_SKIP when the child was removed already; or -errno. A directory that is
 * swapped for a link and back meanwhile is tried again. */
static int remove_enter(UNUSED void *arg, struct tree_pair at, const char *name, struct tree_pair *ret)
{
        for (int i = 0; i < SWAPPED_MAX; i++) {
                int fd = open_directory(at.read, name);
                if (fd >= 0) {
                        ret->read = fd;
                        return TREE_DONE;
                }
                if (fd == -ENOENT)
                        return TREE_SKIP;
                /* A directory that cannot be read can be removed if it is empty. */
                if (fd == -EACCES)
                        return at_unlink(at.read, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? TREE_SKIP
                                                                                              : -EACCES;
                if (fd != -ENOTDIR && fd != -ELOOP)
                        return fd;
                if (at_unlink(at.read, name, 0) == 0 || errno == ENOENT) /* it is no directory any more */
                        return TREE_SKIP;
                if (errno != EISDIR)
                        return -errno;
        }
        return -ENOTEMPTY;
}

static int remove_leave(void *arg, struct tree_pair at, const char *name)
{
        struct removal *r = arg;

        if (at_unlink(at.read, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
                return TREE_DONE;
        if ((errno == ENOTEMPTY || errno == EEXIST) && r->repeats++ < REMOVE_AGAIN_MAX)
                return TREE_AGAIN;
        if (errno != ENOTDIR)
                return -errno;
        if (at_unlink(at.read, name, 0) == 0 || errno == ENOENT) /* it is no directory any more */
                return TREE_DONE;
        /* EISDIR: the name was swapped back to a directory. */
        return errno == EISDIR && r->repeats++ < REMOVE_AGAIN_MAX ? TREE_AGAIN : -errno;
}

static const struct tree_ops remove_ops = {
        .entry = remove_entry,
        .enter = remove_enter,
        .leave = remove_leave,
};

static int remove_tree(const struct entry *e)
{
        struct removal removal = { 0 };
        struct tree_pair parent = { .read = e->dirfd, .write = -1 };

        for (;;) {
                struct tree_pair root = { .read = -1, .write = -1 };
                int r = remove_enter(&removal, parent, e->name, &root);
                if (r == TREE_SKIP)
                        return 0;
                if (r < 0)
                        return r;

                r = tree_walk(root, &remove_ops, &removal);
                fd_close(root.read);
                if (r == 0)
                        r = remove_leave(&removal, parent, e->name);
                if (r != TREE_AGAIN)
                        return r;
        }
}

static int remove_unnamed(bool recursive, bool follow, struct err *err)
{
        if (!follow)
                return fsop_refuse(err, "path must name an entry");
        if (recursive)
                return fsop_refuse(err, "fs/remove cannot remove the root directory");
        return fsop_fail(err, EBUSY);
}

int fsop_remove(const char *path, bool recursive, bool force, bool follow, struct err *err)
{
        if (!follow && recursive)
                return err_set(err, 0, -EOPNOTSUPP, "recursive no-follow removal is unsupported");
        if (entry_is_unnamed(path))
                return remove_unnamed(recursive, follow, err);

        _entry_ struct entry e = ENTRY_INIT;
        int r = entry_open(path, follow, &e);
        if (r == -ENOENT && force)
                return 0;
        if (r < 0)
                return fsop_fail(err, r);

        struct stat st;
        if (!follow && at_stat(e.dirfd, e.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
                return fsop_refuse(err, "path contains a symbolic link");

        r = at_unlink(e.dirfd, e.name, 0) < 0 ? -errno : 0;
        if (r == -EISDIR && recursive)
                r = remove_tree(&e);
        else if (r == -EISDIR)
                r = at_unlink(e.dirfd, e.name, AT_REMOVEDIR) < 0 ? -errno : 0;

        if (r == 0 || (r == -ENOENT && force))
                return 0;
        return fsop_fail(err, r);
}
