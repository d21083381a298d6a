/* rig: a directory of its own for a test of file operations, and what is put into it. Only for x_test.c. */
#pragma once

#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* mkdtemp in TMPDIR, as a real path. */
struct rig {
        char root[PATH_MAX];
};

static inline int rig_unlink(const char *path, UNUSED const struct stat *st, int kind, UNUSED struct FTW *ftw)
{
        if (kind == FTW_DNR)
                (void)chmod(path, 0700);
        (void)remove(path); /* what stays is seen by the next one */
        return 0;
}

static inline void rig_release(struct rig *rig)
{
        if (rig->root[0])
                (void)nftw(rig->root, rig_unlink, 16, FTW_DEPTH | FTW_PHYS);
}
#define _rig_ CLEANUP(rig_release)

static inline struct rig rig_new(void)
{
        struct rig rig = { 0 };
        const char *tmp = getenv("TMPDIR");
        char template[PATH_MAX];

        snprintf(template, sizeof(template), "%s/farhand-fsop-XXXXXX", tmp ? tmp : "/tmp");
        must(mkdtemp(template));
        must(realpath(template, rig.root));
        return rig;
}

/* The absolute path of `name` in the rig. Eight may be in use at a time. */
static inline const char *rig_path(const struct rig *rig, const char *name)
{
        static char paths[8][2 * PATH_MAX];
        static unsigned next;
        char *path = paths[next++ % 8];

        snprintf(path, sizeof(paths[0]), "%s%s%s", rig->root, *name ? "/" : "", name);
        return path;
}

static inline void rig_file(const struct rig *rig, const char *name, struct slice content)
{
        _close_ int fd = open(rig_path(rig, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        must(fd >= 0);
        must(fd_write_all(fd, content) == 0);
}

static inline void rig_directory(const struct rig *rig, const char *name)
{
        must(mkdir(rig_path(rig, name), 0755) == 0);
}

static inline void rig_link(const struct rig *rig, const char *name, const char *target)
{
        must(symlink(target, rig_path(rig, name)) == 0);
}

static inline void rig_fifo(const struct rig *rig, const char *name)
{
        must(mkfifo(rig_path(rig, name), 0644) == 0);
}
