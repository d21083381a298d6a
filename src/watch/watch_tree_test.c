/* watch_tree_test: what a watch knows after changes that fall between a scan and its join. The tests decide the order: the loop of
 * the watch turns only when a test lets it. */
#include "watch/watch_tree.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "conn/conn.h"
#include "unit.h"
#include "watch/watch_tree_internal.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define GUARD_MS 60000 /* a test that takes longer fails */

struct rig {
        char root[64], outside[64];
        struct loop loop;
        struct timer *guard;
        struct pool *pool;
        struct watcher *watcher;
        struct conns conns;
        struct conn conn;
        struct watch_tree *tree;
};

static void on_guard(UNUSED void *arg)
{
        fail_msg("the watch did not get where it should");
}

/* Returns the path of `name` below `top`. That text is valid until the second call after this one. */
static const char *at(const char *top, const char *name)
{
        static char paths[2][PATH_MAX];
        static unsigned next;
        char *path = paths[next++ % 2];
        (void)snprintf(path, PATH_MAX, "%s/%s", top, name);
        return path;
}

static void make_dir(struct rig *rig, const char *name)
{
        eq_int(mkdir(at(rig->root, name), 0700), 0);
}

static void make_temp(char path[64])
{
        (void)snprintf(path, 64, "/tmp/fh-watch-XXXXXX");
        ok(mkdtemp(path) != NULL);
}

static void rig_open(struct rig *rig)
{
        struct err err = ERR_INIT;
        *rig = (struct rig){ 0 };
        make_temp(rig->root);
        make_temp(rig->outside);
        eq_int(loop_init(&rig->loop, &err), 0);
        rig->guard = timer_new(&rig->loop, on_guard, NULL);
        timer_start(rig->guard, GUARD_MS);
        eq_int(pool_new(&rig->loop, 1, &rig->pool, &err), 0); /* one thread, so that work runs in order */
        rig->watcher = watcher_new(&rig->loop, rig->pool, &err);
        ok(rig->watcher != NULL);
        rig->conns.loop = &rig->loop;
        rig->conn.conns = &rig->conns;
        rig->conn.blocks = BLOCK_OUTPUT; /* nothing is sent: the changes stay in the batch */
}

/* Begins the watch. The test has made the files before that the first pass shall find. */
static void rig_watch(struct rig *rig)
{
        struct err err = ERR_INIT;
        struct watch_first *first = watch_first_new(rig->watcher);
        first->scan.is_recursive = true;
        first->scan.max_dirs = first->scan.max_queue = LIMIT_WATCH_DIRECTORIES;
        eq_int(watch_scan_root(&first->scan, rig->root, &err), 0);
        rig->tree = watch_tree_new(rig->watcher, &rig->conn, S("w"), slice_from_str(rig->root), true);
        eq_int(watch_tree_start(rig->tree, first), 0);
}

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int type, UNUSED struct FTW *ftw)
{
        return remove(path);
}

