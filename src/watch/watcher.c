/* watcher: reads inotify events, gives them to listeners, keeps them for passes, and ends unused watches. */
#include "watch/watcher.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/rpc.h"

#include <errno.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define READ_BYTES (64 * KIB)
/* How long changes are collected. The protocol promises 50 ms; the rest is a reserve for a late turn of the loop. */
#define FLUSH_MS 40
#define RETRY_MS 8 /* how long until on_flush is called again after it returned false */
/* How many scans of passes after the first run at once, in all and for one owner, so that scans that hang on a dead file system do
 * not take the whole pool. */
#define WORK_MAX 16
#define WORK_PER_OWNER 4
/* How many unused watches are ended in one turn. A pass under way delays their end: they are looked at again after IDLE_RETRY_MS,
 * until they have been unused for IDLE_GRACE_MS. */
#define IDLE_AT_ONCE 256
#define IDLE_RETRY_MS 20
#define IDLE_GRACE_MS 5000

struct watch_wd {
        int wd;
        struct list listeners;  /* watch_listener::link */
        struct list idle_link;  /* watcher::idle, when the wd has no listener */
        uint64_t idle_since_ms; /* since when the wd has no listener */
};

struct watcher {
        struct pool *pool;
        int fd;
        struct watch *watch;
        struct timer *flush_timer;
        char *room;     /* READ_BYTES bytes into which events are read */
        struct map wds; /* watch_wd by number */
        size_t listener_count;
        struct watch_listener *next; /* the listener that gets the present event next */

        uint64_t seq; /* number of the last event */
        struct watch_kept kept;
        struct list passes; /* watch_pass::link */

        struct list sinks; /* watch_sink::link */
        struct list dirty; /* watch_sink::dirty_link */
        bool is_flush_timer_on;

        struct list idle; /* watch_wd::idle_link */
        struct timer *idle_timer;
        bool is_idle_timer_on;

        struct list waiting, running; /* watch_work::link */
};

static struct slice wd_key(const int *wd)
{
        return slice_from(wd, sizeof(*wd));
}

/* --- listeners ---------------------------------------------------------------------------------------------------- */

/* Returns the next listener of the same wd, or NULL. */
static struct watch_listener *listener_after(const struct watch_listener *l)
{
        struct list *next = l->link.next;
        return next == &l->wd->listeners ? NULL : list_entry(next, struct watch_listener, link);
}

static void drop_wd(struct watcher *w, struct watch_wd *entry)
{
        (void)inotify_rm_watch(w->fd, entry->wd); /* fails when the kernel has ended the watch already */
        (void)map_remove(&w->wds, wd_key(&entry->wd));
        list_remove(&entry->idle_link);
        free(entry);
}

static void start_idle_timer(struct watcher *w, uint64_t ms)
{
        w->is_idle_timer_on = true;
        timer_start(w->idle_timer, ms);
}

/* Ends unused watches, some at a time. While a pass is under way unused watches are kept for a while, because the pass may be about
 * to join one of them. */
static void on_idle_timer(void *arg)
{
        struct watcher *w = arg;
        struct watch_wd *entry;
        uint64_t now = clock_mono_ms();
        w->is_idle_timer_on = false;
        for (int i = 0; i < IDLE_AT_ONCE && (entry = list_first(&w->idle, struct watch_wd, idle_link)); i++) {
                if (!list_is_empty(&w->passes) && now - entry->idle_since_ms < IDLE_GRACE_MS) {
                        start_idle_timer(w, IDLE_RETRY_MS);
                        return;
                }
                drop_wd(w, entry);
        }
        if (!list_is_empty(&w->idle))
                start_idle_timer(w, 1);
}

static struct watch_wd *add_wd(struct watcher *w, int wd)
{
        struct watch_wd *entry = mem_new(struct watch_wd);
        entry->wd = wd;
        list_init(&entry->listeners);
        list_init(&entry->idle_link);
        map_put(&w->wds, wd_key(&entry->wd), entry);
        return entry;
}

