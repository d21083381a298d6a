/* m_watch: fs/watch, fs/unwatch (EXTENSIONS.md "Files") and fs/watchMissing (PROTOCOL.md 9.3).
 *
 * The first look at what is to be watched is the request's own work, so that it keeps its place among the file requests
 * of its connection; everything later is the business of watch_tree and watch_missing. Requests about the same watch keep
 * their order.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "proto/watch.h"
#include "server/filers.h"
#include "server/fs_internal.h"
#include "server/job.h"
#include "server/methods.h"
#include "server/watch_missing.h"
#include "server/watch_tree.h"
#include "server/watches.h"

#include <errno.h>

static void fail_job(struct job *job, const struct err *err)
{
        job->err = arena_alloc(&job->arena, sizeof(*err));
        *job->err = *err;
}

/* --- fs/watch ----------------------------------------------------------------------------------------------------- */

struct watch_look {
        struct watch_tree *tree;   /* belongs to the connection */
        struct watch_first *first; /* NULL when the tree has taken it */
};

static int begin_watch(struct job *job, struct err *err)
{
        const struct fs_watch *in = job->params;
        struct conn *c = job->conn;
        if (watches_find(c, in->watch_id))
                return err_set(err, RPC_INVALID_REQUEST, -EEXIST, "watch `%.*s` already exists",
                               SLICE(in->watch_id));
        if (watches_get(c)->count >= LIMIT_WATCHES)
                return dispatch_limit(err, "watches of a connection", LIMIT_WATCHES);
        struct watcher *w = watcher_get(job->server, err);
        if (!w)
                return err->code;

        struct watch_look *look = arena_new(&job->arena, struct watch_look);
        look->tree = watch_tree_new(w, c, in->watch_id, in->path, in->is_recursive);
        watches_add(c, look->tree);
        look->first = watch_first_new(w);
        look->first->scan.is_recursive = in->is_recursive;
        look->first->scan.max_dirs = look->first->scan.max_queue = LIMIT_WATCH_DIRECTORIES;
        job->own = look;
        return 0;
}

/* A filer says whether it may be seen, and where it is. */
static int look_in_box(struct job *job, struct watch_first *first, struct err *err)
{
        const struct fs_watch *in = job->params;
        const struct filer_open how = { .path = in->path, .mode = FS_OPEN_LOOK, .follow = true };
        struct stat st;
        _close_ int fd = -1;
        int r = fs_open_file(job, &how, &fd, &st, err);
        first->scan.law = &first->law->law;
        return r < 0 ? r : watch_scan_root_at(&first->scan, fd, err);
}

static int run_watch(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_watch *in = job->params;
        struct watch_look *look = job->own;
        struct watch_first *first = look->first;
        int r = job->box ? watch_law_make(job, &first->law, err) : 0;
        if (r == 0 && first->law)
                r = look_in_box(job, first, err);
        else if (r == 0)
                r = watch_scan_root(&first->scan, in->path.p, err);
        if (r == 0)
                fs_write_nothing(w);
        return r;
}

static void refuse_full(struct job *job, bool is_system_full)
{
        struct err err = ERR_INIT;
        if (is_system_full) {
                err_set(&err, RPC_LIMIT, -ENOSPC, "the system gives no more inotify watches");
                err.limit = "fs.inotify.max_user_watches";
                err.os_errno = ENOSPC;
                err.remedy = "Raise fs.inotify.max_user_watches, or watch less.";
        } else {
                (void)dispatch_limit(&err, "watched directories", LIMIT_WATCH_DIRECTORIES);
        }
        fail_job(job, &err);
}

static void settle_watch(struct job *job)
{
        struct watch_look *look = job->own;
        bool is_system_full = look->first->scan.is_full;
        int r = job->err ? job->err->code : watch_tree_start(look->tree, TAKE(look->first));
        if (r < 0)
                watches_remove(job->conn, look->tree);
        if (r < 0 && !job->err)
                refuse_full(job, is_system_full);
}

static void release_watch(struct job *job)
{
        struct watch_look *look = job->own;
        if (look)
                watch_first_free(look->first);
}

static int prepare_watch(struct job *job, UNUSED struct err *err)
{
        const struct fs_watch *in = job->params;
        job->key = in->watch_id;
        job->is_exclusive = true;
        return 0;
}

static const struct job_class watch_class = {
        .opens_boxed = true,
        .prepare = prepare_watch,
        .begin = begin_watch,
        .run = run_watch,
        .settle = settle_watch,
        .release = release_watch,
};

/* --- fs/unwatch: like fs/close, it is content when there is none -------------------------------------------------- */

