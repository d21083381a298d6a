/* overlay: finds out which files the paths of a patch mean, and what is in them. */
#include "patch/overlay.h"

#include "base/limits.h"
#include "base/uri.h"

#include <errno.h>

#define LINKS_MAX 40 /* the limit of the kernel */

void overlay_begin(struct overlay *o, struct names *names)
{
        *o = (struct overlay){ .names = names, .arena = names->arena };
        map_init(&o->map);
}

void overlay_release(struct overlay *o)
{
        map_release(&o->map);
}

/* ---- entries ---- */

static struct entry *find_known(const struct overlay *o, const char *path)
{
        return map_find(&o->map, slice_from_str(path));
}

static struct entry *add_entry(struct overlay *o, const char *path, struct entry *parent, struct name *name,
                               const struct file_state *state)
{
        struct entry *e = arena_new(o->arena, struct entry);
        e->path = path;
        e->parent = parent;
        e->name = name;
        e->before = *state;
        e->kind = state->kind;
        map_put(&o->map, slice_from_str(e->path), e);
        o->list = arena_room(o->arena, o->list, o->count, &o->room, sizeof(struct entry *));
        o->list[o->count++] = e;
        return e;
}

static struct entry *find_entry(struct overlay *o, struct name *n, int depth);

/* Where an entry lies: the real path of its directory, or the entry that is in place of the directory. */
struct place_of {
        const char *directory;
        struct entry *parent;
        bool is_too_deep; /* so many directories are missing that nothing can be put there */
};

/* Finds out where the names in a directory are. A directory that is missing, or is no directory, has an entry: a hunk may make it, or
 * may take away what is in its place. `is_one`: a look at a name in `path` did not fail with ENOTDIR. */
static struct place_of find_directory(struct overlay *o, const char *path, bool is_one, int depth)
{
        struct name *n = names_get(o->names, path);
        const char *real = name_real(n);
        if (real && is_one)
                return (struct place_of){ .directory = real };
        if (strcmp(path, "/") == 0)
                return (struct place_of){ .directory = "/" };
        if (depth >= LIMIT_PATCH_MISSING_DIRECTORIES)
                return (struct place_of){ .directory = path, .is_too_deep = true };
        struct entry *e = find_entry(o, n, depth + 1);
        for (int i = 0; i < LINKS_MAX && e->kind == FILE_LINK && e->target; i++)
                e = e->target;
        return (struct place_of){ .directory = e->path, .parent = e->kind == FILE_DIRECTORY ? NULL : e };
}

/* Makes the entry that a link leads to: what it leads to exists, or may be made. */
static struct entry *find_target(struct overlay *o, struct name *n, struct entry *link, int depth)
{
        const char *real = n->look.is_link ? name_real(n) : NULL, *text = n->link;
        struct slice path;
        if (real) {
                struct entry *known = find_known(o, real);
                return known ? known : add_entry(o, real, NULL, n, &n->look.state);
        }
        if (!text || depth > LINKS_MAX)
                return NULL;
        const char *joined =
                text[0] == '/' ? text : names_join(o->arena, names_directory(o->arena, link->path), text);
        if (uri_to_path(o->arena, slice_from_str(joined), &path, NULL) != URI_OK)
                return NULL;
        struct name *next = names_get(o->names, path.p);
        const struct look *look = name_look(next);
        if (!look->failure && look->state.kind == FILE_ABSENT)
                name_link(next);
        return find_entry(o, next, depth + 1);
}

/* Finds the entry of a name itself; links at its end are not followed. */
static struct entry *find_entry(struct overlay *o, struct name *n, int depth)
{
        if (n->entry)
                return n->entry;
        const struct look *look = name_look(n);
        struct place_of at = { .directory = "/" };
        bool is_root = strcmp(n->path, "/") == 0;
        if (!is_root)
                at = find_directory(o, names_directory(o->arena, n->path),
                                    !look->failure || look->failure->os_errno != ENOTDIR, depth);
        const char *path = is_root ? n->path : names_join(o->arena, at.directory, names_last(n->path));
        struct entry *e = find_known(o, path);
        if (!e) {
                struct file_state state = look->state;
                bool is_link = look->is_link || n->link;
                /* ENOTDIR is no failure here: a file stands in place of the directory, and a hunk may put a directory there. */
                bool is_below = at.parent && look->failure && look->failure->os_errno == ENOTDIR;
                if (is_link)
                        state = (struct file_state){ .kind = FILE_LINK, .target = n->link };
                e = add_entry(o, path, at.parent, n, &state);
                e->failure = is_link || is_below ? NULL : look->failure;
                e->kind = e->failure || at.is_too_deep ? FILE_OTHER : e->kind;
                if (is_link)
                        e->target = find_target(o, n, e, depth);
        }
        n->entry = e;
        return e;
}

struct entry *overlay_find(struct overlay *o, const char *path, bool follows)
{
        struct entry *e = find_entry(o, names_get(o->names, path), 0);
        for (int i = 0; follows && e && e->kind == FILE_LINK; i++)
                e = i < LINKS_MAX ? e->target : NULL;
        return e;
}

/* ---- contents ---- */

/* Sets e->old. Returns 0, or -EIO with *ret_failure. */
static int read_old(struct overlay *o, struct entry *e, const struct failure **ret_failure)
{
        struct slice bytes;
        if (e->old)
                return 0;
        struct name *n = e->name;
        if (o->reads_real_paths) {
                n = names_get(o->names, e->path);
                n->is_real = true;
        }
        int r = name_read(n, &e->before, &bytes, ret_failure);
        if (r == 0) {
                e->old = content_from_text(o->arena, bytes);
                state_set_content(&e->before, bytes);
        }
        return r == -EFBIG ? 0 : r;
}

const struct content *overlay_content(struct overlay *o, struct entry *e, const struct failure **ret_failure)
{
        if (e->content)
                return e->content;
        if (read_old(o, e, ret_failure) < 0)
                return NULL;
        if (!e->old)
                e->old = content_from_file(o->arena, e->path, e->before.size);
        return e->old;
}

void overlay_keep(struct overlay *o, struct entry *e)
{
        const struct failure *failure;
        if (e->before.kind == FILE_REGULAR)
                (void)read_old(o, e, &failure);
}

bool overlay_make_parents(struct entry *e, const char *shown)
{
        struct entry *p = e->parent;
        if (!p || p->kind == FILE_DIRECTORY)
                return true;
        if (p->kind != FILE_ABSENT || !overlay_make_parents(p, shown))
                return false;
        p->kind = FILE_DIRECTORY;
        p->shown = shown;
        return true;
}
