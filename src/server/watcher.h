/* watcher: the server's one inotify instance: who listens to which directory, and nothing lost on the way.
 *
 * The kernel gives each watched inode a number (wd). Listeners join a wd and hear its events; the last one that leaves
 * ends the watch. Watches are added on threads, since that resolves paths and may hang: such a pass is announced before
 * it begins and its results are joined on the loop. While a pass is under way every event is kept, because it may
 * belong to a wd that nobody has joined yet; those of the wds joined meanwhile are told again when the pass ends. What
 * is kept is bounded: a pass that outlives it is told so.
 *
 * A wd that nobody listens to any more is ended a little later, since a pass may have got it meanwhile. The numbers are
 * not reused: one that was ended though a pass hoped for it shows as an IN_IGNORED.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "loop/pool.h"

struct server;
struct watcher;

/* An event as a listener sees it. `name` is empty when it is about the watched thing itself; lives during the call. */
struct watch_event {
        uint32_t mask, cookie;
        struct slice name;
};

struct watch_pass;
struct watch_wd;

/* Embedded in what listens. */
struct watch_listener {
        struct list link;        /* watch_wd::listeners */
        struct watch_wd *wd;     /* NULL: joined none */
        struct list fresh_link;  /* watch_pass::fresh */
        struct watch_pass *pass; /* joined by one that has not ended: hears of everything when it does */
        void (*on_event)(struct watch_listener *l, const struct watch_event *ev);
};

/* Embedded in what sends notifications made of events. */
struct watch_sink {
        struct list link;                          /* watcher::sinks */
        struct list dirty_link;                    /* watcher::dirty */
        void (*on_lost)(struct watch_sink *sink);  /* the kernel dropped events */
        bool (*on_flush)(struct watch_sink *sink); /* the time to tell has come; false: not yet */
};

/* The instance of this server, made when first asked for. NULL with err when the system gives none. */
NODISCARD struct watcher *watcher_get(struct server *s, struct err *err);
/* No thread may be at work any more. NULL is fine; returns NULL. */
struct watcher *watcher_free(struct watcher *w);
int watcher_fd(const struct watcher *w);
/* So many wds can be joined without meeting a limit. */
bool watcher_has_room(const struct watcher *w, size_t count);

void watcher_add_sink(struct watcher *w, struct watch_sink *sink);
void watcher_remove_sink(struct watcher *w, struct watch_sink *sink);
/* It has something to tell: on_flush comes soon. */
void watcher_mark_dirty(struct watcher *w, struct watch_sink *sink);

/* Joins what `pass` got. 0, or -ENOSPC when there are too many directories: then the wd is given back. */
NODISCARD int watcher_join(struct watcher *w, struct watch_listener *l, int wd, struct watch_pass *pass);
void watcher_leave(struct watcher *w, struct watch_listener *l);
int watch_listener_wd(const struct watch_listener *l); /* -1: none */
/* A wd that a pass got and nobody wants. */
void watcher_give_back(struct watcher *w, int wd);

/* Adding watches on a thread. */
struct watch_pass {
        struct list link; /* watcher::passes, oldest first */
        uint64_t since;
        struct list fresh; /* watch_listener::fresh_link */
};
void watcher_pass_begin(struct watcher *w, struct watch_pass *pass);
/* Hears all that the kernel knows: what is joined afterwards is judged by the present. */
void watcher_catch_up(struct watcher *w);
/* Calls `on_rename` with the wd in which a directory was renamed, for each time since the pass began. */
void watcher_pass_renames(struct watcher *w, const struct watch_pass *pass,
                          void (*on_rename)(int wd, void *arg), void *arg);
/* Tells the listeners that have joined what happened since the pass began. False when some of that was dropped. */
bool watcher_pass_end(struct watcher *w, struct watch_pass *pass);

/* A pass of our own accord, on the server's pool: bounded in number, in order. `done` is called on the loop. */
struct watch_work {
        struct work work;
        struct list link; /* watcher::waiting or running */
        struct watcher *watcher;
        const void *owner; /* each has a few at once */
        void (*run)(struct watch_work *work);
        void (*done)(struct watch_work *work);
};
void watcher_submit(struct watcher *w, struct watch_work *work);
