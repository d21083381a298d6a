/* watcher: the only inotify instance of the server, and the listeners of each watched directory.
 *
 * The kernel gives each watched inode a number (wd). Listeners join a wd and get its events; when the last listener leaves, the
 * watch is ended. Watches are added on threads, because that resolves paths and may hang. Such a pass is announced before it
 * begins, and its wds are joined on the loop. While a pass is under way every event is kept, because it may belong to a wd that was
 * not joined yet; when the pass ends, its listeners get the events of their wds since it began. The list of kept events is bounded:
 * watcher_pass_end says when events had to be dropped.
 *
 * A wd without listeners is ended a little later, because a pass may have got the same wd meanwhile. If a wd is ended too early,
 * the listener that joins it gets IN_IGNORED and cannot get events of another directory, because the kernel does not reuse the
 * numbers.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "loop/loop.h"
#include "loop/pool.h"
#include "watch/watch_kept.h"

struct watcher;

struct watch_pass;
struct watch_wd;

/* Embedded in an object that listens to one wd. */
struct watch_listener {
        struct list link;        /* watch_wd::listeners */
        struct watch_wd *wd;     /* NULL: the listener has joined no wd */
        struct list fresh_link;  /* watch_pass::fresh */
        struct watch_pass *pass; /* the pass in which the listener joined; NULL when that has ended */
        void (*on_event)(struct watch_listener *l, const struct watch_event *ev);
};

/* Embedded in an object that sends notifications about events. */
struct watch_sink {
        struct list link;                          /* watcher::sinks */
        struct list dirty_link;                    /* watcher::dirty */
        void (*on_lost)(struct watch_sink *sink);  /* called when the kernel dropped events */
        bool (*on_flush)(struct watch_sink *sink); /* sends changes; false: call on_flush again soon */
};

/* Makes the watcher. Returns NULL with err when the system gives no inotify instance. `pool` runs watch_work. */
NODISCARD struct watcher *watcher_new(struct loop *loop, struct pool *pool, struct err *err);
/* Frees the watcher; no pass may be running. NULL is fine; returns NULL. */
struct watcher *watcher_free(struct watcher *w);
int watcher_fd(const struct watcher *w);
/* Returns whether `count` more wds can be joined within the limits. */
bool watcher_has_room(const struct watcher *w, size_t count);

void watcher_add_sink(struct watcher *w, struct watch_sink *sink);
void watcher_remove_sink(struct watcher *w, struct watch_sink *sink);
/* Has on_flush called soon, because the sink has something to send. */
void watcher_mark_dirty(struct watcher *w, struct watch_sink *sink);

/* Joins a wd that `pass` got. Returns 0, or -ENOSPC when a limit is met: then the wd is given back. */
NODISCARD int watcher_join(struct watcher *w, struct watch_listener *l, int wd, struct watch_pass *pass);
void watcher_leave(struct watcher *w, struct watch_listener *l);
int watch_listener_wd(const struct watch_listener *l); /* -1: the listener has joined no wd */
/* Gives back a wd that a pass got and that is not joined. */
void watcher_give_back(struct watcher *w, int wd);

/* A pass. A pass lasts from before a thread adds watches until the wds of these watches are joined. */
struct watch_pass {
        struct list link;  /* watcher::passes, oldest first */
        uint64_t since;    /* number of the last event before the pass */
        struct list fresh; /* watch_listener::fresh_link */
};
void watcher_pass_begin(struct watcher *w, struct watch_pass *pass);
/* Reads all queued events, so that the listeners are up to date before a pass is joined. */
void watcher_catch_up(struct watcher *w);
/* Calls `on_rename` for each half of a rename of a directory since the pass began, with the wd of the directory that has or had the
 * name. */
void watcher_pass_renames(struct watcher *w, const struct watch_pass *pass,
                          void (*on_rename)(int wd, void *arg), void *arg);
/* Gives the listeners that joined in this pass the events since the pass began. Returns false when events had to be dropped. */
bool watcher_pass_end(struct watcher *w, struct watch_pass *pass);

/* The scan of a pass after the first, which runs on the pool. Only a few scans run at once. `done` is called on the loop. */
struct watch_work {
        struct work work;
        struct list link; /* watcher::waiting or running */
        struct watcher *watcher;
        const void *owner; /* the number of scans that run at once for one owner is bounded too */
        void (*run)(struct watch_work *work);
        void (*done)(struct watch_work *work);
};
void watcher_submit(struct watcher *w, struct watch_work *work);
