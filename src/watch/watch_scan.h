/* watch_scan: puts inotify watches on directories and on everything below them.
 *
 * A scan blocks as long as the file system does, so it runs on a thread; that thread shares nothing with the loop but the inotify
 * descriptor. Each directory is watched first and listed afterwards, so that a name that appears in between is seen twice, but
 * never missed. Links are not followed, except for the path that a client named.
 *
 * A scan works off a queue: first the directories that the caller put into the queue, then those that the scan found in them. When
 * a bound is met, the remaining directories stay in the queue for another scan, without is_done.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"

#include <sys/inotify.h>

/* The inotify events that a watched directory reports. */
#define WATCH_SCAN_MASK                                                                                \
        ((uint32_t)(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_CLOSE_WRITE | \
                    IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF))

#define WATCH_SCAN_NO_PARENT UINT32_MAX

struct watch_scan_dir {
        uint32_t
                parent; /* index of the directory in which the scan found this one, or WATCH_SCAN_NO_PARENT */
        const char *name; /* the name in the parent; an absolute path when there is no parent */
        bool follows;     /* a link at this path is followed */
        bool reports;     /* the names in the directory are reported as new */
        bool is_done;     /* the scan has tried to watch and list the directory */
        int error;        /* 0, or -errno: why the directory could not be watched or listed */
        int wd;           /* -1: the directory is not watched */
};

/* A name in a directory whose `reports` is set. */
struct watch_scan_entry {
        uint32_t dir;
        const char *name;
};

struct reach;
struct watch_scan {
        int inotify_fd;
        /* Which paths may be scanned; NULL: all. With a reach, paths contain no links. */
        const struct reach *reach;
        bool is_file; /* a file is watched through its directory, even if the reach forbids to list that */
        bool is_recursive;
        size_t max_dirs;    /* the most directories that are scanned */
        size_t max_queue;   /* the most that `dirs` may hold, scanned or not */
        size_t max_entries; /* the most that `entries` may hold */

        struct arena arena; /* holds dirs, entries and all names */
        struct watch_scan_dir *dirs;
        size_t dir_count, dir_room;
        struct watch_scan_entry *entries;
        size_t entry_count, entry_room;
        bool is_cut;  /* max_queue or max_entries was met: something was left out */
        bool is_full; /* the system gives no more watches */

        const char *file_name; /* set by watch_scan_root for a file: its name in dirs[0]; else NULL */
};

void watch_scan_init(struct watch_scan *s, int inotify_fd);
void watch_scan_release(struct watch_scan *s);

/* Puts a directory into the queue. Copies `path`. */
void watch_scan_add(struct watch_scan *s, const char *path, bool reports);

/* Watches and lists the directories in the queue, up to max_dirs. */
void watch_scan_run(struct watch_scan *s);

/* Scans a path that a client named, which may be a link. A directory is watched with all directories below it when `is_recursive`.
 * A file is watched through its directory, because a file that replaces it is another inode. Returns 0, or -errno with err when the
 * path itself cannot be watched; why a directory below cannot be watched, says `error` in its watch_scan_dir. */
NODISCARD int watch_scan_root(struct watch_scan *s, const char *path, struct err *err);
/* Scans like watch_scan_root the file or directory that is open as `fd`, at the path where it is now. The scan must have a
 * reach. */
NODISCARD int watch_scan_root_at(struct watch_scan *s, int fd, struct err *err);
