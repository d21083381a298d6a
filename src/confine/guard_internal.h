/* guard_internal: the data that the sources of the guard share: guard.c adds and removes holds, guard_read.c handles events,
 * guard_thread.c runs the thread that kills.
 *
 * The lock is held in every function that is declared here.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "confine/guard.h"

#include <limits.h>
#include <pthread.h>

/* A watched directory. */
struct watched {
        int wd;
        size_t name_count;  /* how many guarded names the directory has */
        struct list unused; /* guard::unused, when name_count is 0 */
};

/* A name in a watched directory, and the holds that guard it. There may be millions of events, so names are found by a map. */
struct watched_name {
        struct watched *directory;
        struct list guarded; /* guarded_name::in_name */
        size_t n;
        char key[]; /* the number of the watch, then the name */
};

struct guarded_name {
        struct list in_name; /* watched_name::guarded */
        struct list in_hold; /* guard_hold::names */
        struct guard_hold *hold;
        struct watched_name *name;
        size_t op;
        bool is_placeholder;
        bool may_go; /* the placeholder may be removed, but nothing may be moved to its place */
};

/* What the guard keeps of one sandbox. */
struct guard_hold {
        struct list names;   /* guarded_name::in_hold */
        struct list to_tell; /* guard::to_tell */
        void *owner;
        enum guard_event event; /* the event to report */
        struct image *image;    /* the image of the sandbox, which lists its processes; or NULL */
};

struct guard {
        int fd; /* inotify */
        pthread_mutex_t lock;
        struct map directories; /* watched, by wd */
        struct list unused;     /* watched::unused: no longer to be watched */
        struct map names;       /* watched_name, by its key */
        size_t name_count;
        size_t adding; /* threads that have added a watch but not yet its entry: meanwhile no watch is removed */
        struct list to_tell; /* guard_hold::to_tell: holds with an event to report */
        /* guard_thread.c */
        bool has_thread;
        pthread_t thread;
        int told_fd; /* eventfd: a hold has an event to report; -1 without the thread */
        int stop_fd; /* eventfd: the thread is to end; -1 without the thread */
};

#define GUARD_KEY_MAX (sizeof(int) + NAME_MAX)

/* Makes the key of a name in a watched directory. */
struct slice guard_key(int wd, struct slice name, char ret[GUARD_KEY_MAX]);

/* Handles the events that the kernel has queued now, and no later ones: a command could cause events without end. Returns
 * their number. */
size_t guard_take_events(struct guard *g);
/* Kills the processes of the sandbox now, because a mask is gone. */
void guard_kill(const struct guard_hold *h);
