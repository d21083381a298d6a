/* tree_changes: what the file methods do to a tree in memory.
 *
 * What src/fsop does with descriptors, temporary files and checks is here the change of a pointer. Functions return 0 or -errno
 * as the method would, with -EINVAL for what is refused and -ESTALE for a mismatch of ifMatch. Paths are absolute and clean.
 */
#pragma once

#include "tree_model.h"

/* --- directories -------------------------------------------------------------------------------------------------- */

static int make_all(const char *path, bool follow)
{
        struct slice rest = slice_from_str(path);
        struct node *at = root;
        while (rest.p) {
                struct slice part = slice_split(&rest, '/');
                if (part.n == 0)
                        continue;
                struct node *next = node_child(at, part);
                if (!next) {
                        at = node_make_directory(at, part);
                        continue;
                }
                if (next->kind == NODE_LINK && follow) {
                        struct tree_place p;
                        unsigned links = 0;
                        int r = place_find(at, part, true, &links, &p);
                        if (r == -ENOENT || (r == 0 && !p.node))
                                return -EEXIST; /* a link to nowhere */
                        if (r < 0)
                                return r;
                        next = p.node;
                }
                if (next->kind != NODE_DIRECTORY)
                        return -ENOTDIR;
                at = next;
        }
        return 0;
}

