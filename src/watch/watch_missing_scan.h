/* watch_missing_scan: adds inotify watches that show when a missing path appears, or a present path changes.
 *
 * A scan blocks as long as the file system does, so it runs on a thread. Each directory on the way to a path is watched before the
 * next name is looked up in it, so that a change in between leaves an event. When a name on the way is a link, or a file system
 * does not report every change, the functions return false, and the caller gives the wds of all items back to the watcher.
 */
#pragma once

#include "base/arena.h"
#include "base/compat.h"

#define WATCH_MISSING_PATHS 64 /* the most paths of a request; of more none is watched */
#define WATCH_MISSING_DEPTH 64 /* the most names in a path; a path with more is not watched */

struct watch_missing_item {
        int wd;
        const char *name; /* a name in the directory that is watched; NULL: the watched path itself */
};

struct watch_missing_dir;

struct watch_missing_scan {
        int inotify_fd;
        struct arena arena; /* holds dirs and items */
        struct watch_missing_dir *dirs;
        struct watch_missing_item *items;
        size_t dir_count, item_count;
};

void watch_missing_scan_init(struct watch_missing_scan *s, int inotify_fd);
void watch_missing_scan_release(struct watch_missing_scan *s);

/* Watches a missing path. Returns false when the path is not missing or cannot be watched. In both cases the caller owns the wds of
 * the items. */
NODISCARD bool watch_missing_scan_missing(struct watch_missing_scan *s, const char *path);
/* Watches a present path. Returns false when the path is missing or cannot be watched. In both cases the caller owns the wds of the
 * items. */
NODISCARD bool watch_missing_scan_present(struct watch_missing_scan *s, const char *path);
