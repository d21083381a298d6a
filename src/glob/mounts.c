/* mounts: watches the mount table and tells which file systems report every change by inotify. */
#include "glob/mounts_internal.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/vfs.h>

#ifndef BCACHEFS_SUPER_MAGIC
#define BCACHEFS_SUPER_MAGIC 0xca451a4e
#endif
#define XFS_MAGIC 0x58465342
#define ZFS_MAGIC 0x2fc12fc1

/* The local file systems, which only this kernel changes. These are left out on purpose: NFS, SMB, 9p, FUSE, virtiofs, cluster file
 * systems, and file systems whose files the kernel generates. */
static const uint64_t local_types[] = {
        EXT4_SUPER_MAGIC,     XFS_MAGIC,         BTRFS_SUPER_MAGIC,
        TMPFS_MAGIC,          F2FS_SUPER_MAGIC,  ZFS_MAGIC,
        BCACHEFS_SUPER_MAGIC, RAMFS_MAGIC,       SQUASHFS_MAGIC,
        REISERFS_SUPER_MAGIC, MSDOS_SUPER_MAGIC, EROFS_SUPER_MAGIC_V1,
};

int glob_mounts_init(struct glob_mounts *m)
{
        *m = (struct glob_mounts){ .fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) };
        if (m->fd < 0)
                return -errno;
        return 0;
}

void glob_mounts_release(struct glob_mounts *m)
{
        m->fd = fd_close(m->fd);
}

bool glob_mounts_have_changed(struct glob_mounts *m)
{
        struct pollfd p = { .fd = m->fd, .events = POLLPRI };

        /* The kernel reports each change once to a descriptor. */
        if (poll(&p, 1, 0) == 0)
                return false;
        m->changes++;
        m->next = 0; /* a device number may belong to another file system now */
        return true;
}

/* Is the mount point of a line, in which special characters are escaped, at or below `root`? For a root with such characters the
 * answer is always yes. */
static bool concerns(struct slice line, struct slice root)
{
        struct slice field = { NULL, 0 };

        for (size_t i = 0; i < 5 && line.p; i++)
                field = slice_split(&line, ' ');
        for (size_t i = 0; i < root.n; i++)
                if (root.p[i] == ' ' || root.p[i] == '\t' || root.p[i] == '\n' || root.p[i] == '\\')
                        return true;
        return slice_starts(field, root) && (field.n == root.n || field.p[root.n] == '/');
}

uint64_t glob_mounts_digest(struct glob_mounts *m, const struct glob_tree *t)
{
        _buf_ struct buf table = BUF_INIT(GLOB_MOUNTS_BYTES_MAX);
        uint64_t digest = 0;

        if (fd_read_file("/proc/self/mountinfo", GLOB_MOUNTS_BYTES_MAX, &table) < 0)
                return m->changes;
        for (struct slice rest = buf_slice(&table); rest.p;) {
                struct slice line = slice_split(&rest, '\n');
                for (size_t i = 0; i < t->group_count; i++)
                        if (t->groups[i].real && concerns(line, slice_from_str(t->groups[i].real)))
                                digest = 3 * digest + map_hash(random_hash_key(), line);
        }
        return digest;
}

enum glob_mount_kind glob_mounts_kind(struct glob_mounts *m, int fd, uint64_t dev)
{
        struct statfs st;

        for (size_t i = 0; i < MIN(m->next, ARRAY_LEN(m->known)); i++)
                if (m->known[i].dev == dev)
                        return m->known[i].kind;
        if (fstatfs(fd, &st) < 0)
                return GLOB_MOUNT_OTHER;

        enum glob_mount_kind kind =
                (uint64_t)st.f_type == OVERLAYFS_SUPER_MAGIC ? GLOB_MOUNT_OVERLAY : GLOB_MOUNT_OTHER;
        for (size_t i = 0; i < ARRAY_LEN(local_types); i++)
                if ((uint64_t)st.f_type == local_types[i])
                        kind = GLOB_MOUNT_LOCAL;
        size_t at = m->next++ % ARRAY_LEN(m->known);
        m->known[at].dev = dev;
        m->known[at].kind = kind;
        return kind;
}
