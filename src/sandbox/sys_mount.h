/* sys_mount: raw system calls for mounts (Linux 5.2 and later) and for paths, in the manner of base/sys.h. */
#pragma once

#include "base/sys.h"

#include <linux/mount.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

struct sys_mount_attr {
        uint64_t attr_set, attr_clr, propagation, userns_fd;
};

#define SYS_MS_PRIVATE (1 << 18)
#define SYS_MS_REC 16384
#define SYS_MNT_DETACH 2

/* The attributes of a mount. */
#define SYS_ATTR_RDONLY 0x1
#define SYS_ATTR_NOSUID 0x2
#define SYS_ATTR_NODEV 0x4
#define SYS_ATTR_NOEXEC 0x8

#define SYS_STATMOUNT 457
#define SYS_LISTMOUNT 458
#define SYS_LISTMOUNT_MAX 64 /* how many mounts one call lists at most */
/* As `below` of sys_listmount: the root of the caller, or of the mount namespace `space`. */
#define SYS_LISTMOUNT_ROOT UINT64_MAX
#define SYS_MOUNT_REQUEST_FIRST 24 /* the size of the request in Linux 6.8, which has no `space` */

/* The request of statmount and listmount. */
struct sys_mount_request {
        uint32_t size, spare;
        uint64_t id, param;
        uint64_t space; /* Linux 6.11: the number of a mount namespace; 0: the caller's */
};

/* Lists the numbers of the mounts below a mount, in rising order, after the number `last`. Returns their count, or
 * -errno: -ENOSYS before Linux 6.8. */
static inline long sys_listmount(uint64_t space, uint64_t below, uint64_t last,
                                 uint64_t ret[static SYS_LISTMOUNT_MAX])
{
        const struct sys_mount_request request = {
                .size = space ? sizeof(request) : SYS_MOUNT_REQUEST_FIRST,
                .id = below,
                .param = last,
                .space = space,
        };
        return sys_call4(SYS_LISTMOUNT, &request, ret, SYS_LISTMOUNT_MAX, 0);
}

/* Opens a path below `dir` without following links. */
static inline int sys_open_beneath(int dir, const char *path, int flags)
{
        const struct open_how how = {
                .flags = (unsigned)flags | O_CLOEXEC,
                .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH,
        };
        return (int)sys_call4(SYS_openat2, dir, path, &how, sizeof(how));
}

/* Copies the mount at `path` below `dir` (or at `dir` itself, when `path` is empty) with all mounts below it. */
static inline int sys_tree_copy(int dir, const char *path)
{
        return (int)sys_call3(SYS_open_tree, dir, path,
                              OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH |
                                      AT_SYMLINK_NOFOLLOW);
}

static inline int sys_tree_set(int tree, uint64_t attributes)
{
        const struct sys_mount_attr attr = { .attr_set = attributes, .propagation = SYS_MS_PRIVATE };
        return (int)sys6(SYS_mount_setattr, tree, SYS_ARG(""), AT_EMPTY_PATH | AT_RECURSIVE, SYS_ARG(&attr),
                         sizeof(attr), 0);
}

/* Makes this mount read-only, but not those below it. */
static inline int sys_mount_seal(int mount)
{
        const struct sys_mount_attr attr = { .attr_set = SYS_ATTR_RDONLY };
        return (int)sys6(SYS_mount_setattr, mount, SYS_ARG(""), AT_EMPTY_PATH, SYS_ARG(&attr), sizeof(attr),
                         0);
}

/* Attaches a mount to `path` below `dir`, or to `dir` itself when `path` is empty. */
static inline int sys_tree_attach(int tree, int dir, const char *path)
{
        return (int)sys6(SYS_move_mount, tree, SYS_ARG(""), dir, SYS_ARG(path),
                         MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH, 0);
}

static inline int sys_fsopen(const char *type)
{
        return (int)sys_call2(SYS_fsopen, type, FSOPEN_CLOEXEC);
}

static inline int sys_fsconfig_text(int fs, const char *key, const char *value)
{
        return (int)sys6(SYS_fsconfig, fs, FSCONFIG_SET_STRING, SYS_ARG(key), SYS_ARG(value), 0, 0);
}

static inline int sys_fsconfig_create(int fs)
{
        return (int)sys6(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0, 0);
}

static inline int sys_fsmount(int fs, unsigned attributes)
{
        return (int)sys_call3(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
}

static inline int sys_fstat(int fd, struct stat *ret)
{
        return (int)sys_call4(SYS_newfstatat, fd, "", ret, AT_EMPTY_PATH);
}

static inline int sys_mkdirat(int dir, const char *name, unsigned mode)
{
        return (int)sys_call3(SYS_mkdirat, dir, name, mode);
}

/* Makes an empty file. */
static inline int sys_touchat(int dir, const char *name, unsigned mode)
{
        int fd = (int)sys_call4(SYS_openat, dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                mode);
        return fd < 0 ? fd : sys_close(fd);
}

static inline int sys_symlinkat(const char *text, int dir, const char *name)
{
        return (int)sys_call3(SYS_symlinkat, text, dir, name);
}
