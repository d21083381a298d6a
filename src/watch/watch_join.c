/* watch_join: makes nodes of the directories that a pass found, and joins their wds.
 *
 * A pass gives a list of directories, parents before children; each has a slot for its node. A node may be freed while the pass
 * runs or while the list is joined: then the slot of the node is cleared.
 */
#include "base/limits.h"
#include "base/mem.h"
#include "watch/watch_tree_internal.h"

#include <errno.h>

void watch_join_begin(struct watch_join *j, struct watch_tree *t, const struct watch_scan *scan,
                      struct watch_pass *pass)
{
        *j = (struct watch_join){ .tree = t, .scan = scan, .pass = pass };
        must(!t->join);
        t->join = j;
}

static void put_slot(struct watch_join *j, size_t i, struct watch_node *n)
{
        j->slots[i] = n;
        n->slot = (uint32_t)i + 1;
}

static void make_slots(struct watch_join *j, size_t count)
{
        if (count <= j->slot_count)
                return;
        j->slots = mem_realloc(j->slots, count * sizeof(*j->slots));
        memset(j->slots + j->slot_count, 0, (count - j->slot_count) * sizeof(*j->slots));
        j->slot_count = count;
}

void watch_join_input(struct watch_join *j, struct watch_node *n)
{
        if (j->input_count == j->slot_count)
                make_slots(j, MAX(2 * j->slot_count, (size_t)16));
        put_slot(j, j->input_count++, n);
        n->is_doubtful = false;
}

void watch_join_forget(struct watch_node *n)
{
        if (n->slot)
                n->tree->join->slots[n->slot - 1] = NULL;
        n->slot = 0;
}

void watch_join_mark_doubtful(struct watch_join *j, size_t i)
{
        while (i >= j->input_count)
                i = j->scan->dirs[i].parent;
        if (j->slots[i])
                j->slots[i]->is_doubtful = true;
}

void watch_join_end(struct watch_join *j)
{
        for (size_t i = 0; i < j->slot_count; i++)
                if (j->slots[i])
                        j->slots[i]->slot = 0;
        free(TAKE(j->slots));
        j->tree->join = NULL;
}

void watch_join_discard(struct watcher *w, const struct watch_scan *scan)
{
        for (size_t i = 0; i < scan->dir_count; i++)
                watcher_give_back(w, scan->dirs[i].wd);
}

/* Finds or makes the node of a directory that the scan found in another directory, and gives it a slot. Does nothing when the other
 * directory is gone or could not be listed. Returns 0, or -ENOSPC when the tree has too many nodes. */
static int find_or_make_node(struct watch_join *j, size_t i)
{
        struct watch_tree *t = j->tree;
        const struct watch_scan_dir *dir = &j->scan->dirs[i];
        struct watch_node *parent = j->slots[dir->parent];
        struct slice name = slice_from_str(dir->name);
        if (!parent || j->scan->dirs[dir->parent].error < 0)
                return 0;
        struct watch_node *n = watch_node_find(t, parent, name);
        if (!n && t->node_count >= LIMIT_WATCH_DIRECTORIES)
                return -ENOSPC;
        if (!n)
                n = watch_node_new(t, parent, name);
        if (n->slot == 0)
                put_slot(j, i, n);
        return 0;
}

/* Handles a directory that did not exist when the scan looked. Events will say whether the directory was removed or renamed, so the
 * scan tries again; after too many tries an event must have been lost. */
static void handle_missing_dir(struct watch_node *n, bool reports)
{
        struct watch_tree *t = n->tree;
        if (n == t->root) {
                watch_tree_root_gone(t);
        } else if (n->tries++ < WATCH_TRIES_MAX) {
                watch_node_look(n, reports);
        } else {
                watch_tree_overflow(t);
                watch_node_look_later(n->parent, false);
                watch_node_free(n);
        }
}

/* Handles a directory that could not be watched or listed. */
static void handle_failed_dir(struct watch_node *n, const struct watch_scan_dir *dir)
{
        struct watch_tree *t = n->tree;
        int r = dir->error;
        bool is_refused = r == -EACCES || r == -EPERM;
        if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
                handle_missing_dir(n, dir->reports);
                return;
        }
        if (is_refused && !t->reach && watch_listener_wd(&n->listener) >= 0)
                return; /* the directory is still watched as before */
        if (!is_refused && !n->is_missed)
                watch_tree_overflow(t);
        if (n != t->root && (is_refused || r == -ENAMETOOLONG)) {
                watch_node_free(n); /* another try would fail in the same way */
                return;
        }
        watch_node_look_later(n, dir->reports);
}

/* Gives the node of one directory the watch (wd) that the scan made for the directory. Returns 0, or -ENOSPC when a limit of the watcher
 * is met. */
static int join_dir(struct watch_join *j, struct watch_node *n, const struct watch_scan_dir *dir)
{
        struct watcher *w = j->tree->watcher;
        if (dir->error < 0) {
                watcher_give_back(w, dir->wd);
                handle_failed_dir(n, dir);
                return 0;
        }
        /* A directory that is watched already joins anew too: so it gets the events of the pass once more, after the names that the
         * scan found in it. Otherwise a name that was removed during the scan would get a node that no event takes away. */
        watcher_leave(w, &n->listener);
        if (watcher_join(w, &n->listener, dir->wd, j->pass) < 0) {
                if (n == j->tree->root)
                        watch_tree_root_gone(j->tree);
                else
                        watch_node_free(n);
                return -ENOSPC;
        }
        if (n->is_missed) {
                /* The client may have looked at the directory before it was watched, so the client must look again. */
                watch_tree_overflow(j->tree);
                j->tree->later_ms = 0;
        }
        n->tries = 0;
        n->is_missed = false;
        return 0;
}

static int join_next(struct watch_join *j)
{
        size_t i = j->next++;
        const struct watch_scan_dir *dir = &j->scan->dirs[i];
        int r = i >= j->input_count ? find_or_make_node(j, i) : 0;
        struct watch_node *n = j->slots[i];
        if (!n)
                watcher_give_back(j->tree->watcher, dir->wd);
        else if (!dir->is_done && j->scan->is_full)
                watch_node_look_later(n, dir->reports);
        else if (!dir->is_done)
                watch_node_look(n, dir->reports);
        else
                r = join_dir(j, n, dir);
        return r;
}

int watch_join_some(struct watch_join *j, size_t count)
{
        const struct watch_scan *scan = j->scan;
        int r = scan->is_cut || scan->is_full ? -ENOSPC : 0;
        make_slots(j, scan->dir_count);
        for (; j->next < scan->dir_count && count > 0; count--)
                if (join_next(j) < 0)
                        r = -ENOSPC;
        if (j->next < scan->dir_count)
                return r < 0 ? r : 1;
        for (size_t i = 0; i < scan->entry_count; i++) {
                const struct watch_scan_entry *e = &scan->entries[i];
                struct watch_node *n = scan->dirs[e->dir].error == 0 ? j->slots[e->dir] : NULL;
                if (n)
                        watch_node_add_change(n, WATCH_CREATED, slice_from_str(e->name));
        }
        return r;
}
