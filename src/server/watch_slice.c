/* watch_slice: looks at the new directories of a watch, a few hundred at a time, on a thread.
 *
 * One pass of a watch is under way at most; what appears meanwhile waits for the next, so that many new directories
 * cost few passes. The nodes that a pass looks at may go or move while it runs: each has a slot that forgets it.
 */
#include "base/limits.h"
#include "base/mem.h"
#include "server/watch_tree_internal.h"

#include <errno.h>

#define SLICE_DIRS 256

struct watch_slice {
        struct watch_work work;
        struct watch_pass pass;
        struct watch_tree *tree; /* NULL: abandoned */
        struct watch_scan scan;
        struct watch_join join;
        struct watch_law *law;
        uint64_t renames; /* of the tree, when it began */
};

static void run(struct watch_work *work)
{
        struct watch_slice *s = container_of(work, struct watch_slice, work);
        watch_scan_run(&s->scan);
}

/* Directories were renamed while we looked: at which ones, nobody knows. */
static bool must_repeat(const struct watch_slice *s)
{
        const struct watch_tree *t = s->tree;
        if (t->renames == s->renames)
                return false;
        for (size_t i = 0; i < s->join.input_count; i++)
                if (s->join.slots[i] && s->join.slots[i]->tries++ >= WATCH_TRIES_MAX)
                        return false;
        return true;
}

static void repeat(struct watch_slice *s)
{
        for (size_t i = 0; i < s->join.input_count; i++)
                if (s->join.slots[i])
                        watch_node_look(s->join.slots[i], s->scan.dirs[i].reports);
}

static void finish(struct watch_slice *s)
{
        struct watch_tree *t = s->tree;
        struct watcher *w = t->watcher;
        struct watch_join *j = &s->join;
        bool must_look_again = false;
        if (must_repeat(s)) {
                watch_join_discard(w, &s->scan, 0);
                repeat(s);
        } else {
                must_look_again = t->renames != s->renames;
                if (watch_join_some(j, SIZE_MAX) < 0)
                        watch_tree_overflow(t);
        }
        watch_join_end(j);
        must_look_again |= !watcher_pass_end(w, &s->pass);
        t->slice = NULL;
        if (must_look_again)
                watch_tree_lost(t);
        watch_tree_changed(t);
        watch_slice_pump(t);
}

static void done(struct watch_work *work)
{
        struct watch_slice *s = container_of(work, struct watch_slice, work);
        struct watcher *w = work->watcher;
        watcher_catch_up(w);
        if (s->tree) {
                finish(s);
        } else {
                watch_join_discard(w, &s->scan, 0);
                (void)watcher_pass_end(w, &s->pass); /* nobody has joined */
        }
        watch_scan_release(&s->scan);
        s->law = watch_law_unref(s->law);
        free(s);
}

void watch_slice_abandon(struct watch_tree *t)
{
        t->slice->tree = NULL;
        watch_join_end(&t->slice->join);
        t->slice = NULL;
}

static void add_input(struct watch_slice *s, struct watch_node *n)
{
        struct watch_tree *t = s->tree;
        _buf_ struct buf path = BUF_INIT(SIZE_MAX / 4);
        list_remove(&n->pending_link);
        watch_node_path(n, strcmp(t->root_path, "/") == 0 ? "" : t->root_path, S(""), &path);
        watch_scan_add(&s->scan, path.p, n->reports);
        s->scan.dirs[s->scan.dir_count - 1].follows = n == t->root;
        n->reports = false;
        watch_join_input(&s->join, n);
}

void watch_slice_pump(struct watch_tree *t)
{
        if (t->slice || !t->is_live || list_is_empty(&t->pending))
                return;
        struct watch_slice *s = mem_new(struct watch_slice);
        t->slice = s;
        s->tree = t;
        s->renames = t->renames;
        watch_scan_init(&s->scan, watcher_fd(t->watcher));
        s->scan.is_recursive = t->is_recursive;
        s->scan.is_file = t->file_name != NULL;
        s->law = watch_law_ref(t->law);
        s->scan.law = t->law ? &t->law->law : NULL;
        s->scan.max_dirs = SLICE_DIRS;
        s->scan.max_queue = LIMIT_WATCH_DIRECTORIES;
        s->scan.max_entries = LIMIT_WATCH_EVENTS;
        watch_join_begin(&s->join, t, &s->scan, &s->pass);
        struct watch_node *n;
        while (s->scan.dir_count < SLICE_DIRS &&
               (n = list_first(&t->pending, struct watch_node, pending_link)))
                add_input(s, n);
        s->work.run = run;
        s->work.done = done;
        s->work.owner = t->conn;
        watcher_pass_begin(t->watcher, &s->pass);
        watcher_submit(t->watcher, &s->work);
}
