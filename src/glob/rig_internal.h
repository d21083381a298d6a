/* rig_internal: prints the answer to a query for patterns as text. Only for tests. */
#pragma once

#include "base/tree_rig.h"
#include "glob/cache.h"
#include "glob/matches.h"

static inline void glob_cache_freep(struct glob_cache **c)
{
        *c = glob_cache_free(*c);
}
#define _glob_cache_ CLEANUP(glob_cache_freep)

/* Returns the matches as text, relative to the root and with marks: `/` for a directory, `@` for a link, `!` for unreadable. */
static inline const char *shown(struct tree_rig *rig, const struct glob_matches *m)
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
