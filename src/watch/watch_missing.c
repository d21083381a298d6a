/* watch_missing: listens to the directories in which missing paths may appear, and notifies the client once. */
#include "watch/watch_missing.h"

#include "base/mem.h"
#include "conn/conn.h"

#include <sys/inotify.h>

struct item {
        struct watch_listener listener;
        struct watch_missing *missing;
        char *name; /* a name in the directory that is watched; NULL: the watched path itself */
};

struct watch_missing {
        struct watcher *watcher;
        struct conn *conn;
        uint64_t id;
        struct watch_sink sink;
        struct deferred tell; /* notifies at the end of the turn, after the answer to the request */
        bool has_fired;
        size_t item_count;
        struct item items[];
};

static void tell(struct deferred *d)
{
        struct watch_missing *m = container_of(d, struct watch_missing, tell);
        struct jsonw w;
        if (!conn_is_usable(m->conn))
                return;
        conn_notify_begin(m->conn, "fs/missingChanged", 64, &w);
        jsonw_member_u64(&w, "watchId", m->id);
        conn_notify_end(m->conn, &w); /* may end the connection and free `m` */
}

static void leave_all(struct watch_missing *m)
{
        for (size_t i = 0; i < m->item_count; i++)
                watcher_leave(m->watcher, &m->items[i].listener);
}

void watch_missing_fire(struct watch_missing *m)
{
        if (m->has_fired)
                return;
        m->has_fired = true;
        leave_all(m);
        loop_defer(m->conn->conns->loop, &m->tell);
}

static void on_event(struct watch_listener *l, const struct watch_event *ev)
{
        const struct item *item = container_of(l, struct item, listener);
        uint32_t wanted = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED;
        if (!item->name)
                wanted |= IN_MODIFY | IN_ATTRIB;
        if (ev->name.n > 0) {
                if (!item->name || !slice_eq(ev->name, slice_from_str(item->name)))
                        return;
                wanted = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
        }
        if (ev->mask & wanted)
                watch_missing_fire(item->missing);
}

static void on_lost(struct watch_sink *sink)
{
        watch_missing_fire(container_of(sink, struct watch_missing, sink));
}

void watch_missing_discard(struct watcher *w, const struct watch_missing_scan *scan)
{
        for (size_t i = 0; i < scan->item_count; i++)
                watcher_give_back(w, scan->items[i].wd);
}

struct watch_missing *watch_missing_new(struct watcher *w, struct conn *c, uint64_t id,
                                        const struct watch_missing_scan *scan, struct watch_pass *pass)
{
        struct watch_missing *m = mem_zalloc(sizeof(*m) + scan->item_count * sizeof(m->items[0]));
        m->watcher = w;
        m->conn = c;
        m->id = id;
        m->sink.on_lost = on_lost;
        deferred_init(&m->tell, tell);
        watcher_add_sink(w, &m->sink);
        for (size_t i = 0; i < scan->item_count; i++) {
                struct item *item = &m->items[m->item_count++];
                item->missing = m;
                item->name = mem_strdup(scan->items[i].name);
                item->listener.on_event = on_event;
                list_init(&item->listener.link);
                list_init(&item->listener.fresh_link);
                if (watcher_join(w, &item->listener, scan->items[i].wd, pass) < 0) {
                        watch_missing_free(m);
                        watch_missing_discard(w, scan);
                        return NULL;
                }
        }
        return m;
}

struct watch_missing *watch_missing_free(struct watch_missing *m)
{
        if (!m)
                return NULL;
        leave_all(m);
        deferred_cancel(&m->tell);
        watcher_remove_sink(m->watcher, &m->sink);
        for (size_t i = 0; i < m->item_count; i++)
                free(m->items[i].name);
        free(m);
        return NULL;
}
