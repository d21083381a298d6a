/* m_watch: the methods fs/watch, fs/unwatch and fs/watchMissing (docs/PROTOCOL.md).
 *
 * The job of the request takes the first look at the watched path, so that this look keeps its place among the file requests of
 * the connection. After that watch_tree and watch_missing do the work. Requests about the same watch keep their order.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "confine/fs_helpers.h"
#include "core/job.h"
#include "core/server.h"
#include "files/answer.h"
#include "proto/watch.h"
#include "server/methods.h"
#include "server/watches.h"
#include "watch/watch_missing.h"
#include "watch/watch_tree.h"

#include <errno.h>

/* Returns the watcher of the server; the first call makes it. */
static struct watcher *watcher_of(struct server *s, struct err *err)
{
        if (!s->watcher)
                s->watcher = watcher_new(&s->loop, s->pool, err);
        return s->watcher;
}

/* --- fs/watch ----------------------------------------------------------------------------------------------------- */

struct watch_look {
        struct watch_tree *tree;   /* the tree belongs to the client */
        struct watch_first *first; /* NULL when the tree has taken it */
};

static int begin_watch(struct job *job, struct err *err)
{
        const struct fs_watch *in = job->params;
        struct client *c = job->client;
        if (watches_find(c, in->watch_id))
                return err_set(err, RPC_INVALID_REQUEST, -EEXIST, "watch `%.*s` already exists",
                               SLICE(in->watch_id));
        if (watches_get(c)->count >= LIMIT_WATCHES)
                return req_limit(err, "watches of a connection", LIMIT_WATCHES);
        struct watcher *w = watcher_of(job->server, err);
        if (!w)
                return err->code;

        struct watch_look *look = arena_new(&job->arena, struct watch_look);
        look->tree = watch_tree_new(w, c->conn, in->watch_id, in->path, in->is_recursive);
        watches_add(c, look->tree);
        look->first = watch_first_new(w);
        look->first->scan.is_recursive = in->is_recursive;
        look->first->scan.max_dirs = look->first->scan.max_queue = LIMIT_WATCH_DIRECTORIES;
        job->own = look;
        return 0;
}

/* Finds out which paths the sandbox of the request may see. Runs on a thread. *ret is NULL when it may see all. */
static int reach_make(struct job *job, struct watch_reach **ret, struct err *err)
{
        struct watch_reach *l = watch_reach_new();
        struct file_request request = job_file_request(job);
        int r = fs_helpers_reach(&job->server->fs_helpers, &request, &l->arena, &l->reach, err);
        *ret = r == 0 ? l : watch_reach_unref(l);
        return MIN(r, 0);
}

/* Asks an fs helper whether the path may be seen, and where it is. */
static int look_with_fs_helper(struct job *job, struct watch_first *first, struct err *err)
{
        const struct fs_watch *in = job->params;
        const struct file_open how = { .path = in->path, .mode = FS_OPEN_LOOK, .follows = true };
        struct stat st;
        _close_ int fd = -1;
        int r = job_open_file(job, &how, &fd, &st, err);
        first->scan.reach = &first->reach->reach;
        return r < 0 ? r : watch_scan_root_at(&first->scan, fd, err);
}

static int run_watch(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_watch *in = job->params;
        struct watch_look *look = job->own;
        struct watch_first *first = look->first;
        int r = job->sandbox ? reach_make(job, &first->reach, err) : 0;
        if (r == 0 && first->reach)
                r = look_with_fs_helper(job, first, err);
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
                (void)req_limit(&err, "watched directories", LIMIT_WATCH_DIRECTORIES);
        }
        job_fail(job, &err);
}

/* Starts the watch on what the job has found; a job_class::settle. */
static void settle_watch(struct job *job)
{
        struct watch_look *look = job->own;
        bool is_system_full = look->first->scan.is_full;
        int r = job->err ? job->err->code : watch_tree_start(look->tree, TAKE(look->first));
        if (r < 0)
                watches_remove(job->client, look->tree);
        if (r < 0 && !job->err)
                refuse_full(job, is_system_full);
}