static void make_idle(struct watcher *w, struct watch_wd *entry)
{
        entry->idle_since_ms = clock_mono_ms();
        list_append(&w->idle, &entry->idle_link);
        if (!w->is_idle_timer_on)
                start_idle_timer(w, 0);
}

int watcher_join(struct watcher *w, struct watch_listener *l, int wd, struct watch_pass *pass)
{
        must(!l->wd);
        struct watch_wd *entry = map_find(&w->wds, wd_key(&wd));
        struct watch_wd *idle;
        while (!entry && map_count(&w->wds) >= LIMIT_WATCH_DIRECTORIES &&
               (idle = list_first(&w->idle, struct watch_wd, idle_link)))
                drop_wd(w, idle);
        bool is_full = !entry && map_count(&w->wds) >= LIMIT_WATCH_DIRECTORIES;
        if (is_full || w->listener_count >= LIMIT_WATCH_LISTENERS) {
                watcher_give_back(w, wd);
                return -ENOSPC;
        }
        if (!entry)
                entry = add_wd(w, wd);
        l->wd = entry;
        list_remove(&entry->idle_link);
        list_append(&entry->listeners, &l->link);
        list_append(&pass->fresh, &l->fresh_link);
        l->pass = pass;
        w->listener_count++;
        return 0;
}

void watcher_leave(struct watcher *w, struct watch_listener *l)
{
        struct watch_wd *entry = l->wd;
        if (!entry)
                return;
        if (w->next == l)
                w->next = listener_after(l);
        list_remove(&l->link);
        list_remove(&l->fresh_link);
        l->pass = NULL;
        l->wd = NULL;
        w->listener_count--;
        if (list_is_empty(&entry->listeners))
                make_idle(w, entry);
}

void watcher_give_back(struct watcher *w, int wd)
{
        if (wd >= 0 && !map_find(&w->wds, wd_key(&wd)))
                make_idle(w, add_wd(w, wd));
}

bool watcher_has_room(const struct watcher *w, size_t count)
{
        return map_count(&w->wds) + count <= LIMIT_WATCH_DIRECTORIES &&
               w->listener_count + count <= LIMIT_WATCH_LISTENERS;
}

int watch_listener_wd(const struct watch_listener *l)
{
        return l->wd ? l->wd->wd : -1;
}

int watcher_fd(const struct watcher *w)
{
        return w->fd;
}

/* Gives an event to the listeners of `wd` that joined in `pass`, or, when `pass` is NULL, to those whose pass has ended. A listener
 * may leave while it handles the event, and make other listeners leave: so w->next holds the next one. */
static void tell(struct watcher *w, int wd, const struct watch_event *ev, const struct watch_pass *pass)
{
        struct watch_wd *entry = map_find(&w->wds, wd_key(&wd));
        struct watch_listener *l = entry ? list_first(&entry->listeners, struct watch_listener, link) : NULL;
        for (; l; l = w->next) {
                w->next = listener_after(l);
                if (l->pass == pass)
                        l->on_event(l, ev);
        }
}

/* --- reading events ----------------------------------------------------------------------------------------------- */

static void on_lost(struct watcher *w)
{
        log_debug("inotify queue overflowed", "wds=%zu", map_count(&w->wds));
        w->kept.lost_seq = w->seq;
        struct watch_sink *sink;
        list_each (sink, &w->sinks, link) {
                sink->on_lost(sink);
        }
}

static void on_event(struct watcher *w, const struct inotify_event *raw)
{
        w->seq++;
        if (raw->mask & IN_Q_OVERFLOW) {
                on_lost(w);
                return;
        }
        struct watch_event ev = { .mask = raw->mask,
                                  .cookie = raw->cookie,
                                  .name = slice_from(raw->name,
                                                     raw->len ? strnlen(raw->name, raw->len) : 0) };
        if (!list_is_empty(&w->passes))
                watch_kept_add(&w->kept, w->seq, raw->wd, &ev);
        tell(w, raw->wd, &ev, NULL);
        struct watch_wd *entry = raw->mask & IN_IGNORED ? map_find(&w->wds, wd_key(&raw->wd)) : NULL;
        if (entry && list_is_empty(&entry->listeners))
                drop_wd(w, entry);
}

