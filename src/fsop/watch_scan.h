/* watch_scan: puts inotify watches on directories and on everything below them.
 *
 * Blocks as long as the file system does, so it runs on a thread; it shares nothing but the inotify descriptor. Each
 * directory is watched first and listed afterwards: what appears in between is seen twice, never not at all. Links are
 * not followed, but for the path that a client named.
 *
 * A scan works off a queue: the directories that the caller put into it, then those found in them. What is left when it
 * meets a bound stays in the queue, not done, for another scan.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"

#include <sys/inotify.h>

/* What is wanted to know of a directory. */
#define WATCH_SCAN_MASK                                                                                \
        ((uint32_t)(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_CLOSE_WRITE | \
                    IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF))

#define WATCH_SCAN_NO_PARENT UINT32_MAX

struct watch_scan_dir {
        uint32_t parent;  /* index of the directory that it was found in, or WATCH_SCAN_NO_PARENT */
        const char *name; /* in its parent; an absolute path when it has none */
        bool follows;     /* it may be a link */
        bool reports;     /* what is in it is news */
        bool is_done;
        int error; /* 0, or -errno: why it is not watched */
        int wd;    /* -1: not watched */
};

/* A name in a directory whose content is news. */
struct watch_scan_entry {
        uint32_t dir;
        const char *name;
};

struct law;
struct watch_scan {
        int inotify_fd;
        const struct law *law; /* what may be looked at; NULL: everything. Then paths are without links. */
        bool is_file; /* the directories are those of a file: of all in them only that is told, so the law is not asked */
        bool is_recursive;
        size_t max_dirs; /* to be worked off */
        size_t max_queue;
        size_t max_entries;

        struct arena arena; /* what follows lives in it */
        struct watch_scan_dir *dirs;
        size_t dir_count, dir_room;
        struct watch_scan_entry *entries;
        size_t entry_count, entry_room;
        bool is_cut;  /* max_queue or max_entries was met: something was left out */
        bool is_full; /* the system gives no more watches */

        const char *file_name; /* of watch_scan_root: the path is a file, dirs[0] holds it under this name */
};

void watch_scan_init(struct watch_scan *s, int inotify_fd);
void watch_scan_release(struct watch_scan *s);

/* Copies `path`. */
void watch_scan_add(struct watch_scan *s, const char *path, bool reports);

/* Works off the queue. */
void watch_scan_run(struct watch_scan *s);

/* A path that a client named, which may be a link: a directory, with what is below it when `is_recursive`, or a file,
 * then its directory is watched, because a replaced file is another one. -errno with err when that one path cannot be
 * watched; what is below is answered by the members. */
NODISCARD int watch_scan_root(struct watch_scan *s, const char *path, struct err *err);
/* The same for what is open as `fd`, wherever that is: under the scan's law. */
NODISCARD int watch_scan_root_at(struct watch_scan *s, int fd, struct err *err);
