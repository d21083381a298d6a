/* tree_model: a tree of files, directories and links in memory, and the resolution of paths in it. tree_changes.h has the changes
 * that file methods make. */
#pragma once

#include "base/buf.h"
#include "base/mem.h"

#include <errno.h>

#define NODE_BYTES_MAX (4 * 1024 * 1024)
#define NODE_NAME_MAX 16
#define LINKS_MAX 40 /* the kernel's limit on links in a path */

enum node_kind { NODE_FILE, NODE_DIRECTORY, NODE_LINK };

struct node {
        enum node_kind kind;
        unsigned refs;                /* one for its place in the tree, and one for each open handle */
        struct node *parent;          /* the root is its own parent */
        struct node *children, *next; /* sorted by bytes */
        char name[NODE_NAME_MAX];
        struct buf bytes; /* content, or where the link points */
        unsigned mode;
        bool has_modified; /* a request has set the time of the file, and nothing has changed it since */
        int64_t modified_ms;
};

static struct node *root;
static size_t node_count, node_bytes; /* of the whole tree */

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static struct node *node_new(enum node_kind kind, unsigned mode)
{
        struct node *n = mem_new(struct node);
        n->kind = kind;
        n->refs = 1;
        n->parent = n;
        n->mode = mode;
        buf_init(&n->bytes, NODE_BYTES_MAX);
        node_count++;
        return n;
}

static void node_unref(struct node *n)
{
        if (--n->refs > 0)
                return;
        must(!n->children);
        node_count--;
        node_bytes -= n->bytes.n;
        buf_release(&n->bytes);
        free(n);
}

static void node_set_bytes(struct node *n, struct slice bytes)
{
        node_bytes -= n->bytes.n;
        buf_truncate(&n->bytes, 0);
        must(buf_append(&n->bytes, bytes) == 0);
        node_bytes += n->bytes.n;
        n->has_modified = false;
}

static void node_write_at(struct node *n, uint64_t offset, struct slice bytes)
{
        char *room;
        size_t before = n->bytes.n, end = (size_t)offset + bytes.n;
        if (end > before) {
                must(buf_reserve(&n->bytes, end - before, &room) == 0);
                memset(room, 0, end - before);
                buf_commit(&n->bytes, end - before);
        }
        memcpy(n->bytes.p + offset, bytes.p, bytes.n);
        node_bytes += n->bytes.n - before;
        n->has_modified = false;
}

static struct node *node_child(const struct node *dir, struct slice name)
{
        for (struct node *n = dir->children; n; n = n->next)
                if (slice_eq(slice_from_str(n->name), name))
                        return n;
        return NULL;
}

static void node_put(struct node *dir, struct slice name, struct node *n)
{
        must(dir->kind == NODE_DIRECTORY && name.n > 0 && name.n < NODE_NAME_MAX && !node_child(dir, name));
        memset(n->name, 0, sizeof(n->name));
        memcpy(n->name, name.p, name.n);
        n->parent = dir;
        struct node **at = &dir->children;
        while (*at && strcmp((*at)->name, n->name) < 0)
                at = &(*at)->next;
        n->next = *at;
        *at = n;
}

static void node_take_out(struct node *n)
{
        struct node **at = &n->parent->children;
        while (*at != n)
                at = &(*at)->next;
        *at = n->next;
        n->next = NULL;
}

/* Removes the node and everything below it from the tree. */
static void node_remove(struct node *n)
{
        while (n->children)
                node_remove(n->children);
        if (n != root)
                node_take_out(n);
        node_unref(n);
}

static struct node *node_make_directory(struct node *dir, struct slice name)
{
        struct node *n = node_new(NODE_DIRECTORY, 0755 | (dir->mode & 02000));
        node_put(dir, name, n);
        return n;
}

static bool node_is_within(const struct node *n, const struct node *dir)
{
        for (; n != dir; n = n->parent)
                if (n == root)
                        return false;
        return true;
}

static size_t node_size_of_tree(const struct node *n)
{
        size_t count = 1;
        for (const struct node *c = n->children; c; c = c->next)
                count += node_size_of_tree(c);
        return count;
}

/* --- paths -------------------------------------------------------------------------------------------------------- */

