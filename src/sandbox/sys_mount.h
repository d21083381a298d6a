/* sys_mount: the mount calls of Linux 5.2 to 5.12 and their like, raw as those of base/sys.h. */
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

/* Attributes of every mount that a command sees. */
#define SYS_ATTR_RDONLY 0x1
#define SYS_ATTR_NOSUID 0x2
#define SYS_ATTR_NODEV 0x4
#define SYS_ATTR_NOEXEC 0x8

/* Below `dir`, following no link on the way. */
static inline int sys_open_beneath(int dir, const char *path, int flags)
{
        const struct open_how how = {
                .flags = (unsigned)flags | O_CLOEXEC,
                .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH,
        };
        return (int)sys_call4(SYS_openat2, dir, path, &how, sizeof(how));
}

/* A copy of what is mounted at `path` below `dir` (or at `dir` itself, when it is empty) and of all below it. */
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

/* Of this mount alone. */
static inline int sys_mount_seal(int mount)
{
        const struct sys_mount_attr attr = { .attr_set = SYS_ATTR_RDONLY };
        return (int)sys6(SYS_mount_setattr, mount, SYS_ARG(""), AT_EMPTY_PATH, SYS_ARG(&attr), sizeof(attr),
                         0);
}

/* Onto `path` below `dir`, or onto `dir` itself when it is empty. */
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

/* An empty file. */
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
