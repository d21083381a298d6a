/* watch_tree: one fs/watch of a client: a directory, everything below it, or a file.
 *
 * Every watched directory is a node; nodes form the tree that the kernel's events draw, so that a renamed directory takes
 * its watches along. A new directory becomes a node at once and is watched and listed by a pass on a thread; what the
 * pass finds is news. The tree is judged by the events read before a pass is joined: where directories were renamed
 * meanwhile the pass may have looked at the wrong ones, and looks again. A directory of which half a rename is known is
 * nowhere: it is not looked at, and when something happens in it before the other half comes, it has gone.
 *
 * What is lost (the kernel's queue, our bounds) is told as overflow, and the whole tree is looked through again.
 */
#pragma once

#include "base/list.h"
#include "fsop/watch_scan.h"
#include "server/watch_batch.h"
#include "server/watch_law.h"
#include "server/watcher.h"

struct watch_node;
struct watch_slice;
struct watch_first;

/* Nodes being made of what a pass found. */
struct watch_join {
        struct watch_tree *tree;
        const struct watch_scan *scan;
        struct watch_pass *pass;
        struct watch_node **slots; /* the node of each of the scan's directories */
        size_t slot_count;
        size_t input_count; /* those that the pass was asked to look at */
        size_t next;        /* to be joined */
};

/* A rename of late, to notice when two names were exchanged: names by their hashes. */
struct watch_recent {
        uint32_t cookie;
        uint64_t from, to;
        bool is_dir, replaces;
};
#define WATCH_RECENT_RENAMES 16

struct watch_tree {
        struct list link; /* watches::trees */
        struct watcher *watcher;
        struct conn *conn;
        char *id;
        char *path;            /* as the client spelled it, without a slash at its end ("" for the root) */
        char *root_path;       /* the directory of the root, for the system */
        struct watch_law *law; /* what may be seen; NULL: everything */
        bool is_recursive;
        bool is_live;    /* the client was told that it watches */
        char *file_name; /* a file is watched: its name in the root's directory; else NULL */

        struct watch_sink sink;
        struct watch_batch batch;
        struct watch_node *root; /* NULL when it has gone */
        struct map children;     /* watch_node by parent and name */
        struct list pending;     /* watch_node::pending_link: to be watched and listed */
        struct list moving;      /* watch_node::moving_link: half renamed */
        uint64_t next_node_id;
        size_t node_count;
        uint64_t renames; /* halves of them */
        struct watch_recent recent[WATCH_RECENT_RENAMES];
        size_t next_recent;
        uint64_t
                suspect; /* watch_node::id of one that was renamed there and back, or else exchanged; 0: none */
        bool is_relooking;      /* all of it, because something was lost */
        uint64_t held_since_ms; /* nothing is told, because a half waits for the other; 0: it is */
        struct list later;      /* watch_node::later_link: could not be looked at, and are tried again */
        struct timer *later_timer;
        uint64_t later_ms;
        struct watch_slice *slice; /* a pass under way, or NULL */
        struct watch_first *first; /* the first pass, until all of it is joined */
        struct watch_join *join;   /* nodes that are in a pass, or NULL */
};

NODISCARD struct watch_tree *watch_tree_new(struct watcher *w, struct conn *c, struct slice id,
                                            struct slice path, bool is_recursive);
struct watch_tree *watch_tree_free(struct watch_tree *t); /* NULL is fine; returns NULL */

/* The first pass: scan on a thread, then start or free. */
struct watch_first {
        struct watcher *watcher;
        struct watch_law *law; /* given to the tree */
        struct watch_scan scan;
        struct watch_pass pass;
        struct watch_join join;
        struct timer *timer;
};
NODISCARD struct watch_first *watch_first_new(struct watcher *w);
struct watch_first *watch_first_free(struct watch_first *f); /* NULL is fine; returns NULL */

/* Takes the first pass; from now on the client is told. -ENOSPC when not everything fits: the tree is good for nothing
 * but watch_tree_free then. */
NODISCARD int watch_tree_start(struct watch_tree *t, struct watch_first *f);

/* The connection takes notifications again. */
void watch_tree_on_room(struct watch_tree *t);
