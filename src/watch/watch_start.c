/* watch_start: begins a watch: joins the directories that its first pass found.
 *
 * The kernel watches all these directories already, and events are kept until the pass ends, so the client can be answered before
 * everything is joined. A large tree is joined in steps, so that other clients do not have to wait.
 */
#include "base/mem.h"
#include "conn/conn.h"
#include "watch/watch_tree_internal.h"

#include <errno.h>

#define STEP_DIRS 1024 /* how many directories are joined in one turn */

struct watch_first *watch_first_new(struct watcher *w)
{
        struct watch_first *f = mem_new(struct watch_first);
        f->watcher = w;
        watch_scan_init(&f->scan, watcher_fd(w));
        watcher_pass_begin(w, &f->pass);
        return f;
}

struct watch_first *watch_first_free(struct watch_first *f)
{
        if (!f)
                return NULL;
        watch_join_discard(f->watcher, &f->scan);
        if (f->join.tree)
                watch_join_end(&f->join);
        if (list_is_linked(&f->pass.link))
                (void)watcher_pass_end(f->watcher, &f->pass); /* no listener is left */
        f->timer = timer_free(f->timer);
        watch_scan_release(&f->scan);
        f->reach = watch_reach_unref(f->reach);
        free(f);
        return NULL;
}

static void go_live(struct watch_tree *t)
{
        struct watch_first *f = TAKE(t->first);
        watch_join_end(&f->join);
        f->join.tree = NULL;
        uint64_t renames = t->renames;
        bool is_whole = watcher_pass_end(t->watcher, &f->pass);
        is_whole &= t->renames == renames; /* after a rename the scan may have looked at another directory */
        watch_first_free(f);
        t->is_live = true;
        if (!is_whole)
                watch_tree_lost(t);
        watch_tree_changed(t);
        watch_slice_pump(t);
}

static void on_step(void *arg)
{
        struct watch_tree *t = arg;
        int r = watch_join_some(&t->first->join, STEP_DIRS);
        if (r < 0)
                watch_tree_overflow(t); /* other watches have used up the limit meanwhile */
        if (t->first->join.next < t->first->scan.dir_count)
                timer_start(t->first->timer, 0);
        else
                go_live(t);
}

int watch_tree_start(struct watch_tree *t, struct watch_first *f)
{
        const struct watch_scan *scan = &f->scan;
        t->first = f;
        t->root_path = mem_strdup(scan->dirs[0].name);
        t->reach = watch_reach_ref(f->reach);
        t->file_name = mem_strdup(scan->file_name);
        if (t->file_name)
                t->is_recursive = false;
        t->root = watch_node_new(t, NULL, S(""));
        watcher_catch_up(t->watcher);
        watch_join_begin(&f->join, t, scan, &f->pass);
        watch_join_input(&f->join, t->root);
        if (!scan->is_cut && !scan->is_full && scan->dir_count > STEP_DIRS &&
            watcher_has_room(t->watcher, scan->dir_count)) {
                f->timer = timer_new(t->conn->conns->loop, on_step, t);
                timer_start(f->timer, 0);
                return 0;
        }
        int r = watch_join_some(&f->join, SIZE_MAX);
        if (r == 0)
                go_live(t);
        return r;
}
