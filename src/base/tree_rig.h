/* tree_rig: makes a temporary tree of files for a test. Only for x_test.c. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree_rig {
        struct arena arena; /* holds all texts */
        char root[PATH_MAX];
};

static inline int tree_rig_remove_one(const char *path, UNUSED const struct stat *st, UNUSED int type,
                                      UNUSED struct FTW *ftw)
{
        return remove(path);
}

static inline void tree_rig_release(struct tree_rig *rig)
{
        (void)nftw(rig->root, tree_rig_remove_one, 16, FTW_DEPTH | FTW_PHYS);
        arena_release(&rig->arena);
}
#define _tree_rig_ CLEANUP(tree_rig_release)

static inline struct tree_rig tree_rig_new(void)
{
        struct tree_rig rig = { .arena = ARENA_INIT };
        const char *tmp = getenv("TMPDIR");
        char template[PATH_MAX];

        snprintf(template, sizeof(template), "%s/farhand-tree-XXXXXX", tmp ? tmp : "/tmp");
        must(mkdtemp(template));
        must(realpath(template, rig.root));
        return rig;
}

static inline const char *at(struct tree_rig *rig, const char *name)
{
        return arena_printf(&rig->arena, "%s/%s", rig->root, name);
}

static inline void put_directory(struct tree_rig *rig, const char *name)
{
        must(mkdir(at(rig, name), 0755) == 0);
}

static inline void put_file(struct tree_rig *rig, const char *name)
{
        _close_ int fd = open(at(rig, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        must(fd >= 0);
}

static inline void put_link(struct tree_rig *rig, const char *target, const char *name)
{
        must(symlink(target, at(rig, name)) == 0);
}

static inline void move_to(struct tree_rig *rig, const char *from, const char *to)
{
        must(rename(at(rig, from), at(rig, to)) == 0);
}

/* Returns whether openat2 works: under valgrind it fails as if the kernel did not have it. */
static UNUSED bool has_openat2(void)
{
        const char *preload = getenv("LD_PRELOAD");
        return !preload || !strstr(preload, "vgpreload");
}
