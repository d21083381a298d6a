/* glob_rig: a tree of its own for a test of globs, and an answer as text. Only for x_test.c. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/glob_scan.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct glob_rig {
        struct arena arena; /* of all texts */
        char root[PATH_MAX];
};

static inline int glob_rig_remove_one(const char *path, UNUSED const struct stat *st, UNUSED int type,
                                      UNUSED struct FTW *ftw)
{
        return remove(path);
}

static inline void glob_rig_release(struct glob_rig *rig)
{
        (void)nftw(rig->root, glob_rig_remove_one, 16, FTW_DEPTH | FTW_PHYS);
        arena_release(&rig->arena);
}
#define _glob_rig_ CLEANUP(glob_rig_release)

static inline struct glob_rig glob_rig_new(void)
{
        struct glob_rig rig = { .arena = ARENA_INIT };
        const char *tmp = getenv("TMPDIR");
        char template[PATH_MAX];

        snprintf(template, sizeof(template), "%s/farhand-glob-XXXXXX", tmp ? tmp : "/tmp");
        must(mkdtemp(template));
        must(realpath(template, rig.root));
        return rig;
}

static inline const char *at(struct glob_rig *rig, const char *name)
{
        return arena_printf(&rig->arena, "%s/%s", rig->root, name);
}

static inline void put_directory(struct glob_rig *rig, const char *name)
{
        must(mkdir(at(rig, name), 0755) == 0);
}

static inline void put_file(struct glob_rig *rig, const char *name)
{
        _close_ int fd = open(at(rig, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        must(fd >= 0);
}

static inline void put_link(struct glob_rig *rig, const char *target, const char *name)
{
        must(symlink(target, at(rig, name)) == 0);
}

static inline void move_to(struct glob_rig *rig, const char *from, const char *to)
{
        must(rename(at(rig, from), at(rig, to)) == 0);
}

/* The matches below the root, each with a mark: `/` directory, `@` link, `!` unreadable. */
static inline const char *shown(struct glob_rig *rig, const struct glob_matches *m)
{
        const char *text = "";
        for (size_t i = 0; i < m->count; i++) {
                const struct glob_match *x = &m->list[i];
                struct stat st;
                must(lstat(x->path.p, &st) == 0 && st.st_dev == x->dev && st.st_ino == x->ino);
                must(x->path.p[x->path.n] == '\0' && slice_starts(x->path, slice_from_str(rig->root)));
                text = arena_printf(&rig->arena, "%s%s%s%s%s%s", text, i ? " " : "",
                                    x->path.p + MIN(x->path.n, strlen(rig->root) + 1),
                                    x->is_directory ? "/" : "", x->is_symlink ? "@" : "",
                                    x->is_unreadable ? "!" : "");
        }
        return text;
}

/* Valgrind answers for openat2 that there is none. */
static UNUSED bool has_openat2(void)
{
        const char *preload = getenv("LD_PRELOAD");
        return !preload || !strstr(preload, "vgpreload");
}
