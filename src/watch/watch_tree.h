/* watch_tree: one fs/watch of a client: a directory, everything below it, or a file.
 *
 * Every watched directory is a node. Nodes form a tree that follows the events of the kernel, so that a renamed directory keeps
 * its watches. A new directory becomes a node at once; a pass on a thread watches and lists it, and the names that the pass finds
 * are reported as new. All events are read before a pass is joined: where directories were renamed meanwhile the pass may have
 * looked at the wrong ones, and these are looked at again. A directory of which only the first half of a rename is known is not
 * looked at. When an event comes from such a directory before the second half, the directory counts as removed.
 *
 * When events are lost (the queue of the kernel or a limit is full) the client is told `overflow`, and the whole tree is looked
 * at again; a second `overflow` follows when that is done. docs/internals/watching.md explains the words.
 */
#pragma once

#include "base/list.h"
#include "watch/watch_batch.h"
#include "watch/watch_reach.h"
#include "watch/watch_scan.h"
#include "watch/watcher.h"

struct watch_node;
struct watch_slice;
struct watch_first;

/* The results of a pass while nodes are made of them. */
struct watch_join {
        struct watch_tree *tree;
        const struct watch_scan *scan;
        struct watch_pass *pass;
        struct watch_node **slots; /* the node of each of the scan's directories */
        size_t slot_count;
        size_t input_count; /* how many directories the pass was asked to look at; theirs are the first slots */
        size_t next;        /* index of the next directory to join */
};

/* A recent rename, kept to notice when two names were exchanged. `from` and `to` are hashes of the old and the new name; 0: that
 * half was not seen. */
struct watch_recent {
        uint32_t cookie;
        uint32_t follows; /* watch_node::last_cookie of the old directory, before this rename */
        bool is_dir;      /* a directory was renamed, not a file */
        bool replaces;    /* another file or directory may have had the new name */
        uint64_t from, to;
        uint64_t at_ms; /* when the first event of the rename came */
};
#define WATCH_RECENT_RENAMES 64

struct watch_tree {
        struct list link; /* watches::trees */
        struct watcher *watcher;
        struct conn *conn;
        char *id;
        char *path; /* the watched path as the client spelled it, without a slash at its end; "" for "/" */
        char *root_path;           /* the path of the root's directory, for system calls */
        struct watch_reach *reach; /* what the permission profile lets the client see; NULL: everything */
        bool is_recursive;
        bool is_live; /* the first pass is joined, and changes may be sent */
        char *file_name; /* the name of a watched file in the root's directory; NULL when a directory is watched */

        struct watch_sink sink;
        struct watch_batch batch;
        struct watch_node *root; /* NULL when the watched path was removed */
        struct map children;     /* watch_node by parent and name */
        struct list pending;     /* watch_node::pending_link: to be watched and listed */
        struct list moving;      /* watch_node::moving_link: half renamed */
        uint64_t next_node_id;
        size_t node_count;
        uint64_t renames; /* how many halves of renames have come */
        struct watch_recent recent[WATCH_RECENT_RENAMES];
        size_t next_recent; /* how many were noted; the newest one overwrites the oldest */
        /* Cookie of a first half that may be part of an exchange with a name that is not watched, if no second half comes; 0: there
         * is none. */
        uint32_t doubted;
        bool is_relooking; /* all directories are scanned again, because events were lost */
        /* Since when sending waits for the second half of a rename; 0: sending does not wait. */
        uint64_t held_since_ms;
        struct list later; /* watch_node::later_link: directories that are tried again after a time */
        struct timer *later_timer;
        uint64_t later_ms;         /* how long the list `later` waits; 0: LATER_FIRST_MS */
        struct watch_slice *slice; /* the pass under way, unless it is the first; or NULL */
        struct watch_first *first; /* the first pass, until all of it is joined */
        struct watch_join *join;   /* the join of the pass under way, or NULL */
};

NODISCARD struct watch_tree *watch_tree_new(struct watcher *w, struct conn *c, struct slice id,
                                            struct slice path, bool is_recursive);
struct watch_tree *watch_tree_free(struct watch_tree *t); /* NULL is fine; returns NULL */

/* The first pass of a watch. The caller runs the scan on a thread, and then calls watch_tree_start or watch_first_free. */
struct watch_first {
        struct watcher *watcher;
        struct watch_reach *reach; /* the tree gets a reference to this reach */
        struct watch_scan scan;
        struct watch_pass pass;
        struct watch_join join;
        struct timer *timer;
};
NODISCARD struct watch_first *watch_first_new(struct watcher *w);
struct watch_first *watch_first_free(struct watch_first *f); /* NULL is fine; returns NULL */

/* Takes over the first pass and joins its results; after that, changes are sent. Returns 0, or -ENOSPC when a limit is met: then
 * the tree can only be freed. */
NODISCARD int watch_tree_start(struct watch_tree *t, struct watch_first *f);

/* Sends the changes that have waited, because the connection's outgoing queue has room again. */
void watch_tree_on_room(struct watch_tree *t);
