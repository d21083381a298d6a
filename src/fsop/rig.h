/* rig: gives a test of file operations a directory of its own, and puts files into it. Only for x_test.c. */
#pragma once

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* `root` is a new directory in TMPDIR, as a real path. */
struct rig {
        char root[PATH_MAX];
};

/* Removes all that is in the directory, by descriptors: a test may have made paths that are longer than PATH_MAX. */
static inline void rig_empty(int dirfd)
{
        DIR *d = fdopendir(dirfd);
        must(d);

        const struct dirent *e;
        while ((e = readdir(d))) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                int fd = openat(dirfd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0)
                        rig_empty(fd);
                (void)unlinkat(dirfd, e->d_name, fd >= 0 ? AT_REMOVEDIR : 0);
        }
        closedir(d);
}

static inline void rig_release(const struct rig *rig)
{
        int fd = rig->root[0] ? open(rig->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

        if (fd >= 0)
                rig_empty(fd);
        (void)rmdir(rig->root);
}
#define _rig_ CLEANUP(rig_release)

/* Removes the rig and skips the test, because skip() jumps over the cleanup of variables. */
#define rig_skip(rig)             \
        do {                      \
                rig_release(rig); \
                skip();           \
        } while (0)

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

/* Returns the absolute path of `name` in the rig. It is valid until the eighth call after this one. */
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