static void rig_close(struct rig *rig)
{
        rig->tree = watch_tree_free(rig->tree);
        rig->watcher = watcher_free(rig->watcher);
        ok(pool_free(rig->pool, GUARD_MS));
        rig->guard = timer_free(rig->guard);
        loop_release(&rig->loop);
        ok(nftw(rig->root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
        ok(nftw(rig->outside, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

/* Work that says when it runs. The pool has one thread, so all work that was submitted before is done then. */
struct marker {
        struct work work;
        sem_t sem;
};

static void marker_run(struct work *w)
{
        sem_post(&container_of(w, struct marker, work)->sem);
}

static void marker_done(UNUSED struct work *w)
{
}

/* Waits until the scan under way has ended. Its pass is joined in a later turn. */
static void wait_scanned(struct rig *rig)
{
        static struct marker marker;
        ok(rig->tree->slice != NULL);
        marker = (struct marker){ .work = { .run = marker_run, .done = marker_done } };
        list_init(&marker.work.link);
        eq_int(sem_init(&marker.sem, 0, 0), 0);
        pool_submit(rig->pool, &marker.work);
        while (sem_wait(&marker.sem) < 0)
                ;
}

/* Reads the events that are queued, and lets all passes end. */
static void settle(struct rig *rig)
{
        const struct watch_tree *t = rig->tree;
        watcher_catch_up(rig->watcher);
        while (t->slice || !list_is_empty(&t->pending) || !list_is_empty(&t->later) ||
               !list_is_empty(&t->moving))
                loop_turn(&rig->loop, true);
}

/* Returns whether the client was told to look again since the last call. */
static bool is_told(struct rig *rig)
{
        bool has_overflowed = rig->tree->batch.has_overflowed;
        rig->tree->batch.has_overflowed = false;
        return has_overflowed;
}

static void make_file(const char *top, const char *name)
{
        _close_ int fd = open(at(top, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        ok(fd >= 0);
}

/* Makes a file in directory `name` of the root. Returns whether the client is told of that file. */
static bool is_watched(struct rig *rig, const char *name)
{
        char file[64];
        (void)snprintf(file, sizeof(file), "%s/proof", name);
        make_file(rig->root, file);
        settle(rig);
        const struct watch_change *c =
                map_find(&rig->tree->batch.latest, slice_from_str(at(rig->root, file)));
        return c && c->kind == WATCH_CREATED;
}

TEST(a_directory_that_is_made_anew_while_all_is_looked_at_again_is_watched)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "d");
        rig_watch(&rig);
        watch_tree_lost(rig.tree);
        wait_scanned(&rig);
        eq_int(rmdir(at(rig.root, "d")), 0);
        make_dir(&rig, "d");
        settle(&rig);
        ok(is_told(&rig));
        ok(is_watched(&rig, "d"));
        rig_close(&rig);
}

TEST(a_directory_that_somebody_holds_open_when_it_is_removed_leaves_no_node)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "d");
        rig_watch(&rig);
        int fd = open(at(rig.root, "d"), O_PATH | O_CLOEXEC);
        ok(fd >= 0);
        watch_tree_lost(rig.tree);
        wait_scanned(&rig);
        eq_int(rmdir(at(rig.root, "d")), 0);
        settle(&rig);
        eq_u64(rig.tree->node_count, 1);
        make_dir(&rig, "d");
        settle(&rig);
        fd_close(fd);
        settle(&rig);
        ok(is_watched(&rig, "d"));
        rig_close(&rig);
}

TEST(a_directory_that_lost_its_watch_is_told_before_and_after)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "d");
        rig_watch(&rig);
        const struct watch_node *d = watch_node_find(rig.tree, rig.tree->root, S("d"));
        eq_int(inotify_rm_watch(watcher_fd(rig.watcher), watch_listener_wd(&d->listener)), 0);
        watcher_catch_up(rig.watcher);
        ok(is_told(&rig));
        wait_scanned(&rig);
        settle(&rig);
        ok(is_told(&rig));
        ok(is_watched(&rig, "d"));
        rig_close(&rig);
}

TEST(a_directory_that_no_event_explains_is_told_before_and_after_its_parent_is_looked_at)
{
        struct rig rig;
        rig_open(&rig);
        rig_watch(&rig);
        watch_node_add(rig.tree->root, S("never"));
        watch_slice_pump(rig.tree);
        while (list_is_empty(&rig.tree->later))
                loop_turn(&rig.loop, true);
        ok(is_told(&rig));
        settle(&rig);
        ok(is_told(&rig));
        eq_u64(rig.tree->node_count, 1);
        rig_close(&rig);
}

TEST(all_that_is_looked_at_again_is_told_only_when_nothing_is_left_to_look_at)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "d");
        rig_watch(&rig);
        watch_tree_lost(rig.tree);
        ok(is_told(&rig));
        wait_scanned(&rig);
        make_dir(&rig, "e"); /* the new directory waits for the next pass */
        watcher_catch_up(rig.watcher);
        while (rig.tree->node_count < 3 || rig.tree->is_relooking)
                loop_turn(&rig.loop, true);
        ok(list_is_empty(&rig.tree->pending) && is_told(&rig));
        rig_close(&rig);
}

/* --- exchanges ---------------------------------------------------------------------------------------------------- */

static void exchange(const char *one, const char *other)
{
        if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) < 0) {
                print_message("skipped: no RENAME_EXCHANGE\n");
                skip();
        }
}

TEST(an_exchange_is_told_although_one_of_the_two_is_renamed_at_once)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "a");
        make_dir(&rig, "b");
        rig_watch(&rig);
        exchange(at(rig.root, "a"), at(rig.root, "b"));
        eq_int(rename(at(rig.root, "b"), at(rig.root, "c")),
               0); /* the events of this rename look as if "a" had been renamed back */
        settle(&rig);
        ok(is_told(&rig));
        ok(is_watched(&rig, "a"));
        ok(is_watched(&rig, "c"));
        rig_close(&rig);
}

TEST(an_exchange_with_a_directory_outside_is_told_or_seen)
{
        for (int i = 0; i < 2; i++) {
                struct rig rig;
                rig_open(&rig);
                make_dir(&rig, "d");
                eq_int(mkdir(at(rig.outside, "o"), 0700), 0);
                rig_watch(&rig);
                const char *in = at(rig.root, "d"), *out = at(rig.outside, "o");
                exchange(i ? in : out, i ? out : in);
                settle(&rig);
                ok(is_told(&rig) == (i == 0));
                ok(is_watched(&rig, "d"));
                rig_close(&rig);
        }
}

/* Moves a file from outside over a file of the root, or exchanges the two files; then renames the file that is in the root now, if
 * `is_renamed`. Returns whether the client was told to look again. */
static bool is_told_of_files(bool is_exchange, bool is_renamed)
{
        struct rig rig;
        rig_open(&rig);
        make_file(rig.root, "f");
        make_file(rig.outside, "o");
        rig_watch(&rig);
        if (is_exchange)
                exchange(at(rig.outside, "o"), at(rig.root, "f"));
        else
                eq_int(rename(at(rig.outside, "o"), at(rig.root, "f")), 0);
        if (is_renamed)
                eq_int(rename(at(rig.root, "f"), at(rig.root, "g")), 0);
        settle(&rig);
        while (list_is_linked(&rig.tree->sink.dirty_link))
                loop_turn(&rig.loop, true);
        bool told = is_told(&rig);
        rig_close(&rig);
        return told;
}

TEST(an_exchange_with_a_file_outside_is_told_and_other_renames_are_not)
{
        ok(is_told_of_files(true, false));
        ok(!is_told_of_files(false, true));
        ok(!is_told_of_files(false, false));
}
