/* quick: gets metadata and reads small files on the loop itself, because waking a thread would take longer.
 *
 * The loop must never wait. Whatever is not known to be in memory is left to a thread:
 *
 *   - The kernel resolves the path from its cache alone (RESOLVE_CACHED), into an O_PATH descriptor. That opens nothing, so it
 *     does not wait for the lock of a FIFO, a lease, a device, the server of a FUSE or network file system, or a listener of
 *     fanotify.
 *   - Then the loop finds out which mount the file is on. It touches the file only on mounts of local file systems where a thread
 *     has tried the same within the last second without sleeping. The list of mounts is forgotten when a mount comes or goes.
 *   - The loop reads the content of small regular files only, opened through the O_PATH descriptor, from memory alone (cachestat,
 *     RWF_NOWAIT), and only where that writes nothing to the disk: the read does not move the time of last access, and the file was
 *     read since it was changed, or was not changed for a moment.
 *   - If the loop has slept nevertheless (its count of context switches shows that), that mount is left to threads for a while.
 *
 * Every failure is left to a thread as well, so that an answer is the same to the byte wherever it was made.
 */
#pragma once

#include "base/limits.h"
#include "fsop/meta.h"

#include <linux/capability.h>

/* The result of a trial on a mount; it is valid until `until_ms`. */
struct quick_verdict {
        bool is_allowed;
        uint64_t until_ms; /* 0: there was no trial */
};

struct quick_mount {
        int id;
        bool keeps_atime; /* reading never moves the time of last access */
        bool is_single;   /* the file system is mounted nowhere else, so that a file has one path */
        struct quick_verdict look, read;
};

/* What the loop remembers between quick answers. */
struct quick {
        bool is_off;  /* quick answers do not work on this machine */
        int fds;      /* /proc/self/fd; -1: none */
        int mounts;   /* /proc/self/mountinfo, to poll for changes of mounts; -1: none */
        uint32_t age; /* how often mounts have changed */
        struct quick_mount known[LIMIT_QUICK_MOUNTS];
        size_t known_count;
        size_t next; /* index in `known` of the mount that is replaced next */

        bool can_fence; /* the loop can read under a quick_fence */
        bool has_capabilities;
        /* The capabilities of this thread, and the same with none in effect. */
        struct __user_cap_data_struct all[2], none[2];
};

void quick_init(struct quick *q);
void quick_release(struct quick *q); /* only when no thread uses a quick_trial any more */

enum quick_answer {
        QUICK_DONE,
        QUICK_NOT,     /* a thread has to do the request */
        QUICK_UNKNOWN, /* a thread has to do the request, and should call quick_try */
};

NODISCARD enum quick_answer quick_metadata(struct quick *q, const char *path, bool follow,
                                           struct fs_meta *ret);

/* The files and directories that a read on the loop must not touch, for a permission profile that may read everything else. The
 * loop reads as a process without capabilities, and only files that are certainly neither in `closed` (each path ends in a NUL) nor
 * in /dev, /proc or /sys. All other files, and links, are left to a thread. */
struct quick_fence {
        const struct slice *closed;
        size_t count;
};

/* Reads a whole file of up to LIMIT_QUICK_READ_BYTES into `to`, which has room for one byte more. `fence` may be NULL. */
NODISCARD enum quick_answer quick_read(struct quick *q, const char *path, bool follow,
                                       const struct quick_fence *fence, char *to, size_t *ret_n);

/* What a thread finds out about the mount of a path, so that the loop learns which requests it can answer itself. */
struct quick_trial {
        int fds;        /* quick::fds */
        uint32_t age;   /* quick::age at the beginning; if that has changed, the result is ignored */
        bool is_made;   /* the trial has a result */
        bool has_read;  /* the result has mount.read too */
        bool has_slept; /* the thread had to wait while it read */
        struct quick_mount mount; /* `until_ms` of its verdicts is not set */
};

/* Prepares a trial for a thread. Called on the loop. */
void quick_trial_init(const struct quick *q, struct quick_trial *ret);
/* Finds out whether the loop could have done a request: quick_read with `reads`, else quick_metadata. Called on the thread that
 * has done it. Does not set quick_mount::is_single. */
void quick_try(struct quick_trial *t, const char *path, bool follow, bool reads);
/* Remembers the result of a trial. Called on the loop. */
void quick_learn(struct quick *q, const struct quick_trial *t);