/* Reads only the events that are queued now: to read also those that arrive meanwhile might never end. */
void watcher_catch_up(struct watcher *w)
{
        int queued = 0;
        if (ioctl(w->fd, FIONREAD, &queued) < 0)
                return;
        while (queued > 0) {
                ssize_t n = read(w->fd, w->room, READ_BYTES);
                if (n <= 0)
                        return; /* EAGAIN: nothing is queued any more */
                queued -= (int)n;
                for (ssize_t at = 0; at < n;) {
                        const struct inotify_event *raw = (const void *)(w->room + at);
                        at += (ssize_t)(sizeof(*raw) + raw->len);
                        on_event(w, raw);
                }
        }
}

static void on_readable(void *arg, UNUSED unsigned events)
{
        watcher_catch_up(arg);
}

/* --- passes ------------------------------------------------------------------------------------------------------- */

void watcher_pass_begin(struct watcher *w, struct watch_pass *pass)
{
        pass->since = w->seq;
        list_init(&pass->fresh);
        list_append(&w->passes, &pass->link);
}

/* Returns the first event that was kept since the pass began, or the head of the list when there is none. Older events may be kept
 * for other passes. */
static struct list *kept_since(struct watcher *w, const struct watch_pass *pass)
{
        struct list *l = &w->kept.events;
        while (l->prev != &w->kept.events &&
               list_entry(l->prev, struct watch_kept_event, link)->seq > pass->since)
                l = l->prev;
        return l;
}

void watcher_pass_renames(struct watcher *w, const struct watch_pass *pass,
                          void (*on_rename)(int wd, void *arg), void *arg)
{
        for (struct list *l = kept_since(w, pass); l != &w->kept.events; l = l->next) {
                const struct watch_kept_event *k = list_entry(l, struct watch_kept_event, link);
                if ((k->mask & IN_ISDIR) && (k->mask & (IN_MOVED_FROM | IN_MOVED_TO)))
                        on_rename(k->wd, arg);
        }
}

bool watcher_pass_end(struct watcher *w, struct watch_pass *pass)
{
        uint64_t since = pass->since;
        for (struct list *i = kept_since(w, pass); i != &w->kept.events; i = i->next) {
                const struct watch_kept_event *k = list_entry(i, struct watch_kept_event, link);
                struct watch_event ev = { .mask = k->mask,
                                          .cookie = k->cookie,
                                          .name = { k->name, k->name_n } };
                tell(w, k->wd, &ev, pass);
        }
        struct watch_listener *l;
        list_each (l, &pass->fresh, fresh_link) {
                list_remove(&l->fresh_link);
                l->pass = NULL;
        }
        list_remove(&pass->link);
        struct watch_pass *oldest = list_first(&w->passes, struct watch_pass, link);
        watch_kept_forget(&w->kept, oldest ? oldest->since : UINT64_MAX);
        return w->kept.lost_seq <= since;
}

static void work_run(struct work *work)
{
        struct watch_work *ww = container_of(work, struct watch_work, work);
        ww->run(ww);
}

static bool may_run(const struct watcher *w, const struct watch_work *ww)
{
        const struct watch_work *other;
        unsigned count = 0, own = 0;
        list_each (other, &w->running, link) {
                count++;
                own += other->owner == ww->owner;
        }
        return count < WORK_MAX && own < WORK_PER_OWNER;
}

static void pump_work(struct watcher *w)
{
        struct watch_work *ww;
        list_each (ww, &w->waiting, link) {
                if (!may_run(w, ww))
                        continue;
                list_remove(&ww->link);
                list_append(&w->running, &ww->link);
                pool_submit(w->pool, &ww->work);
        }
}

static void work_done(struct work *work)
{
        struct watch_work *ww = container_of(work, struct watch_work, work);
        struct watcher *w = ww->watcher;
        list_remove(&ww->link);
        ww->done(ww); /* frees ww */
        pump_work(w);
}

void watcher_submit(struct watcher *w, struct watch_work *ww)
{
        ww->watcher = w;
        ww->work = (struct work){ .run = work_run, .done = work_done };
        list_init(&ww->work.link);
        list_append(&w->waiting, &ww->link);
        pump_work(w);
}

