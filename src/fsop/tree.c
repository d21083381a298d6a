/* tree: walks over a directory tree by descriptors. */
#include "fsop/tree_internal.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LIST_BYTES (64 * 1024)

struct identity {
        dev_t dev;
        ino_t ino;
};

struct level {
        struct tree_pair fds; /* both members are -1 while the level is closed */
        /* the directories of `fds`, noted when the level was closed, to recognise them when it is opened again */
        struct identity read, write;
        size_t pending; /* offset in walk::names of the current child, the first that is not done */
        size_t end;     /* where this level's names end */
};

struct walk {
        const struct tree_ops *ops;
        void *arg;
        bool has_write;       /* the walk makes a copy: each level also has a directory that is written */
        struct level *levels; /* levels[0] is the root */
        size_t depth, allocated;
        struct buf names; /* the names of children to enter, NUL-terminated, deepest level last */
        char list[LIST_BYTES];
};

static bool is_dots(const char *name)
{
        return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Calls `entry` for all entries of a directory, and keeps the names of those to be entered. */
static int level_list(struct walk *w, struct level *l)
{
        l->pending = w->names.n;
        for (;;) {
                ssize_t n = getdents64(l->fds.read, w->list, sizeof(w->list));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != ENOENT) /* ENOENT: the directory itself was removed */
                        return -errno;
                if (n <= 0)
                        break;

                for (ssize_t at = 0; at < n;) {
                        const struct dirent64 *d = (const void *)(w->list + at);
                        at += d->d_reclen;
                        if (is_dots(d->d_name))
                                continue;

                        int r = w->ops->entry(w->arg, l->fds, d->d_name, d->d_type);
                        if (r < 0)
                                return r;
                        if (r == TREE_DESCEND &&
                            buf_append(&w->names, slice_from(d->d_name, strlen(d->d_name) + 1)) < 0)
                                return -ENOBUFS;
                }
        }
        l->end = w->names.n;
        return 0;
}

static void level_close(struct level *l)
{
        l->fds.read = fd_close(l->fds.read);
        l->fds.write = fd_close(l->fds.write);
}

static int identify(int fd, struct identity *ret)
{
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        *ret = (struct identity){ st.st_dev, st.st_ino };
        return 0;
}

/* Closes a level, and remembers which directory it was. */
static int level_park(struct walk *w, struct level *l)
{
        int r = identify(l->fds.read, &l->read);
        if (r == 0 && w->has_write)
                r = identify(l->fds.write, &l->write);
        if (r == 0)
                level_close(l);
        return r;
}

static int open_above(int fd, int flags, struct identity wanted)
{
        _close_ int above = openat(fd, "..", flags | O_DIRECTORY | O_CLOEXEC);
        struct identity found;

        if (above < 0)
                return -errno;
        int r = identify(above, &found);
        if (r < 0)
                return r;
        if (found.dev != wanted.dev || found.ino != wanted.ino)
                return -ESTALE; /* the child was moved: its parent is now another directory */
        return TAKE_FD(above);
}

/* Opens a parked level again, from its child. */
static int level_resume(struct walk *w, struct level *l, const struct level *child)
{
        l->fds.read = open_above(child->fds.read, O_RDONLY | O_NONBLOCK, l->read);
        if (l->fds.read < 0)
                return l->fds.read;
        if (w->has_write) {
                l->fds.write = open_above(child->fds.write, O_PATH, l->write);
                if (l->fds.write < 0)
                        return l->fds.write;
        }
        return 0;
}

static int walk_push(struct walk *w, struct tree_pair fds)
{
        if (w->depth == w->allocated) {
                w->allocated = w->allocated ? 2 * w->allocated : 64;
                w->levels = mem_realloc(w->levels, w->allocated * sizeof(*w->levels));
        }
        w->levels[w->depth++] = (struct level){ .fds = fds };

        /* The level that is now too far above is closed, but never the root, whose descriptors belong to the caller. */
        struct level *far =
                w->depth > TREE_OPEN_LEVELS + 1 ? &w->levels[w->depth - 1 - TREE_OPEN_LEVELS] : NULL;
        if (far && far->fds.read >= 0) {
                int r = level_park(w, far);
                if (r < 0)
                        return r;
        }
        return level_list(w, &w->levels[w->depth - 1]);
}

/* Leaves the deepest level, which has no children left. */
static int walk_pop(struct walk *w)
{
        struct level *l = &w->levels[w->depth - 1], *above = l - 1;
        int r = 0;

        if (w->ops->filled)
                r = w->ops->filled(w->arg, l->fds);
        if (r == 0 && above->fds.read < 0)
                r = level_resume(w, above, l);
        level_close(l);
        w->depth--;
        if (r < 0)
                return r;

        r = w->ops->leave ? w->ops->leave(w->arg, above->fds, w->names.p + above->pending) : TREE_DONE;
        if (r < 0)
                return r;
        if (r != TREE_AGAIN)
                above->pending += strlen(w->names.p + above->pending) + 1;
        return 0;
}

static int walk_step(struct walk *w)
{
        struct level *l = &w->levels[w->depth - 1];

        buf_truncate(&w->names, l->end);
        if (l->pending == l->end)
                return walk_pop(w);

        if (w->depth == TREE_DEPTH_MAX)
                return -ENAMETOOLONG;

        struct tree_pair child = { -1, -1, false };
        const char *name = w->names.p + l->pending;
        int r = w->ops->enter(w->arg, l->fds, name, &child);
        if (r < 0)
                return r;
        if (r == TREE_SKIP) {
                l->pending += strlen(name) + 1;
                return 0;
        }

        return walk_push(w, child);
}

int tree_walk(struct tree_pair root, const struct tree_ops *ops, void *arg)
{
        struct walk *w = mem_new(struct walk);

        w->ops = ops;
        w->arg = arg;
        w->has_write = root.write >= 0;
        buf_init(&w->names, TREE_PENDING_BYTES);

        int r = walk_push(w, root);
        while (r == 0 && !(w->depth == 1 && w->levels[0].pending == w->levels[0].end))
                r = walk_step(w);

        for (size_t i = 1; i < w->depth; i++)
                level_close(&w->levels[i]);
        buf_release(&w->names);
        free(w->levels);
        free(w);
        return r;
}
