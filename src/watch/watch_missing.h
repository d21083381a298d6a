/* watch_missing: one fs/watchMissing: the client is notified once, when a missing path appears or a present path changes. */
#pragma once

#include "watch/watch_missing_scan.h"
#include "watch/watcher.h"

struct conn;
struct watch_missing;

/* Joins the wds of the scan. Returns NULL when a limit is met. In both cases the watcher owns the wds afterwards. */
NODISCARD struct watch_missing *watch_missing_new(struct watcher *w, struct conn *c, uint64_t id,
                                                  const struct watch_missing_scan *scan,
                                                  struct watch_pass *pass);
struct watch_missing *watch_missing_free(struct watch_missing *m); /* NULL is fine; returns NULL */
/* Notifies the client at the end of this turn, because a watched path may have changed. Only the first call does something. */
void watch_missing_fire(struct watch_missing *m);

/* Gives the wds of a scan back to the watcher. */
void watch_missing_discard(struct watcher *w, const struct watch_missing_scan *scan);
