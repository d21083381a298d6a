/* watch_slice: watches and lists the new directories of a tree, a few hundred at a time, on a thread.
 *
 * A tree has at most one pass under way. Directories that appear meanwhile wait for the next pass, so that many new directories
 * need few passes. A node may be freed or renamed while a pass looks at its directory: then the slot of the node is cleared before
 * the pass is joined.
 */
#include "base/limits.h"
#include "base/mem.h"
#include "conn/conn.h"
#include "watch/watch_tree_internal.h"

#include <errno.h>

#define SLICE_DIRS 256 /* the most directories of one pass */
/* A directory that could not be looked at is tried again after LATER_FIRST_MS. That time doubles with each try, up to
 * LATER_MAX_MS. */
#define LATER_FIRST_MS 1000
#define LATER_MAX_MS 4000

struct watch_slice {
        struct watch_work work;
        struct watch_pass pass;
        struct watch_tree *tree; /* NULL: the tree was freed */
        struct watch_scan scan;
        struct watch_join join;
        struct watch_reach *reach;
        uint64_t renames; /* watch_tree::renames when the pass began */
};

static void run(struct watch_work *work)
{
        struct watch_slice *s = container_of(work, struct watch_slice, work);
        watch_scan_run(&s->scan);
}

/* Called for each renamed directory, with the wd of the directory in which it was renamed during the pass. If the scan has watched
 * that wd, the scan may have looked at the wrong directory. */
static void on_rename(int wd, void *arg)
{
        struct watch_slice *s = arg;
        for (size_t i = 0; i < MIN(s->scan.dir_count, (size_t)SLICE_DIRS); i++)
                if (s->scan.dirs[i].wd == wd)
                        watch_join_mark_doubtful(&s->join, i);
}

static bool is_doubtful(const struct watch_slice *s, const struct watch_node *n)
{
        if (n->is_doubtful)
                return true;
        for (; n; n = n->parent)
                if (n->renamed > s->renames)
                        return true;
        return false;
}

/* Puts directories that were renamed during the pass on the list `pending` again, and does not join them. After too many tries a
 * directory waits on the list `later` for its timer. */
static void repeat_doubtful(struct watch_slice *s)
{
        struct watch_join *j = &s->join;
        watcher_pass_renames(s->tree->watcher, &s->pass, on_rename, s);
        for (size_t i = 0; i < j->input_count; i++) {
                struct watch_node *n = j->slots[i];
                if (!n || !is_doubtful(s, n))
                        continue;
                watch_join_forget(n);
                if (n->tries++ < WATCH_TRIES_MAX) {
                        watch_node_look(n, s->scan.dirs[i].reports);
                } else {
                        n->tries = 0;
                        watch_tree_overflow(s->tree);
                        watch_node_look_later(n, s->scan.dirs[i].reports);
                }
        }
}

static void finish(struct watch_slice *s)
{
        struct watch_tree *t = s->tree;
        repeat_doubtful(s);
        if (watch_join_some(&s->join, SIZE_MAX) < 0)
                watch_tree_overflow(t);
        watch_join_end(&s->join);
        bool is_whole = watcher_pass_end(t->watcher, &s->pass);
        t->slice = NULL;
        if (!is_whole)
                watch_tree_lost(t);
        watch_slice_pump(t);
        watch_tree_changed(t);
}

static void done(struct watch_work *work)
{
        struct watch_slice *s = container_of(work, struct watch_slice, work);
        struct watcher *w = work->watcher;
        watcher_catch_up(w);
        if (s->tree) {
                finish(s);
        } else {
                watch_join_discard(w, &s->scan);
                (void)watcher_pass_end(w, &s->pass); /* the tree was freed, so nothing was joined */
        }
        watch_scan_release(&s->scan);
        s->reach = watch_reach_unref(s->reach);
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

/* Returns the next directory to look at, or NULL. Directories in the middle of a rename are put at the end of the list. There may
 * be many of these, so one pass passes over at most *left, which is counted down. */
static struct watch_node *next_input(struct watch_tree *t, size_t *left)
{
        struct watch_node *n;
        while (*left > 0 && (n = list_first(&t->pending, struct watch_node, pending_link))) {
                if (!watch_node_moving(n))
                        return n;
                (*left)--;
                list_remove(&n->pending_link);
                list_append(&t->pending, &n->pending_link);
        }
        return NULL;
}

/* Tells the client `overflow` a second time, when all directories were scanned again. After the first `overflow` the client may
 * have looked at directories before they were watched again. Later changes there were lost, so the client must look once more. */
static void end_relook(struct watch_tree *t)
{
        if (!t->is_relooking || !t->is_live || t->slice || !list_is_empty(&t->pending))
                return;
        t->is_relooking = false;
        watch_tree_overflow(t);
}

void watch_slice_pump(struct watch_tree *t)
{
        size_t left = SLICE_DIRS;
        struct watch_node *n = t->slice || !t->is_live ? NULL : next_input(t, &left);
        if (!n) {
                end_relook(t);
                return;
        }
        struct watch_slice *s = mem_new(struct watch_slice);
        t->slice = s;
        s->tree = t;
        s->renames = t->renames;
        watch_scan_init(&s->scan, watcher_fd(t->watcher));
        s->scan.is_recursive = t->is_recursive;
        s->scan.is_file = t->file_name != NULL;
        s->reach = watch_reach_ref(t->reach);
        s->scan.reach = t->reach ? &t->reach->reach : NULL;
        s->scan.max_dirs = SLICE_DIRS;
        s->scan.max_queue = LIMIT_WATCH_DIRECTORIES;
        s->scan.max_entries = LIMIT_WATCH_EVENTS;
        watch_join_begin(&s->join, t, &s->scan, &s->pass);
        for (; n && s->scan.dir_count < SLICE_DIRS; n = next_input(t, &left))
                add_input(s, n);
        s->work.run = run;
        s->work.done = done;
        s->work.owner = t->conn;
        watcher_pass_begin(t->watcher, &s->pass);
        watcher_submit(t->watcher, &s->work);
}

/* --- directories that are looked at later ------------------------------------------------------------------------- */

static void on_later(void *arg)
{
        struct watch_tree *t = arg;
        struct watch_node *n;
        t->later_ms = MIN(2 * MAX(t->later_ms, (uint64_t)LATER_FIRST_MS), (uint64_t)LATER_MAX_MS);
        while ((n = list_first(&t->later, struct watch_node, later_link))) {
                list_remove(&n->later_link);
                watch_node_look(n, false); /* watch_node_look_later has set n->reports already */
        }
        watch_slice_pump(t);
}

void watch_node_look_later(struct watch_node *n, bool reports)
{
        struct watch_tree *t = n->tree;
        n->reports |= reports;
        n->is_missed = true;
        if (!t->later_timer)
                t->later_timer = timer_new(t->conn->conns->loop, on_later, t);
        if (list_is_empty(&t->later))
                timer_start(t->later_timer, MAX(t->later_ms, (uint64_t)LATER_FIRST_MS));
        list_remove(&n->later_link);
        list_append(&t->later, &n->later_link);
}
