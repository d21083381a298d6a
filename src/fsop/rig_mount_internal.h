/* rig_mount: a child with mounts of its own, for tests of full and foreign file systems. Only for x_test.c. */
#pragma once

#include "fsop/rig.h"
#include "unit.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static inline bool rig_put(const char *path, const char *text)
{
        _close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        return fd >= 0 && fd_write_all(fd, slice_from_str(text)) == 0;
}

/* Gives this process a mount namespace of its own; without privileges, as root of a new user namespace with one user. */
static inline bool rig_unshare(void)
{
        char users[32], groups[32];

        if (geteuid() == 0)
                return unshare(CLONE_NEWNS) == 0;
        snprintf(users, sizeof(users), "0 %u 1", geteuid());
        snprintf(groups, sizeof(groups), "0 %u 1", getegid());
        return unshare(CLONE_NEWNS | CLONE_NEWUSER) == 0 && rig_put("/proc/self/uid_map", users) &&
               rig_put("/proc/self/setgroups", "deny") && rig_put("/proc/self/gid_map", groups);
}

/* Runs `fn` in a child with a mount namespace of its own; `fn` fails by must(). Skips the test where that is not allowed. */
static inline void rig_in_namespace(const struct rig *rig, void (*fn)(const struct rig *rig))
{
        pid_t pid = fork();

        ok(pid >= 0);
        if (pid == 0) {
                if (!rig_unshare() || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) < 0)
                        _exit(77);
                fn(rig);
                _exit(0);
        }

        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                rig_skip(rig);
        eq_int(status, 0);
}

/* Makes the directory `name` and mounts a tmpfs on it. */
static inline void rig_tmpfs(const struct rig *rig, const char *name, const char *options)
{
        rig_directory(rig, name);
        must(mount("none", rig_path(rig, name), "tmpfs", 0, options) == 0);
}
