/* node: makes, finds, matches and removes nodes, and opens the directory of a node.
 *
 * A directory that waits to be read is kept by name, without a descriptor. It is opened from the descriptor of its prefix,
 * by a path in which no component may be a link; a directory that was replaced meanwhile is not found.
 */
#include "glob/node_internal.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_TRIES 16 /* openat2 returns EAGAIN when a component was renamed meanwhile */

int glob_node_fail(struct err *err, int code, const struct glob_node *node, const char *what)
{
        err->step = "glob scan";
        err->os_errno = -code;
        return err_set(err, 0, code, "glob scan of %.*s: %s: %s", SLICE(node->group->prefix), what,
                       errno_text(code));
}

static struct slice key_of(const struct glob_node *n)
{
        return slice_from(&n->parent, sizeof(n->parent) + n->name_n);
}

struct glob_node *glob_node_find_child(struct glob_tree *t, const struct glob_node *parent, struct slice name)
{
        char key[sizeof(parent) + NAME_MAX];
        if (name.n > NAME_MAX)
                return NULL;
        memcpy(key, &parent, sizeof(parent));
        memcpy(key + sizeof(parent), name.p, name.n);
        return map_find(&t->names, slice_from(key, sizeof(parent) + name.n));
}

struct glob_node *glob_node_new(struct glob_group *g, struct glob_node *parent, struct slice name)
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
        t->link_count -= n->is_symlink;
        t->is_changed = true;
}

/* Frees a node, which has no children. */
static void node_free(struct glob_node *n)
{
        struct glob_tree *t = n->group->tree;

        unmatch(n);
        list_remove(&n->wait);
        list_remove(&n->sibling);
        if (t->listener)
                t->listener->on_leave(t->listener->arg, n);
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

/* Removes all nodes below `top`; without recursion, because the file system decides how deep the tree is. */
void glob_node_forget_children(struct glob_node *top)
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

void glob_node_forget(struct glob_node *n)
{
        glob_node_forget_children(n);
        node_free(n);
}

int glob_node_make_match(struct glob_node *n, struct err *err)
{
        struct glob_tree *t = n->group->tree;

        size_t count = n->is_symlink ? t->link_count : t->match_count - t->link_count;
        if (count == GLOB_MATCHES_MAX && n->is_symlink)
                return glob_refuse_count(err, n->group->prefix);
        if (count == GLOB_MATCHES_MAX) {
                t->is_overfull = true;
                glob_node_forget(n);
                return 0;
        }
        n->is_match = true;
        list_append(&t->matches, &n->match);
        t->match_count++;
        t->link_count += n->is_symlink;
        t->is_changed = true;
        return 0;
}

int glob_node_keep_state(struct glob_node *n, struct err *err)
{
        struct glob_tree *t = n->group->tree;
        size_t bytes = n->group->words * sizeof(*n->state);

        if (t->directory_count == GLOB_DIRECTORIES_MAX)
                return glob_node_fail(err, -E2BIG, n, "too many directories");
        if (n->parent && memcmp(n->parent->state, t->scratch, bytes) == 0) {
                n->state = n->parent->state;
        } else {
                if (bytes > GLOB_STATE_BYTES_MAX - t->state_bytes)
                        return glob_node_fail(err, -E2BIG, n, "patterns too long for so many directories");
                t->state_bytes += bytes;
                n->state = mem_alloc(bytes);
                memcpy(n->state, t->scratch, bytes);
        }
        t->directory_count++;
        list_prepend(&t->waiting, &n->wait);
        return 0;
}

/* ---- Paths and opening */

void glob_node_write_path(const struct glob_node *n, char room[static PATH_MAX])
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

/* Opens a path without openat2: component by component, and none of them may be a link. */
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

int glob_node_open(const struct glob_node *n, int flags)
{
        static atomic_bool lacks_openat2;
        char room[PATH_MAX];
        int fd = n->group->fd;

        if (!n->parent && flags == O_PATH) { /* opening "." would need the permission to search the prefix */
                fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
                return fd < 0 ? -errno : fd;
        }
        glob_node_write_path(n, room);
        flags |= O_DIRECTORY | O_CLOEXEC;
        int r = atomic_load_explicit(&lacks_openat2, memory_order_relaxed) ? -ENOSYS
                                                                           : open_beneath(fd, room, flags);
        if (r == -ENOSYS)
                atomic_store_explicit(&lacks_openat2, true, memory_order_relaxed);
        return r == -ENOSYS || r == -EPERM ? open_by_steps(fd, room, flags) : r;
}