static int prepare_unwatch(struct job *job, UNUSED struct err *err)
{
        const struct fs_unwatch *in = job->params;
        job->key = in->watch_id;
        job->is_exclusive = true;
        return 0;
}

static int begin_unwatch(struct job *job, UNUSED struct err *err)
{
        const struct fs_unwatch *in = job->params;
        struct watch_tree *t = watches_find(job->conn, in->watch_id);
        if (t)
                watches_remove(job->conn, t);
        return 0;
}

static int run_unwatch(UNUSED struct job *job, struct jsonw *w, UNUSED struct err *err)
{
        fs_write_nothing(w);
        return 0;
}

static const struct job_class unwatch_class = {
        .prepare = prepare_unwatch,
        .begin = begin_unwatch,
        .run = run_unwatch,
};

/* --- fs/watchMissing ---------------------------------------------------------------------------------------------- */

static int prepare_missing(struct job *job, UNUSED struct err *err)
{
        job->key = S("fs/watchMissing of this connection");
        job->is_exclusive = true;
        return 0;
}

struct missing_look {
        struct watcher *watcher;
        struct watch_pass pass;
        struct watch_missing_scan scan;
        bool is_watching, is_over;
};

/* An id that was used, by whatever kind of request, is spent; a higher one ends the watch before it. */
static bool is_worth_a_look(struct conn *c, const struct fs_watch_missing *in)
{
        struct watches *ws = watches_get(c);
        if (ws->has_missing_id && in->watch_id <= ws->missing_id)
                return false;
        ws->has_missing_id = true;
        ws->missing_id = in->watch_id;
        ws->missing = watch_missing_free(ws->missing);
        /* Names on the way to what is missing may be none of the profile's business: the client looks itself. */
        return !in->box && in->missing_count > 0 && in->missing_count <= WATCH_MISSING_PATHS &&
               !in->is_foreign;
}

static int begin_missing(struct job *job, struct err *err)
{
        const struct fs_watch_missing *in = job->params;
        if (!is_worth_a_look(job->conn, in))
                return 0;
        struct watcher *w = watcher_get(job->server, err);
        if (!w)
                return err->code;
        struct missing_look *look = mem_new(struct missing_look);
        look->watcher = w;
        watch_missing_scan_init(&look->scan, watcher_fd(w));
        watcher_pass_begin(w, &look->pass);
        job->own = look;
        return 0;
}

static int run_missing(struct job *job, struct jsonw *w, UNUSED struct err *err)
{
        const struct fs_watch_missing *in = job->params;
        struct missing_look *look = job->own;
        if (look) {
                look->is_watching = !in->present.p || watch_missing_scan_present(&look->scan, in->present.p);
                for (size_t i = 0; i < in->missing_count && look->is_watching; i++)
                        look->is_watching = watch_missing_scan_missing(&look->scan, in->missing[i].p);
        }
        jsonw_object(w);
        jsonw_member_bool(w, "watching", look && look->is_watching);
        jsonw_object_end(w);
        return 0;
}

static void settle_missing(struct job *job)
{
        const struct fs_watch_missing *in = job->params;
        struct missing_look *look = job->own;
        struct watches *ws = watches_get(job->conn);
        if (!look)
                return;
        look->is_over = true;
        watcher_catch_up(look->watcher);
        if (look->is_watching)
                ws->missing =
                        watch_missing_new(look->watcher, job->conn, in->watch_id, &look->scan, &look->pass);
        else
                watch_missing_discard(look->watcher, &look->scan);
        bool is_whole = watcher_pass_end(look->watcher, &look->pass);
        if (ws->missing && !is_whole)
                watch_missing_fire(ws->missing);
        if (look->is_watching && !ws->missing) {
                struct err err = ERR_INIT;
                (void)dispatch_limit(&err, "watched directories", LIMIT_WATCH_DIRECTORIES);
                fail_job(job, &err);
        }
}

static void release_missing(struct job *job)
{
        struct missing_look *look = job->own;
        if (!look)
                return;
        if (!look->is_over) {
                watch_missing_discard(look->watcher, &look->scan);
                (void)watcher_pass_end(look->watcher, &look->pass);
        }
        watch_missing_scan_release(&look->scan);
        free(look);
}

static const struct job_class missing_class = {
        .opens_boxed = true,
        .prepare = prepare_missing,
        .begin = begin_missing,
        .run = run_missing,
        .settle = settle_missing,
        .release = release_missing,
};

const struct method m_fs_watch = { FS_METHOD("fs/watch", fs_watch), .job = &watch_class };
const struct method m_fs_unwatch = { FS_METHOD("fs/unwatch", fs_unwatch), .job = &unwatch_class };
const struct method m_fs_watch_missing = { FS_METHOD("fs/watchMissing", fs_watch_missing),
                                           .job = &missing_class };
