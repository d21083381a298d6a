/* glob_tree: see glob_tree_internal.h. Here the nodes and the walk; the query and the answer are in glob_scan.c.
 *
 * A directory that waits to be read holds a name, not a descriptor. It is opened from the descriptor of its prefix, by
 * a path in which no component may be a link: one that was replaced meanwhile is not found, and that is all.
 */
#include "sandbox/glob_tree_internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_TRIES 16 /* openat2 says EAGAIN when something was renamed under its feet */

static int fail(struct err *err, int code, const struct glob_node *node, const char *what)
{
        err->step = "glob scan";
        err->os_errno = -code;
        return err_set(err, 0, code, "glob scan of %.*s: %s: %s", SLICE(node->group->prefix), what,
                       errno_text(code));
}

/* ---- Nodes */

static struct slice key_of(const struct glob_node *n)
{
        return slice_from(&n->parent, sizeof(n->parent) + n->name_n);
}

static struct glob_node *find_child(struct glob_tree *t, const struct glob_node *parent, struct slice name)
{
        char key[sizeof(parent) + NAME_MAX];
        if (name.n > NAME_MAX)
                return NULL;
        memcpy(key, &parent, sizeof(parent));
        memcpy(key + sizeof(parent), name.p, name.n);
        return map_find(&t->names, slice_from(key, sizeof(parent) + name.n));
}

static struct glob_node *node_new(struct glob_group *g, struct glob_node *parent, struct slice name)
{
        struct glob_node *n = mem_zalloc(sizeof(*n) + name.n + 1);

        static_assert(offsetof(struct glob_node, name) ==
                              offsetof(struct glob_node, parent) + sizeof(n->parent),
                      "the key is one piece");
        n->group = g;
        n->parent = parent;
        list_init(&n->children);
        list_init(&n->sibling);
        list_init(&n->match);
        list_init(&n->wait);
        list_init(&n->watch);
        n->name_n = (uint32_t)name.n;
        memcpy(n->name, name.p, name.n);
        if (parent) {
                n->depth = parent->depth + 1;
                n->path_n = parent->path_n + (parent->path_n > 0) + n->name_n;
                list_append(&parent->children, &n->sibling);
                map_put(&g->tree->names, key_of(n), n);
        }
        return n;
}

static void unmatch(struct glob_node *n)
{
        struct glob_tree *t = n->group->tree;
        if (!n->is_match)
                return;
        n->is_match = false;
        list_remove(&n->match);
        t->match_count--;
        t->is_changed = true;
}

/* A node without children. */
static void node_free(struct glob_node *n)
{
        struct glob_tree *t = n->group->tree;

        unmatch(n);
        list_remove(&n->wait);
        list_remove(&n->sibling);
        if (t->keeper)
                t->keeper->on_leave(t->keeper->arg, n);
        if (n->state) {
                t->directory_count--;
                if (!n->parent || n->state != n->parent->state) {
                        t->state_bytes -= n->group->words * sizeof(*n->state);
                        free(n->state);
                }
        }
        if (n->parent)
                (void)map_remove(&t->names, key_of(n));
        else
                n->group->root = NULL;
        free(n);
}

/* All that is below it; not by recursion, because depth is the file system's. */
static void forget_children(struct glob_node *top)
{
        struct glob_node *n = top;

        for (;;) {
                struct glob_node *child = list_first(&n->children, struct glob_node, sibling);
                if (child) {
                        n = child;
                        continue;
                }
                if (n == top)
                        return;
                struct glob_node *parent = n->parent;
                node_free(n);
                n = parent;
        }
}

static void forget(struct glob_node *n)
{
        forget_children(n);
        node_free(n);
}

static int make_match(struct glob_node *n, struct err *err)
{
        struct glob_tree *t = n->group->tree;

        if (t->match_count == GLOB_MATCHES_MAX) {
                err->step = "glob scan";
                return err_set(err, 0, -E2BIG,
                               "unreadable glob expansion for %.*s matched more than %d paths",
                               SLICE(n->group->prefix), GLOB_MATCHES_MAX);
        }
        n->is_match = true;
        list_append(&t->matches, &n->match);
        t->match_count++;
        t->is_changed = true;
        return 0;
}

