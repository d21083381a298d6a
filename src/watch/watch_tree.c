/* watch_tree: turns the events of the directories of one fs/watch into changes, and sends the changes. */
#include "watch/watch_tree.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "conn/conn.h"
#include "watch/watch_tree_internal.h"

#include <errno.h>
#include <limits.h>

/* How long the first half of a rename waits for the second. */
#define HALF_MS 8

/* --- handling events ---------------------------------------------------------------------------------------------- */

void watch_tree_changed(struct watch_tree *t)
{
        if (t->is_live && !watch_batch_is_empty(&t->batch))
                watcher_mark_dirty(t->watcher, &t->sink);
}

void watch_node_add_change(struct watch_node *n, enum watch_kind kind, struct slice name)
{
        _buf_ struct buf path = BUF_INIT(SIZE_MAX / 4);
        watch_node_path(n, n->tree->path, name, &path);
        watch_batch_add(&n->tree->batch, kind, buf_slice(&path));
}

/* Called when events were lost: looks at all directories again, also at the root, which may have been removed, and tells the client
 * to look as well. */
void watch_tree_lost(struct watch_tree *t)
{
        struct watch_node *n;
        watch_batch_overflow(&t->batch);
        watch_rename_end_all(t);
        t->is_relooking = true;
        for (size_t pos = 0; (n = map_next(&t->children, &pos));) {
                /* With a reach, the directory may have been moved to where the client must not see its events. */
                if (t->reach && n != t->root)
                        watcher_leave(t->watcher, &n->listener);
                watch_node_look(n, false);
        }
        watch_tree_changed(t);
        watch_slice_pump(t);
}

/* Called when a part of the tree cannot be watched: tells the client. Looking at the tree again would not help. */
void watch_tree_overflow(struct watch_tree *t)
{
        watch_batch_overflow(&t->batch);
        watch_tree_changed(t);
}

static void on_lost(struct watch_sink *sink)
{
        watch_tree_lost(container_of(sink, struct watch_tree, sink));
}

/* Called when the watched path itself was removed or renamed: tells the client. The watch reports nothing more. */
void watch_tree_root_gone(struct watch_tree *t)
{
        struct slice path = slice_from_str(t->path[0] ? t->path : "/");
        watch_batch_add(&t->batch, WATCH_REMOVED, path);
        watch_node_free(t->root);
}

static void on_self(struct watch_node *n, uint32_t mask)
{
        struct watch_tree *t = n->tree;
        bool is_root = n == t->root;
        if (mask & (IN_DELETE_SELF | IN_UNMOUNT))
                n->is_gone = true;
        if (is_root && (n->is_gone || (mask & IN_MOVE_SELF))) {
                watch_tree_root_gone(t);
                return;
        }
        if (is_root && (mask & IN_ATTRIB) && !t->file_name)
                watch_node_add_change(n, WATCH_MODIFIED, S(""));
        if (!(mask & IN_IGNORED))
                return;
        watcher_leave(t->watcher, &n->listener);
        if (n->is_gone) {
                watch_node_free(n);
                return;
        }
        /* The watcher ended this wd as unused just before it was joined. The directory is watched again. */
        n->is_missed = true;
        watch_node_look(n, false);
        watch_tree_overflow(t);
}

static void on_file(struct watch_node *n, const struct watch_event *ev)
{
        struct watch_tree *t = n->tree;
        struct slice path = slice_from_str(t->path);
        if (!slice_eq(ev->name, slice_from_str(t->file_name)))
                return;
        if (ev->mask & (IN_CREATE | IN_MOVED_TO))
                watch_batch_add(&t->batch, WATCH_CREATED, path);
        else if (ev->mask & (IN_DELETE | IN_MOVED_FROM))
                watch_batch_add(&t->batch, WATCH_REMOVED, path);
        else if (ev->mask & (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB))
                watch_batch_add(&t->batch, WATCH_MODIFIED, path);
}

void watch_node_add(struct watch_node *parent, struct slice name)
{
        struct watch_tree *t = parent->tree;
        if (t->node_count < LIMIT_WATCH_DIRECTORIES)
                watch_node_look(watch_node_new(t, parent, name), true);
        else
                watch_tree_overflow(t);
}