/* --- flushing sinks ----------------------------------------------------------------------------------------------- */

static void start_flush_timer(struct watcher *w, uint64_t ms)
{
        if (w->is_flush_timer_on)
                return;
        w->is_flush_timer_on = true;
        timer_start(w->flush_timer, ms);
}

/* Flushes the dirty sinks. To flush one may end its connection and free other sinks of that connection, so each step takes what is
 * first on the list then. */
static void on_flush_timer(void *arg)
{
        struct watcher *w = arg;
        struct watch_sink *sink;
        struct list round = LIST_INIT(round);
        watcher_catch_up(w); /* the second half of a rename may be queued */
        w->is_flush_timer_on = false;
        while ((sink = list_first(&w->dirty, struct watch_sink, dirty_link))) {
                list_remove(&sink->dirty_link);
                list_append(&round, &sink->dirty_link);
        }
        while ((sink = list_first(&round, struct watch_sink, dirty_link))) {
                list_remove(&sink->dirty_link);
                if (!sink->on_flush(sink))
                        list_append(&w->dirty, &sink->dirty_link);
        }
        if (!list_is_empty(&w->dirty))
                start_flush_timer(w, RETRY_MS);
}

void watcher_add_sink(struct watcher *w, struct watch_sink *sink)
{
        list_append(&w->sinks, &sink->link);
        list_init(&sink->dirty_link);
}

void watcher_remove_sink(UNUSED struct watcher *w, struct watch_sink *sink)
{
        list_remove(&sink->link);
        list_remove(&sink->dirty_link);
}

void watcher_mark_dirty(struct watcher *w, struct watch_sink *sink)
{
        if (!list_is_linked(&sink->dirty_link))
                list_append(&w->dirty, &sink->dirty_link);
        start_flush_timer(w, FLUSH_MS);
}

/* --- making and freeing the watcher ------------------------------------------------------------------------------- */

struct watcher *watcher_new(struct loop *loop, struct pool *pool, struct err *err)
{
        int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (fd < 0) {
                err->os_errno = errno;
                err->step = "inotify";
                err->remedy = "Raise fs.inotify.max_user_instances or the limit on open files.";
                err_set(err, RPC_INTERNAL, -errno, "%s (os error %d)", errno_text(errno), errno);
                return NULL;
        }
        struct watcher *w = mem_new(struct watcher);
        w->pool = pool;
        w->fd = fd;
        w->room = mem_alloc(READ_BYTES);
        map_init(&w->wds);
        watch_kept_init(&w->kept);
        list_init(&w->passes);
        list_init(&w->sinks);
        list_init(&w->dirty);
        list_init(&w->idle);
        list_init(&w->waiting);
        list_init(&w->running);
        w->flush_timer = timer_new(loop, on_flush_timer, w);
        w->idle_timer = timer_new(loop, on_idle_timer, w);
        int r = watch_new(loop, fd, WATCH_READ, on_readable, w, &w->watch);
        if (r < 0) {
                err->os_errno = -r;
                err->step = "inotify";
                err_set(err, RPC_INTERNAL, r, "%s (os error %d)", errno_text(r), -r);
                return watcher_free(w);
        }
        return w;
}

struct watcher *watcher_free(struct watcher *w)
{
        if (!w)
                return NULL;
        struct watch_work *ww;
        while ((ww = list_first(&w->waiting, struct watch_work, link)) ||
               (ww = list_first(&w->running, struct watch_work, link))) {
                list_remove(&ww->link);
                ww->done(ww);
        }
        watch_kept_forget(&w->kept, UINT64_MAX);
        struct watch_wd *entry;
        while ((entry = list_first(&w->idle, struct watch_wd, idle_link)))
                drop_wd(w, entry);
        w->flush_timer = timer_free(w->flush_timer);
        w->idle_timer = timer_free(w->idle_timer);
        w->watch = watch_free(w->watch);
        fd_close(w->fd);
        must(map_count(&w->wds) == 0);
        map_release(&w->wds);
        free(w->room);
        free(w);
        return NULL;
}