/* Where a path leads. */
struct tree_place {
        struct node *dir;
        struct slice name; /* p == NULL: the path ends in a dot or is the root */
        struct node *node; /* NULL: there is none of that name */
        bool is_slashed;   /* a slash follows the last name, which asks for a directory */
};

static bool is_slashes(struct slice s)
{
        while (s.n > 0 && s.p[0] == '/')
                s = slice_from(s.p + 1, s.n - 1);
        return s.n == 0;
}

/* Resolves a path as the kernel does; the last name may be missing. */
static int place_find(struct node *from, struct slice path, bool follow, unsigned *links,
                      struct tree_place *ret)
{
        struct node *at = path.n > 0 && path.p[0] == '/' ? root : from;
        struct slice rest = path;
        *ret = (struct tree_place){ .dir = at, .node = at };
        while (rest.p) {
                struct slice part = slice_split(&rest, '/');
                if (part.n == 0)
                        continue;
                bool is_last = !rest.p || is_slashes(rest), is_slashed = rest.p != NULL;
                bool is_dot = slice_eq(part, S(".")), is_up = slice_eq(part, S(".."));
                struct node *next = is_dot ? at : is_up ? at->parent : node_child(at, part);
                *ret = (struct tree_place){ at, is_dot || is_up ? (struct slice){ 0 } : part, next, false };
                if (next && next->kind == NODE_LINK && (follow || is_slashed)) {
                        if ((*links)++ >= LINKS_MAX)
                                return -ELOOP;
                        int r = place_find(at, buf_slice(&next->bytes), true, links, ret);
                        if (r < 0)
                                return r;
                        next = ret->node;
                }
                ret->is_slashed = ret->is_slashed || (is_last && is_slashed);
                if (is_last && !is_slashed)
                        return 0;
                if (!next)
                        return is_last ? 0 : -ENOENT;
                if (next->kind != NODE_DIRECTORY)
                        return -ENOTDIR;
                at = next;
                if (is_last)
                        return 0;
        }
        return 0;
}

/* Resolves a path from the root. Without `follow` no component but the last may be a link. */
static int path_find(const char *path, bool follow, struct tree_place *ret)
{
        unsigned links = 0;
        if (follow)
                return place_find(root, slice_from_str(path), true, &links, ret);
        struct slice rest = slice_from_str(path);
        *ret = (struct tree_place){ .dir = root, .node = root };
        while (rest.p) {
                struct slice part = slice_split(&rest, '/');
                if (part.n == 0)
                        continue;
                if (!ret->node)
                        return -ENOENT;
                if (ret->node->kind != NODE_DIRECTORY)
                        return -ENOTDIR;
                *ret = (struct tree_place){ ret->node, part, node_child(ret->node, part), false };
        }
        return 0;
}

/* As path_find, for a path that must exist. */
static int path_get(const char *path, bool follow, struct node **ret)
{
        struct tree_place p;
        int r = path_find(path, follow, &p);
        if (r == 0 && !p.node)
                r = -ENOENT;
        if (r == 0)
                *ret = p.node;
        return r;
}

static bool is_unnamed(const char *path)
{
        struct slice s = slice_from_str(path);
        while (s.n > 0 && s.p[s.n - 1] == '/')
                s.n--;
        size_t start = s.n;
        while (start > 0 && s.p[start - 1] != '/')
                start--;
        struct slice name = slice_from(s.p + start, s.n - start);
        return name.n == 0 || slice_eq(name, S(".")) || slice_eq(name, S(".."));
}

/* Finds the directory that holds, or would hold, the last name. ret->node is the node of the name itself. */
static int parent_find(const char *path, bool follow, struct tree_place *ret)
{
        const char *slash = strrchr(path, '/');
        char parent[256];
        struct node *dir = NULL;
        size_t n = (size_t)(slash - path);
        must(n + 1 < sizeof(parent));
        memcpy(parent, path, n);
        parent[n] = '\0';
        if (follow)
                parent[n] = '/', parent[n + 1] = '\0';
        int r = n == 0 ? 0 : path_get(parent, follow, &dir);
        if (n == 0)
                dir = root;
        if (r < 0)
                return r;
        if (dir->kind != NODE_DIRECTORY)
                return -ENOTDIR;
        *ret = (struct tree_place){ .dir = dir, .name = slice_from_str(slash + 1) };
        ret->node = node_child(dir, ret->name);
        return 0;
}
