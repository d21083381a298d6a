/* watch_missing: fs/watchMissing of a connection: tells once that a missing path appeared, or a present one changed. */
#pragma once

#include "fsop/watch_missing.h"
#include "server/watcher.h"

struct conn;
struct watch_missing;

/* Joins what the scan armed. NULL when it does not fit. The wds of the scan are taken in any case. */
NODISCARD struct watch_missing *watch_missing_new(struct watcher *w, struct conn *c, uint64_t id,
                                                  const struct watch_missing_scan *scan,
                                                  struct watch_pass *pass);
struct watch_missing *watch_missing_free(struct watch_missing *m); /* NULL is fine; returns NULL */
/* Something may have happened unseen. */
void watch_missing_fire(struct watch_missing *m);

/* Gives back the wds of a scan. */
void watch_missing_discard(struct watcher *w, const struct watch_missing_scan *scan);