static int model_create_directory(const char *path, bool recursive, bool follow)
{
        struct tree_place p;
        if (is_unnamed(path))
                return recursive ? 0 : -EEXIST;
        int r = parent_find(path, follow, &p);
        if (r == -ENOENT && recursive)
                return make_all(path, follow);
        if (r < 0)
                return r;
        if (!p.node) {
                (void)node_make_directory(p.dir, p.name);
                return 0;
        }
        struct node *there = p.node;
        if (follow && path_get(path, true, &there) < 0)
                return -EEXIST;
        return recursive && there->kind == NODE_DIRECTORY ? 0 : -EEXIST;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

struct model_write {
        struct slice bytes;
        bool follow, is_atomic, create_parents, has_mode;
        unsigned mode;
        enum {
                ANY,
                ABSENT,
                RIGHT,
                WRONG
        } match; /* RIGHT, WRONG: the condition describes the present file, or another */
};

/* Follows a link whose target does not exist yet to the place of the target. */
static int follow_to_nowhere(struct tree_place *at)
{
        char target[256];
        struct slice t = buf_slice(&at->node->bytes);
        must(t.n < sizeof(target));
        memcpy(target, t.p, t.n);
        target[t.n] = '\0';
        if (is_unnamed(target))
                return -ENOENT;
        if (target[t.n - 1] == '/')
                return -EISDIR;
        const char *slash = strrchr(target, '/');
        size_t n = slash ? (size_t)(slash - target) + 1 : 0;
        struct tree_place p;
        unsigned links = 0;
        int r = place_find(at->dir, n > 0 ? slice_from(target, n) : S("."), true, &links, &p);
        if (r == 0 && !p.node)
                r = -ENOENT;
        if (r < 0)
                return r;
        at->dir = p.node;
        at->name = slice_from(t.p + n, t.n - n);
        at->node = node_child(at->dir, at->name);
        return 0;
}

/* Finds the file that a write to this name changes: at->node (NULL: a new file), and whether it was reached through a link. */
static int target_find(struct tree_place *at, bool follow, bool *ret_is_linked)
{
        *ret_is_linked = false;
        for (int i = 0; i < LINKS_MAX; i++) {
                if (!at->node || at->node->kind == NODE_FILE)
                        return 0;
                if (at->node->kind == NODE_DIRECTORY)
                        return -EISDIR;
                if (!follow)
                        return -ELOOP;
                struct tree_place p;
                unsigned links = 0;
                int r = place_find(at->dir, at->name, true, &links, &p);
                if (r < 0 && r != -ENOENT)
                        return r;
                if (r == 0 && p.node) {
                        *ret_is_linked = true;
                        at->node = p.node;
                        return p.node->kind == NODE_FILE ? 0 : -EISDIR;
                }
                r = follow_to_nowhere(at);
                if (r < 0)
                        return r;
        }
        return -ELOOP;
}

/* Gives new content to the file that target_find has found; where the file is replaced, a new node gets it, so that open handles
 * keep the old content. */
static void target_fill(const struct tree_place *at, bool in_place, struct slice bytes, unsigned mode)
{
        struct node *n = at->node;
        if (!n || !in_place) {
                /* a copy: at->name may belong to the old node, which is freed */
                _buf_ struct buf name = BUF_INIT(NODE_NAME_MAX);
                must(buf_append(&name, n ? slice_from_str(n->name) : at->name) == 0);
                struct node *dir = n ? n->parent : at->dir;
                if (n)
                        node_remove(n);
                n = node_new(NODE_FILE, mode);
                node_put(dir, buf_slice(&name), n);
        }
        node_set_bytes(n, bytes);
        n->mode = mode;
}

static int model_write_file(const char *path, const struct model_write *w)
{
        struct tree_place at;
        bool is_linked;
        if (is_unnamed(path))
                return w->follow ? -EISDIR : -EINVAL;
        int r = parent_find(path, w->follow, &at);
        if (r == -ENOENT && (w->match == RIGHT || w->match == WRONG))
                return -ESTALE;
        if (r == -ENOENT && w->create_parents) {
                char parent[256];
                (void)snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
                r = model_create_directory(parent, true, w->follow);
                if (r == 0)
                        r = parent_find(path, w->follow, &at);
        }
        if (r < 0)
                return r;

        struct node *there = NULL;
        bool exists = w->follow ? path_get(path, true, &there) == 0 : at.node != NULL;
        r = target_find(&at, w->follow, &is_linked);
        if (r < 0)
                return w->match == ABSENT && exists ? -ESTALE : r;
        if (w->match == ABSENT ? at.node != NULL : w->match == WRONG || (w->match == RIGHT && !at.node))
                return -ESTALE;
        target_fill(&at, is_linked || !w->is_atomic, w->bytes,
                    at.node       ? at.node->mode
                    : w->has_mode ? w->mode
                                  : 0644);
        return 0;
}

/* Does what fs/open for writing does. */
static int model_open_for_writing(const char *path, bool truncates, struct node **ret)
{
        struct tree_place at;
        int r = path_find(path, true, &at);
        if (r < 0)
                return r;
        if (at.is_slashed || (at.node && at.node->kind == NODE_DIRECTORY))
                return -EISDIR;
        if (!at.node) {
                at.node = node_new(NODE_FILE, 0644);
                node_put(at.dir, at.name, at.node);
        } else if (truncates && at.node->bytes.n > 0) {
                node_set_bytes(at.node, S(""));
        }
        *ret = at.node;
        return 0;
}

/* --- removing and renaming ---------------------------------------------------------------------------------------- */

static int model_remove(const char *path, bool recursive, bool force, bool follow)
{
        struct tree_place p;
        if (!follow && recursive)
                return -EOPNOTSUPP;
        if (is_unnamed(path))
                return !follow || recursive ? -EINVAL : -EBUSY;
        int r = parent_find(path, follow, &p);
        if (r == 0 && !p.node)
                r = -ENOENT;
        if (r < 0)
                return r == -ENOENT && force ? 0 : r;
        if (!follow && p.node->kind == NODE_LINK)
                return -EINVAL;
        if (!recursive && p.node->children)
                return -ENOTEMPTY;
        node_remove(p.node);
        return 0;
}

static int model_rename(const char *from, const char *to, bool replace)
{
        struct tree_place a, b;
        if (is_unnamed(from) || is_unnamed(to))
                return -EBUSY;
        int r = parent_find(from, true, &a);
        if (r == 0)
                r = parent_find(to, true, &b);
        if (r < 0)
                return r;
        if (!a.node)
                return -ENOENT;
        if (b.node && !replace)
                return -EEXIST;
        if (node_is_within(b.dir, a.node))
                return -EINVAL;
        if (b.node && node_is_within(a.dir, b.node))
                return -ENOTEMPTY;
        if (a.node == b.node)
                return 0;
        if (b.node && a.node->kind == NODE_DIRECTORY && b.node->kind != NODE_DIRECTORY)
                return -ENOTDIR;
        if (b.node && a.node->kind != NODE_DIRECTORY && b.node->kind == NODE_DIRECTORY)
                return -EISDIR;
        if (b.node && b.node->children)
                return -ENOTEMPTY;
        if (b.node)
                node_remove(b.node);
        node_take_out(a.node);
        node_put(b.dir, b.name, a.node);
        return 0;
}

static int model_symlink(const char *path, struct slice target)
{
        struct tree_place p;
        if (is_unnamed(path))
                return -EEXIST;
        int r = parent_find(path, true, &p);
        if (r < 0)
                return r;
        if (p.node)
                return -EEXIST;
        struct node *n = node_new(NODE_LINK, 0777);
        node_set_bytes(n, target);
        node_put(p.dir, p.name, n);
        return 0;
}

/* --- copying ------------------------------------------------------------------------------------------------------ */

static bool copy_collides(const struct node *from, const struct node *to)
{
        for (const struct node *n = from->children; n; n = n->next) {
                const struct node *there = node_child(to, slice_from_str(n->name));
                if (!there)
                        continue;
                if (n->kind == NODE_LINK || there->kind != n->kind)
                        return true;
                if (n->kind == NODE_DIRECTORY && copy_collides(n, there))
                        return true;
        }
        return false;
}

static void copy_children(const struct node *from, struct node *to)
{
        for (const struct node *n = from->children; n; n = n->next) {
                struct tree_place at = { .dir = to, .name = slice_from_str(n->name) };
                at.node = node_child(to, at.name);
                if (n->kind == NODE_DIRECTORY) {
                        copy_children(n, at.node ? at.node : node_make_directory(to, at.name));
                } else if (n->kind == NODE_FILE) {
                        target_fill(&at, false, buf_slice(&n->bytes), n->mode);
                } else {
                        struct node *link = node_new(NODE_LINK, 0777);
                        node_set_bytes(link, buf_slice(&n->bytes));
                        node_put(to, at.name, link);
                }
        }
}

/* Is the destination, as far as it exists, inside of the source? */
static int copy_is_into_itself(const struct node *from, const char *to)
{
        char part[256];
        size_t n = (size_t)snprintf(part, sizeof(part), "%s", to);
        for (;;) {
                struct node *near;
                int r = path_get(part, true, &near);
                if (r == 0)
                        return near->kind == NODE_DIRECTORY && node_is_within(near, from);
                if (r != -ENOENT && r != -ENOTDIR)
                        return r;
                while (n > 1 && part[n - 1] == '/')
                        n--;
                while (n > 1 && part[n - 1] != '/')
                        n--;
                part[n] = '\0';
        }
}

/* *ret_is_unsure: the tree after the copy depends on the order in which the kernel lists names; so does the answer when this
 * returns 0. */
static int copy_tree(struct node *from, const char *to, bool *ret_is_unsure)
{
        struct node *into;
        int r = copy_is_into_itself(from, to);
        if (r != 0)
                return r < 0 ? r : -EINVAL;
        r = model_create_directory(to, true, true);
        if (r < 0)
                return r;
        must(path_get(to, true, &into) == 0);
        bool is_nested = node_is_within(from, into), collides = copy_collides(from, into);
        *ret_is_unsure = is_nested || collides;
        if (*ret_is_unsure)
                return is_nested ? 0 : -EEXIST;
        copy_children(from, into);
        return 0;
}

static int model_copy(const char *from, const char *to, bool recursive, bool *ret_is_unsure)
{
        struct tree_place source = { .dir = root, .node = root }, at;
        bool is_linked;
        *ret_is_unsure = false;
        int r = is_unnamed(from) ? 0 : parent_find(from, true, &source);
        if (r == 0 && !source.node)
                r = -ENOENT;
        if (r < 0)
                return r;
        struct node *n = source.node;
        if (n->kind == NODE_LINK) {
                _buf_ struct buf target = BUF_INIT(NODE_BYTES_MAX);
                must(buf_append(&target, buf_slice(&n->bytes)) == 0);
                return model_symlink(to, buf_slice(&target));
        }
        if (n->kind == NODE_DIRECTORY)
                return recursive ? copy_tree(n, to, ret_is_unsure) : -EINVAL;

        if (is_unnamed(to))
                return -EISDIR;
        r = parent_find(to, true, &at);
        if (r == 0)
                r = target_find(&at, true, &is_linked);
        if (r < 0)
                return r;
        if (at.node != n)
                target_fill(&at, is_linked, buf_slice(&n->bytes), n->mode);
        return 0;
}
