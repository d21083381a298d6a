/* staging: finds out which files the paths of a patch mean, and what is in them. */
#include "patch/staging.h"

#include "base/limits.h"
#include "base/uri.h"

#include <errno.h>

#define LINKS_MAX 40 /* the limit of the kernel */

void staging_begin(struct staging *s, struct names *names)
{
        *s = (struct staging){ .names = names, .arena = names->arena };
        map_init(&s->map);
}

void staging_release(struct staging *s)
{
        map_release(&s->map);
}

/* ---- entries ---- */

static struct entry *find_known(const struct staging *s, const char *path)
{
        return map_find(&s->map, slice_from_str(path));
}

static struct entry *add_entry(struct staging *s, const char *path, struct entry *parent, struct name *name,
                               const struct file_state *state)
{
        struct entry *e = arena_new(s->arena, struct entry);
        e->path = path;
        e->parent = parent;
        e->name = name;
        e->before = *state;
        e->kind = state->kind;
        map_put(&s->map, slice_from_str(e->path), e);
        s->list = arena_room(s->arena, s->list, s->count, &s->room, sizeof(struct entry *));
        s->list[s->count++] = e;
        return e;
}

static struct entry *find_entry(struct staging *s, struct name *n, int depth);

/* Where an entry lies: the real path of its directory, or the entry that is in place of the directory. */
struct location {
        const char *directory;
        struct entry *parent;
        bool is_too_deep; /* more directories are missing than a patch may make */
};

/* Finds out where the names in a directory are. A directory that is missing, or is no directory, has an entry: a hunk may make it, or
 * may take away what is in its place. `is_directory`: a look at a name in `path` did not fail with ENOTDIR. */
static struct location find_directory(struct staging *s, const char *path, bool is_directory, int depth)
{
        struct name *n = names_get(s->names, path);
        const char *real = name_real(n);
        if (real && is_directory)
                return (struct location){ .directory = real };
        if (strcmp(path, "/") == 0)
                return (struct location){ .directory = "/" };
        if (depth >= LIMIT_PATCH_MISSING_DIRECTORIES)
                return (struct location){ .directory = path, .is_too_deep = true };
        struct entry *e = find_entry(s, n, depth + 1);
        for (int i = 0; i < LINKS_MAX && e->kind == FILE_LINK && e->target; i++)
                e = e->target;
        return (struct location){ .directory = e->path, .parent = e->kind == FILE_DIRECTORY ? NULL : e };
}

/* Makes the entry that a link leads to. The target exists, or a hunk may make it. */
static struct entry *find_target(struct staging *s, struct name *n, struct entry *link, int depth)
{
        const char *real = n->look.is_link ? name_real(n) : NULL, *text = n->link;
        struct slice path;
        if (real) {
                struct entry *known = find_known(s, real);
                return known ? known : add_entry(s, real, NULL, n, &n->look.state);
        }
        if (!text || depth > LINKS_MAX)
                return NULL;
        const char *joined =
                text[0] == '/' ? text : names_join(s->arena, names_directory(s->arena, link->path), text);
        if (uri_to_path(s->arena, slice_from_str(joined), &path, NULL) != URI_OK)
                return NULL;
        struct name *next = names_get(s->names, path.p);
        const struct look *look = name_look(next);
        if (!look->failure && look->state.kind == FILE_ABSENT)
                name_link(next);
        return find_entry(s, next, depth + 1);
}

/* Finds the entry of a name itself; links at its end are not followed. */
static struct entry *find_entry(struct staging *s, struct name *n, int depth)
{
        if (n->entry)
                return n->entry;
        const struct look *look = name_look(n);
        struct location at = { .directory = "/" };
        bool is_root = strcmp(n->path, "/") == 0;
        if (!is_root)
                at = find_directory(s, names_directory(s->arena, n->path),
                                    !look->failure || look->failure->os_errno != ENOTDIR, depth);
        const char *path = is_root ? n->path : names_join(s->arena, at.directory, names_last(n->path));
        struct entry *e = find_known(s, path);
        if (!e) {
                struct file_state state = look->state;
                bool is_link = look->is_link || n->link;
                /* ENOTDIR is no failure here: a file stands in place of the directory, and a hunk may put a directory there. */
                bool is_below = at.parent && look->failure && look->failure->os_errno == ENOTDIR;
                if (is_link)
                        state = (struct file_state){ .kind = FILE_LINK, .target = n->link };
                e = add_entry(s, path, at.parent, n, &state);
                e->failure = is_link || is_below ? NULL : look->failure;
                e->kind = e->failure || at.is_too_deep ? FILE_OTHER : e->kind;
                if (is_link)
                        e->target = find_target(s, n, e, depth);
        }
        n->entry = e;
        return e;
}

struct entry *staging_find(struct staging *s, const char *path, bool follows)
{
        struct entry *e = find_entry(s, names_get(s->names, path), 0);
        for (int i = 0; follows && e && e->kind == FILE_LINK; i++)
                e = i < LINKS_MAX ? e->target : NULL;
        return e;
}

/* ---- contents ---- */

/* Sets e->old. Returns 0, or -EIO with *ret_failure. */
static int read_old(struct staging *s, struct entry *e, const struct failure **ret_failure)
{
        struct slice bytes;
        if (e->old)
                return 0;
        struct name *n = e->name;
        if (s->reads_real_paths) {
                n = names_get(s->names, e->path);
                n->is_real = true;
        }
        int r = name_read(n, &e->before, &bytes, ret_failure);
        if (r == 0) {
                e->old = content_from_text(s->arena, bytes);
                state_set_content(&e->before, bytes);
        }
        return r == -EFBIG ? 0 : r;
}

const struct content *staging_content(struct staging *s, struct entry *e, const struct failure **ret_failure)
{
        if (e->content)
                return e->content;
        if (read_old(s, e, ret_failure) < 0)
                return NULL;
        if (!e->old)
                e->old = content_from_file(s->arena, e->path, e->before.size);
        return e->old;
}

void staging_keep(struct staging *s, struct entry *e)
{
        const struct failure *failure;
        if (e->before.kind == FILE_REGULAR)
                (void)read_old(s, e, &failure);
}

bool staging_make_parents(struct entry *e, const char *shown)
{
        struct entry *p = e->parent;
        if (!p || p->kind == FILE_DIRECTORY)
                return true;
        if (p->kind != FILE_ABSENT || !staging_make_parents(p, shown))
                return false;
        p->kind = FILE_DIRECTORY;
        p->shown = shown;
        return true;
}
