/* tree: reads the directories that wait, one after the other, and compares every name in them with the patterns.
 *
 * A directory that cannot be read becomes a match itself, because it could hide one.
 */
#include "glob/tree_internal.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Does the error mean that the file or a directory above it was removed or replaced? */
static bool is_gone(int code)
{
        return code == -ENOENT || code == -ENOTDIR || code == -ELOOP || code == -ESTALE;
}

/* Makes a directory that cannot be read a match as a whole, because it could hide a match; or the directory above it, when not
 * even its identity can be read. Returns 1 when this is done, and `n` may be freed then; or -errno with err filled. */
static int mask_whole(struct glob_node *n, struct err *err)
{
        for (;; n = n->parent) {
                _close_ int fd = glob_node_open(n, O_PATH);
                struct stat st;
                if (fd >= 0 && fstat(fd, &st) == 0) {
                        glob_node_forget_children(n);
                        list_remove(&n->wait);
                        n->is_directory = n->is_unreadable = true;
                        n->dev = st.st_dev;
                        n->ino = st.st_ino;
                        int r = n->is_match ? 0 : glob_node_make_match(n, err);
                        return r < 0 ? r : 1;
                }
                int code = fd < 0 ? fd : -errno;
                if (is_gone(code) && n->parent) {
                        glob_node_forget(n);
                        return 1;
                }
                if (code != -EACCES || !n->parent)
                        return glob_node_fail(err, code, n, "a directory that cannot be read");
        }
}

/* Compares a name in a directory with the patterns. With `wants_below`, t->scratch gets the state that the
 * name has as a directory. */
static void judge(const struct glob_node *dir, struct slice name, bool wants_below, bool *ret_match,
                  bool *ret_below)
{
        const struct glob_group *g = dir->group;
        const uint64_t *state = dir->state;
        uint64_t *below = g->tree->scratch;
        bool is_match = false;
        uint64_t all = 0;

        for (size_t i = 0; i < g->count; i++) {
                size_t words = pattern_words(g->patterns[i]);
                is_match |= pattern_step(g->patterns[i], state, name, wants_below ? below : NULL);
                for (size_t w = 0; wants_below && w < words; w++)
                        all |= below[w];
                state += words;
                below += words;
        }
        *ret_match = is_match;
        *ret_below = all != 0;
}