static void release_watch(struct job *job)
{
        struct watch_look *look = job->own;
        if (look)
                watch_first_free(look->first);
}

static const struct job_class watch_class = {
        .begin = begin_watch,
        .run = run_watch,
        .settle = settle_watch,
        .release = release_watch,
};

/* --- fs/unwatch: succeeds when there is no such watch, like fs/close ---------------------------------------------- */

static int begin_unwatch(struct job *job, UNUSED struct err *err)
{
        const struct fs_unwatch *in = job->params;
        struct watch_tree *t = watches_find(job->client, in->watch_id);
        if (t)
                watches_remove(job->client, t);
        return 0;
}

static int run_unwatch(UNUSED struct job *job, struct jsonw *w, UNUSED struct err *err)
{
        fs_write_nothing(w);
        return 0;
}

static const struct job_class unwatch_class = {
        .begin = begin_unwatch,
        .run = run_unwatch,
};

/* --- fs/watchMissing ---------------------------------------------------------------------------------------------- */

static int prepare_missing(struct job *job, UNUSED struct err *err)
{
        job->key = S("fs/watchMissing of this connection");
        return 0;
}

struct missing_look {
        struct watcher *watcher;
        struct watch_pass pass;
        struct watch_missing_scan scan;
        bool is_watching, is_over;
};

/* Takes the id of an fs/watchMissing. Each id must be higher than the last, and ends the watch of the last. Returns false when the
 * id is not higher, or when the paths of this request cannot be watched: then the answer says `watching: false`. */
static bool take_missing_id(struct client *c, const struct fs_watch_missing *in)
{
        struct watches *ws = watches_get(c);
        if (ws->has_missing_id && in->watch_id <= ws->missing_id)
                return false;
        ws->has_missing_id = true;
        ws->missing_id = in->watch_id;
        ws->missing = watch_missing_free(ws->missing);
        /* For a request with a sandbox nothing is watched: its profile may hide names on the way to the missing path. */
        return !in->sandbox && in->missing_count > 0 && in->missing_count <= WATCH_MISSING_PATHS &&
               !in->is_foreign;
}

static int begin_missing(struct job *job, struct err *err)
{
        const struct fs_watch_missing *in = job->params;
        if (!take_missing_id(job->client, in))
                return 0;
        struct watcher *w = watcher_of(job->server, err);
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
        struct watches *ws = watches_get(job->client);
        if (!look)
                return;
        look->is_over = true;
        watcher_catch_up(look->watcher);
        if (look->is_watching)
                ws->missing = watch_missing_new(look->watcher, job->client->conn, in->watch_id, &look->scan,
                                                &look->pass);
        else
                watch_missing_discard(look->watcher, &look->scan);
        bool is_whole = watcher_pass_end(look->watcher, &look->pass);
        if (ws->missing && !is_whole)
                watch_missing_fire(ws->missing);
        if (look->is_watching && !ws->missing) {
                struct err err = ERR_INIT;
                (void)req_limit(&err, "watched directories", LIMIT_WATCH_DIRECTORIES);
                job_fail(job, &err);
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
        .prepare = prepare_missing,
        .begin = begin_missing,
        .run = run_missing,
        .settle = settle_missing,
        .release = release_missing,
};

#define WATCH_METHOD(wire_name, type) \
        .name = wire_name, .family = "filesystem", .needs = NEEDS_READY, METHOD_PARAMS(type)

/* clang-format off */
const struct method watch_methods[] = {
        { WATCH_METHOD("fs/watch", fs_watch), METHOD_SANDBOX(fs_watch), METHOD_KEY(KEY_FILE, fs_watch, watch_id),
          .is_exclusive = true, .job = &watch_class },
        { WATCH_METHOD("fs/unwatch", fs_unwatch), METHOD_KEY(KEY_FILE, fs_unwatch, watch_id), .is_exclusive = true,
          .job = &unwatch_class },
        { WATCH_METHOD("fs/watchMissing", fs_watch_missing), METHOD_SANDBOX(fs_watch_missing), .is_exclusive = true,
          .job = &missing_class },
};
/* clang-format on */
const size_t watch_method_count = ARRAY_LEN(watch_methods);
