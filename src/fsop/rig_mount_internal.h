/* rig_mount: a child with mounts of its own, for tests of full and foreign file systems. Only for x_test.c. */
#pragma once

#include "fsop/rig_internal.h"
#include "unit.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

/* Runs `fn` in a child whose mounts nobody else sees; must() is its way to fail. Skips where that is not allowed. */
static inline void rig_in_namespace(const struct rig *rig, void (*fn)(const struct rig *rig))
{
        pid_t pid = fork();

        ok(pid >= 0);
        if (pid == 0) {
                int flags = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
                if (unshare(flags) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                        _exit(77);
                fn(rig);
                _exit(0);
        }

        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                skip();
        eq_int(status, 0);
}

/* A tmpfs of `size` bytes at `name`, which is made. */
static inline void rig_tmpfs(const struct rig *rig, const char *name, const char *options)
{
        rig_directory(rig, name);
        must(mount("none", rig_path(rig, name), "tmpfs", 0, options) == 0);
}