/* The path of `n` below its prefix, or "." */
static void write_path_below(const struct glob_node *n, char room[static PATH_MAX])
{
        size_t at = n->parent ? n->path_n : 1;

        room[0] = '.';
        room[at] = '\0';
        for (; n->parent; n = n->parent) {
                at -= n->name_n;
                memcpy(room + at, n->name, n->name_n);
                if (at > 0)
                        room[--at] = '/';
        }
}

/* ---- The file system */

static int open_beneath(int fd, const char *path, int flags)
{
        struct open_how how = {
                .flags = (unsigned)flags,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        int tries = 0;
        long r;

        do
                r = syscall(SYS_openat2, fd, path, &how, sizeof(how));
        while (r < 0 && (errno == EINTR || (errno == EAGAIN && tries++ < OPEN_TRIES)));
        return r < 0 ? -errno : (int)r;
}

/* The same where openat2 is missing or forbidden: component by component, none of them a link. */
static int open_by_steps(int fd, char *path, int flags)
{
        _close_ int here = -1;

        for (char *name = path, *end = path; end; name = end + 1) {
                end = strchr(name, '/');
                if (end)
                        *end = '\0';
                int next = openat(here < 0 ? fd : here, name,
                                  (end ? O_PATH | O_DIRECTORY | O_CLOEXEC : flags) | O_NOFOLLOW);
                if (next < 0)
                        return -errno;
                fd_close(here);
                here = next;
        }
        return TAKE_FD(here);
}

static int node_open(const struct glob_node *n, int flags)
{
        static atomic_bool lacks_openat2;
        char room[PATH_MAX];
        int fd = n->group->fd;

        if (!n->parent && flags == O_PATH) { /* "." would need the permission to look into it */
                fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
                return fd < 0 ? -errno : fd;
        }
        write_path_below(n, room);
        flags |= O_DIRECTORY | O_CLOEXEC;
        int r = atomic_load_explicit(&lacks_openat2, memory_order_relaxed) ? -ENOSYS
                                                                           : open_beneath(fd, room, flags);
        if (r == -ENOSYS)
                atomic_store_explicit(&lacks_openat2, true, memory_order_relaxed);
        return r == -ENOSYS || r == -EPERM ? open_by_steps(fd, room, flags) : r;
}

/* It, or what holds it, is not there any more, or is something else now. */
static bool is_gone(int code)
{
        return code == -ENOENT || code == -ENOTDIR || code == -ELOOP || code == -ESTALE;
}

/* A directory that cannot be looked into could hide a match. It is one then, as a whole; where not even that can be said
 * of it, the one above it. 1: done, and `n` may be gone. */
static int mask_whole(struct glob_node *n, struct err *err)
{
        for (;; n = n->parent) {
                _close_ int fd = node_open(n, O_PATH);
                struct stat st;
                if (fd >= 0 && fstat(fd, &st) == 0) {
                        forget_children(n);
                        list_remove(&n->wait);
                        n->is_directory = n->is_unreadable = true;
                        n->dev = st.st_dev;
                        n->ino = st.st_ino;
                        int r = n->is_match ? 0 : make_match(n, err);
                        return r < 0 ? r : 1;
                }
                int code = fd < 0 ? fd : -errno;
                if (is_gone(code) && n->parent) {
                        forget(n);
                        return 1;
                }
                if (code != -EACCES || !n->parent)
                        return fail(err, code, n, "a directory that cannot be read");
        }
}

/* Gives `n` its state, which is in t->scratch. */
static int keep_state(struct glob_node *n, struct err *err)
{
        struct glob_tree *t = n->group->tree;
        size_t bytes = n->group->words * sizeof(*n->state);

        if (t->directory_count == GLOB_DIRECTORIES_MAX)
                return fail(err, -E2BIG, n, "too many directories");
        if (n->parent && memcmp(n->parent->state, t->scratch, bytes) == 0) {
                n->state = n->parent->state;
        } else {
                if (bytes > GLOB_STATE_BYTES_MAX - t->state_bytes)
                        return fail(err, -E2BIG, n, "patterns too long for so many directories");
                t->state_bytes += bytes;
                n->state = mem_alloc(bytes);
                memcpy(n->state, t->scratch, bytes);
        }
        t->directory_count++;
        list_prepend(&t->waiting, &n->wait);
        return 0;
}

/* What a name in a directory is for the patterns. With `wants_below`, t->scratch has its state as a directory. */
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

/* Looks at one name of a directory. `type` is what getdents64 says. 1: the directory was masked as a whole. */
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
                                         : fail(err, -errno, dir, "stat");
        if (!is_match && !S_ISDIR(st.st_mode))
                return 0;
        /* The same name twice, of a directory that changes while it is read. */
        struct glob_node *old = find_child(t, dir, name);
        if (old)
                forget(old);

        struct glob_node *n = node_new(dir->group, dir, name);
        if (!is_match)
                return keep_state(n, err);
        n->is_directory = S_ISDIR(st.st_mode);
        n->is_symlink = S_ISLNK(st.st_mode);
        n->dev = st.st_dev;
        n->ino = st.st_ino;
        return make_match(n, err);
}