/* Examines one name of a directory. `type` is that of getdents64. Returns 1 when the directory was masked as a whole. */
static int look(struct glob_node *dir, int fd, struct slice name, uint8_t type, struct err *err)
{
        struct glob_tree *t = dir->group->tree;
        bool is_within = t->depth == 0 || dir->depth + 1 < t->depth;
        bool may_be_directory = is_within && (type == DT_DIR || type == DT_UNKNOWN), is_match, may_go_on;
        struct stat st = { .st_mode = S_IFDIR };

        judge(dir, name, may_be_directory, &is_match, &may_go_on);
        if (!is_match && !may_go_on)
                return 0;
        if ((is_match || type == DT_UNKNOWN) &&
            fstatat(fd, name.p, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
                return errno == EACCES   ? mask_whole(dir, err)
                       : is_gone(-errno) ? 0
                                         : glob_node_fail(err, -errno, dir, "stat");
        if (!is_match && !S_ISDIR(st.st_mode))
                return 0;
        /* A directory that changes while it is read may list the same name twice. */
        struct glob_node *old = glob_node_find_child(t, dir, name);
        if (old)
                glob_node_forget(old);

        struct glob_node *n = glob_node_new(dir->group, dir, name);
        if (!is_match)
                return glob_node_keep_state(n, err);
        n->is_directory = S_ISDIR(st.st_mode);
        n->is_symlink = S_ISLNK(st.st_mode);
        n->dev = st.st_dev;
        n->ino = st.st_ino;
        return glob_node_make_match(n, err);
}

static bool is_dots(const char *name)
{
        return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int check_bounds(struct glob_tree *t, const struct glob_node *n, struct err *err)
{
        if (t->is_cancelled && atomic_load_explicit(t->is_cancelled, memory_order_relaxed))
                return glob_node_fail(err, -ECANCELED, n, "given up");
        if (t->entries > GLOB_ENTRIES_MAX)
                return glob_node_fail(err, -E2BIG, n, "too many names");
        if (clock_mono_ms() > t->deadline_ms)
                return glob_node_fail(err, -ETIMEDOUT, n, "it takes too long");
        return 0;
}

static int read_directory(struct glob_node *dir, int fd, struct err *err)
{
        struct glob_tree *t = dir->group->tree;
        char *room = t->room;

        for (;;) {
                int r = check_bounds(t, dir, err);
                if (r < 0)
                        return r;
                ssize_t n = getdents64(fd, room, GLOB_READ_BYTES);
                if (n < 0 && is_gone(-errno))
                        return 0;
                if (n < 0)
                        return glob_node_fail(err, -errno, dir, "reading a directory");
                if (n == 0)
                        return 0;
                for (ssize_t at = 0; at < n;) {
                        const struct dirent64 *e = (const struct dirent64 *)(void *)(room + at);
                        at += e->d_reclen;
                        t->entries++;
                        if (is_dots(e->d_name))
                                continue;
                        r = look(dir, fd, slice_from_str(e->d_name), e->d_type, err);
                        if (r != 0)
                                return r;
                }
        }
}

/* Is the path so long that it leaves no room for another name? */
static bool is_too_long(const struct glob_node *n)
{
        return strlen(n->group->real) + n->path_n + NAME_MAX + 3 > PATH_MAX;
}

/* Reads a directory that waits. */
static int enter(struct glob_node *n, struct err *err)
{
        struct glob_group *g = n->group;
        struct glob_tree *t = g->tree;

        list_remove(&n->wait);
        int r = check_bounds(t, n, err);
        if (r < 0)
                return r;
        if (is_too_long(n))
                return mask_whole(n, err);

        _close_ int fd = glob_node_open(n, O_RDONLY);
        if (fd == -EACCES || fd == -EPERM)
                return mask_whole(n, err);
        if (is_gone(fd)) {
                glob_node_forget(n);
                return 0;
        }
        if (fd < 0)
                return glob_node_fail(err, fd, n, "opening a directory");
        if (t->listener) {
                struct stat st;
                if (fstat(fd, &st) < 0)
                        return glob_node_fail(err, -errno, n, "stat");
                n->dev = st.st_dev;
                n->ino = st.st_ino;
                r = t->listener->on_enter(t->listener->arg, n, fd);
                if (r < 0)
                        return glob_node_fail(err, r, n, "watching a directory");
        }
        return read_directory(n, fd, err);
}

static int enter_all(struct glob_tree *t, struct err *err)
{
        struct glob_node *n;
        while ((n = list_first(&t->waiting, struct glob_node, wait))) {
                int r = enter(n, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- Reading and updating a tree */

int glob_tree_read(struct glob_tree *t, struct err *err)
{
        for (size_t i = 0; i < t->group_count; i++) {
                struct glob_group *g = &t->groups[i];
                uint64_t *state = t->scratch;
                if (g->fd < 0)
                        continue;
                g->root = glob_node_new(g, NULL, S(""));
                for (size_t p = 0; p < g->count; p++) {
                        pattern_enter(g->patterns[p], state);
                        state += pattern_words(g->patterns[p]);
                }
                int r = glob_node_keep_state(g->root, err);
                if (r < 0)
                        return r;
        }
        return enter_all(t, err);
}

int glob_tree_touch(struct glob_tree *t, struct glob_node *dir, struct slice name, bool is_directory,
                    struct err *err)
{
        char room[NAME_MAX + 1];

        for (;;) {
                struct glob_node *old = glob_node_find_child(t, dir, name);
                bool is_match, may_go_on;
                if (old)
                        glob_node_forget(old);
                if (dir->is_match)
                        return 0;
                judge(dir, name, is_directory, &is_match, &may_go_on);
                if (!is_match && !may_go_on)
                        return 0;

                struct stat st;
                _close_ int fd = glob_node_open(dir, O_PATH);
                if (is_gone(fd)) /* the events of the removal come later */
                        return 0;
                if (fd < 0 || fstat(fd, &st) < 0)
                        return -ESTALE;
                if (st.st_dev == dir->dev && st.st_ino == dir->ino) {
                        int r = look(dir, fd, name, is_directory ? DT_UNKNOWN : DT_REG, err);
                        return r < 0 ? r : enter_all(t, err);
                }
                /* Another directory is in the place of `dir`: handle that as a change of its name in the directory above. */
                if (!dir->parent)
                        return -ESTALE;
                memcpy(room, dir->name, dir->name_n + 1);
                name = slice_from(room, dir->name_n);
                dir = dir->parent;
                is_directory = true;
        }
}

bool glob_tree_has_same_inodes(const struct glob_tree *t)
{
        struct glob_node *n;
        char room[PATH_MAX];

        list_each (n, (struct list *)&t->matches, match) {
                struct stat st;
                glob_node_write_path(n, room);
                if (fstatat(n->group->fd, room, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != n->dev ||
                    st.st_ino != n->ino)
                        return false;
        }
        return true;
}

bool glob_tree_has_opened_up(const struct glob_tree *t)
{
        struct glob_node *n;
        list_each (n, (struct list *)&t->matches, match) {
                if (!n->is_unreadable || is_too_long(n))
                        continue;
                _close_ int fd = glob_node_open(n, O_RDONLY);
                /* Is the directory readable, and can the files in it be reached? */
                if (fd >= 0 ? faccessat(fd, ".", F_OK, 0) == 0 : fd != -EACCES && fd != -EPERM)
                        return true;
        }
        return false;
}

void glob_tree_release(struct glob_tree *t)
{
        for (size_t i = 0; i < t->group_count; i++) {
                if (t->groups[i].root)
                        glob_node_forget(t->groups[i].root);
                free(t->groups[i].real);
        }
        glob_tree_close(t);
        map_release(&t->names);
        free(t->scratch);
        free(t->room);
        arena_release(&t->arena);
}