static void on_name(struct watch_node *parent, const struct watch_event *ev)
{
        _buf_ struct buf path = BUF_INIT(SIZE_MAX / 4);
        struct watch_tree *t = parent->tree;
        struct watch_batch *b = &t->batch;
        watch_node_path(parent, t->path, ev->name, &path);
        struct slice p = buf_slice(&path);
        bool is_dir = (ev->mask & IN_ISDIR) && t->is_recursive;
        struct watch_node *n = is_dir ? watch_node_find(t, parent, ev->name) : NULL;
        if (ev->mask & (IN_CREATE | IN_DELETE))
                parent->last_cookie = 0;
        if (ev->mask & IN_CREATE) {
                watch_batch_add(b, WATCH_CREATED, p);
                if (is_dir && !n)
                        watch_node_add(parent, ev->name);
        } else if (ev->mask & IN_DELETE) {
                if (is_dir)
                        watch_batch_stop_merging(b); /* paths below `p` may mean something else from now on */
                watch_batch_add(b, WATCH_REMOVED, p);
                if (n)
                        watch_node_free(n);
        } else if (ev->mask & IN_MOVED_FROM) {
                watch_rename_from(parent, ev, p, is_dir);
        } else if (ev->mask & IN_MOVED_TO) {
                watch_rename_to(parent, ev, p, is_dir);
        } else if (ev->mask & (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB)) {
                watch_batch_add(b, WATCH_MODIFIED, p);
        }
}

void watch_node_on_event(struct watch_listener *l, const struct watch_event *ev)
{
        struct watch_node *n = container_of(l, struct watch_node, listener);
        struct watch_tree *t = n->tree;
        struct watch_node *moving = watch_node_moving(n);
        if (moving)
                watch_node_free(
                        moving); /* the second half of the rename, if it comes, makes a new directory */
        else if (ev->name.n == 0)
                on_self(n, ev->mask);
        else if (t->file_name)
                on_file(n, ev);
        else
                on_name(n, ev);
        watch_tree_changed(t);
        watch_slice_pump(t);
}

/* --- sending changes ---------------------------------------------------------------------------------------------- */

/* Returns whether sending must wait a little for the second half of a rename. New first halves do not make that time longer. */
static bool must_wait(struct watch_tree *t)
{
        uint64_t now = clock_mono_ms();
        if (!watch_batch_has_young_half(&t->batch, now, HALF_MS))
                return false;
        if (t->held_since_ms == 0)
                t->held_since_ms = now;
        return now - t->held_since_ms < HALF_MS;
}

static bool on_flush(struct watch_sink *sink)
{
        struct watch_tree *t = container_of(sink, struct watch_tree, sink);
        if (must_wait(t))
                return false;
        t->held_since_ms = 0;
        watch_rename_settle(t); /* directories whose second half did not come count as removed */
        watch_slice_pump(t);
        /* While the client does not read, the batch collects the changes, up to its limit; watch_tree_on_room sends them. */
        if (t->is_live && conn_wants_output(t->conn))
                watch_batch_send(&t->batch, t->conn, t->id);
        return true;
}

/* --- making and freeing a watch ----------------------------------------------------------------------------------- */

struct watch_tree *watch_tree_new(struct watcher *w, struct conn *c, struct slice id, struct slice path,
                                  bool is_recursive)
{
        struct watch_tree *t = mem_new(struct watch_tree);
        while (path.n > 0 && path.p[path.n - 1] == '/')
                path.n--;
        t->watcher = w;
        t->conn = c;
        t->id = slice_dup(id);
        t->path = slice_dup(path);
        t->is_recursive = is_recursive;
        t->sink.on_lost = on_lost;
        t->sink.on_flush = on_flush;
        list_init(&t->link);
        list_init(&t->pending);
        list_init(&t->moving);
        list_init(&t->later);
        map_init(&t->children);
        watch_batch_init(&t->batch);
        watcher_add_sink(w, &t->sink);
        return t;
}

struct watch_tree *watch_tree_free(struct watch_tree *t)
{
        if (!t)
                return NULL;
        if (t->slice)
                watch_slice_abandon(t);
        watch_rename_end_all(t);
        if (t->root)
                watch_node_free(t->root);
        t->first = watch_first_free(t->first);
        t->later_timer = timer_free(t->later_timer);
        list_remove(&t->link);
        watcher_remove_sink(t->watcher, &t->sink);
        watch_batch_release(&t->batch);
        map_release(&t->children);
        free(t->id);
        free(t->path);
        free(t->root_path);
        t->reach = watch_reach_unref(t->reach);
        free(t->file_name);
        free(t);
        return NULL;
}

void watch_tree_on_room(struct watch_tree *t)
{
        watch_tree_changed(t);
}
