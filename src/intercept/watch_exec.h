/* watch_exec: follows the execve of a caller whose memory others can write to, until it is certain what was executed.
 *
 * When the broker lets a caller go on, the kernel reads path and arguments once more. So the broker attaches to the caller; after execve,
 * and before the first instruction of the new program, it compares what was executed with what was decided, and kills the process on a
 * difference. The new program has memory of its own, which no thread of the old one can change.
 *
 * The kernel reports a stop to a thread only if that thread asks; so the broker asks again and again while there is something to watch.
 */
#pragma once

#include "intercept/caller.h"

struct watch_exec {
        pid_t thread, process;
        struct stat file; /* the decided file as the caller sees it; st_ino 0: unknown */
        struct buf path, argv_text;
        size_t argc;
        bool is_fd;   /* execveat of a descriptor */
        bool is_gone; /* the caller did not wait any more */
};

enum watch_result {
        WATCH_WAITS,
        WATCH_SAME,    /* the decided program runs, or execve has failed */
        WATCH_CHANGED, /* another program was executed; it is dead */
        WATCH_GONE,    /* the caller has died */
};

/* Attaches to the caller and lets it go on. Takes path and arguments from *c. Returns 0, and the watch is to be stepped until its end; or
 * -errno, and the caller's execve has failed with EACCES. */
NODISCARD int watch_exec_begin(struct watch_exec *w, struct caller *c);
/* Looks once whether the execve is over. After any other result than WATCH_WAITS the watch is over, and released. */
NODISCARD enum watch_result watch_exec_step(struct watch_exec *w);

/* What was executed. */
struct watch_found {
        struct slice path;      /* the path that the kernel executed */
        struct slice argv_text; /* of the new program; each argument has a NUL behind it */
        bool is_same_file;      /* the program is the decided file itself, and not an interpreter of it */
};
/* Returns whether the program that was executed is the decided one. Pure. */
NODISCARD bool watch_is_same(const struct watch_exec *w, const struct watch_found *found);
