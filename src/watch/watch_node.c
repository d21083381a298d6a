/* watch_node: the tree of watched directories of one fs/watch: names and paths, not events. */
#include "base/mem.h"
#include "watch/watch_tree_internal.h"

static struct slice node_key(const struct watch_node *n)
{
        return slice_from(n->key, sizeof(uint64_t) + n->name_n);
}

static char *make_key(const struct watch_node *parent, struct slice name)
{
        char *key = mem_alloc(sizeof(uint64_t) + name.n + 1);
        uint64_t id = parent ? parent->id : 0;
        memcpy(key, &id, sizeof(id));
        if (name.n > 0)
                memcpy(key + sizeof(id), name.p, name.n);
        key[sizeof(id) + name.n] = 0;
        return key;
}

struct watch_node *watch_node_find(const struct watch_tree *t, const struct watch_node *parent,
                                   struct slice name)
{
        _free_ char *key = make_key(parent, name);
        return map_find(&t->children, slice_from(key, sizeof(uint64_t) + name.n));
}

struct watch_node *watch_node_new(struct watch_tree *t, struct watch_node *parent, struct slice name)
{
        struct watch_node *n = mem_new(struct watch_node);
        n->tree = t;
        n->id = ++t->next_node_id;
        n->parent = parent;
        n->name_n = name.n;
        n->key = make_key(parent, name);
        n->listener.on_event = watch_node_on_event;
        list_init(&n->listener.link);
        list_init(&n->listener.fresh_link);
        list_init(&n->children);
        list_init(&n->sibling);
        list_init(&n->pending_link);
        list_init(&n->moving_link);
        list_init(&n->later_link);
        if (parent)
                list_append(&parent->children, &n->sibling);
        map_put(&t->children, node_key(n), n);
        t->node_count++;
        return n;
}

void watch_node_unmap(struct watch_node *n)
{
        if (map_find(&n->tree->children, node_key(n)) == n)
                (void)map_remove(&n->tree->children, node_key(n));
}

static void free_one(struct watch_node *n)
{
        struct watch_tree *t = n->tree;
        watcher_leave(t->watcher, &n->listener);
        watch_node_unmap(n);
        list_remove(&n->sibling);
        list_remove(&n->pending_link);
        list_remove(&n->moving_link);
        list_remove(&n->later_link);
        watch_join_forget(n);
        if (t->root == n)
                t->root = NULL;
        t->node_count--;
        free(n->key);
        free(n);
}

/* Frees a node and all nodes below it, the deepest first, and without recursion, because a tree may be deeper than the stack. */
void watch_node_free(struct watch_node *top)
{
        struct watch_node *n = top;
        for (;;) {
                struct watch_node *child = list_first(&n->children, struct watch_node, sibling);
                if (child) {
                        n = child;
                        continue;
                }
                struct watch_node *parent = n->parent;
                bool is_top = n == top;
                free_one(n);
                if (is_top)
                        return;
                n = parent;
        }
}

void watch_node_move(struct watch_node *n, struct watch_node *parent, struct slice name)
{
        watch_node_unmap(n);
        list_remove(&n->sibling);
        free(n->key);
        n->key = make_key(parent, name);
        n->name_n = name.n;
        n->parent = parent;
        list_append(&parent->children, &n->sibling);
        map_put(&n->tree->children, node_key(n), n);
}

struct watch_node *watch_node_moving(struct watch_node *n)
{
        if (list_is_empty(&n->tree->moving))
                return NULL;
        for (; n; n = n->parent)
                if (list_is_linked(&n->moving_link))
                        return n;
        return NULL;
}

void watch_node_look(struct watch_node *n, bool reports)
{
        n->reports |= reports;
        if (!list_is_linked(&n->pending_link))
                list_append(&n->tree->pending, &n->pending_link);
}

void watch_node_path(const struct watch_node *n, const char *root_path, struct slice name, struct buf *ret)
{
        size_t len = name.n > 0 ? name.n + 1 : 0;
        for (const struct watch_node *i = n; i->parent; i = i->parent)
                len += 1 + i->name_n;
        char *room;
        struct slice root = slice_from_str(root_path);
        must(buf_reserve(ret, root.n + len + 1, &room) == 0);
        char *at = room + root.n + len;
        if (name.n > 0) {
                at -= name.n;
                memcpy(at, name.p, name.n);
                *--at = '/';
        }
        for (; n->parent; n = n->parent) {
                at -= n->name_n;
                memcpy(at, n->key + sizeof(uint64_t), n->name_n);
                *--at = '/';
        }
        memcpy(room, root.p, root.n);
        if (root.n + len == 0)
                room[len++] = '/'; /* the path is "/" itself, whose root_path is "" */
        buf_commit(ret, root.n + len);
}