static bool is_dots(const char *name)
{
        return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int check_bounds(struct glob_tree *t, const struct glob_node *n, struct err *err)
{
        if (t->is_cancelled && atomic_load_explicit(t->is_cancelled, memory_order_relaxed))
                return fail(err, -ECANCELED, n, "given up");
        if (t->entries > GLOB_ENTRIES_MAX)
                return fail(err, -E2BIG, n, "too many names");
        if (clock_mono_ms() > t->deadline_ms)
                return fail(err, -ETIMEDOUT, n, "it takes too long");
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
                        return fail(err, -errno, dir, "reading a directory");
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

/* No room for a name in it. */
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

        _close_ int fd = node_open(n, O_RDONLY);
        if (fd == -EACCES || fd == -EPERM)
                return mask_whole(n, err);
        if (is_gone(fd)) {
                forget(n);
                return 0;
        }
        if (fd < 0)
                return fail(err, fd, n, "opening a directory");
        if (t->keeper) {
                struct stat st;
                if (fstat(fd, &st) < 0)
                        return fail(err, -errno, n, "stat");
                n->dev = st.st_dev;
                n->ino = st.st_ino;
                r = t->keeper->on_enter(t->keeper->arg, n, fd);
                if (r < 0)
                        return fail(err, r, n, "watching a directory");
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

/* ---- Work */

int glob_tree_read(struct glob_tree *t, struct err *err)
{
        for (size_t i = 0; i < t->group_count; i++) {
                struct glob_group *g = &t->groups[i];
                uint64_t *state = t->scratch;
                if (g->fd < 0)
                        continue;
                g->root = node_new(g, NULL, S(""));
                for (size_t p = 0; p < g->count; p++) {
                        pattern_enter(g->patterns[p], state);
                        state += pattern_words(g->patterns[p]);
                }
                int r = keep_state(g->root, err);
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
                struct glob_node *old = find_child(t, dir, name);
                bool is_match, may_go_on;
                if (old)
                        forget(old);
                if (dir->is_match)
                        return 0;
                judge(dir, name, is_directory, &is_match, &may_go_on);
                if (!is_match && !may_go_on)
                        return 0;

                struct stat st;
                _close_ int fd = node_open(dir, O_PATH);
                if (is_gone(fd)) /* the events of that come later */
                        return 0;
                if (fd < 0 || fstat(fd, &st) < 0)
                        return -ESTALE;
                if (st.st_dev == dir->dev && st.st_ino == dir->ino) {
                        int r = look(dir, fd, name, is_directory ? DT_UNKNOWN : DT_REG, err);
                        return r < 0 ? r : enter_all(t, err);
                }
                /* Another directory is in its place: that is what must be looked at. */
                if (!dir->parent)
                        return -ESTALE;
                memcpy(room, dir->name, dir->name_n + 1);
                name = slice_from(room, dir->name_n);
                dir = dir->parent;
                is_directory = true;
        }
}

bool glob_tree_is_true(const struct glob_tree *t)
{
        struct glob_node *n;
        char room[PATH_MAX];

        list_each (n, (struct list *)&t->matches, match) {
                struct stat st;
                write_path_below(n, room);
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
                _close_ int fd = node_open(n, O_RDONLY);
                /* Readable, and what is in it can be reached? */
                if (fd >= 0 ? faccessat(fd, ".", F_OK, 0) == 0 : fd != -EACCES && fd != -EPERM)
                        return true;
        }
        return false;
}

void glob_tree_release(struct glob_tree *t)
{
        for (size_t i = 0; i < t->group_count; i++) {
                if (t->groups[i].root)
                        forget(t->groups[i].root);
                free(t->groups[i].real);
        }
        glob_tree_close(t);
        map_release(&t->names);
        free(t->scratch);
        free(t->room);
        arena_release(&t->arena);
}
