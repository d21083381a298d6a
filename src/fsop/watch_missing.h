/* watch_missing: arms inotify watches that show when a missing path appears, or a present one changes.
 *
 * Blocks as long as the file system does, so it runs on a thread. Each directory on the way to a path is watched before
 * the next name is looked up in it: whatever changes in between leaves an event. No name on the way may be a link, and
 * the file systems must tell of every change: otherwise nothing is watched, which the client is told.
 */
#pragma once

#include "base/arena.h"
#include "base/compat.h"

#define WATCH_MISSING_PATHS 64 /* more: not watched */
#define WATCH_MISSING_DEPTH 64 /* names in a path; more: not watched */

struct watch_missing_item {
        int wd;
        const char *name; /* whose coming and going in the directory counts; NULL: the watched thing itself */
};

struct watch_missing_dir;

struct watch_missing_scan {
        int inotify_fd;
        struct arena arena; /* what follows lives in it */
        struct watch_missing_dir *dirs;
        struct watch_missing_item *items;
        size_t dir_count, item_count;
};

void watch_missing_scan_init(struct watch_missing_scan *s, int inotify_fd);
void watch_missing_scan_release(struct watch_missing_scan *s);

/* True when the path is missing (present) and is watched. Whatever the answer, the wds of the items are the caller's. */
NODISCARD bool watch_missing_scan_missing(struct watch_missing_scan *s, const char *path);
NODISCARD bool watch_missing_scan_present(struct watch_missing_scan *s, const char *path);
