/* watch_tree_internal: what the files of a watch share: watch_node.c (names), watch_tree.c (events), watch_rename.c, and
 * watch_start.c, watch_slice.c and watch_join.c (passes). */
#pragma once

#include "base/buf.h"
#include "watch/watch_tree.h"

/* How often a directory that was renamed or missing while a pass looked at it is tried again. */
#define WATCH_TRIES_MAX 16

struct watch_node {
        struct watch_listener listener;
        struct watch_tree *tree;
        struct watch_node *parent; /* NULL: the root */
        struct list children;      /* watch_node::sibling */
        struct list sibling;       /* watch_node::children of the parent */
        struct list pending_link;  /* watch_tree::pending */
        struct list moving_link;   /* watch_tree::moving */
        struct list later_link;    /* watch_tree::later */
        uint64_t id;
        uint32_t cookie; /* cookie of the rename whose second half is awaited */
        /* Cookie of the last change of a name in the directory; 0: that change was no rename. */
        uint32_t last_cookie;
        uint32_t slot;    /* 1 + the node's slot in the join under way; 0: the node has none */
        bool reports;     /* the names that the next pass finds in the directory are reported as new */
        bool is_gone;     /* the kernel has reported that the directory was removed */
        bool is_doubtful; /* a directory below was renamed while a pass looked at this one */
        /* The directory is not watched, and the client was told. When the directory is watched, the client is told again. */
        bool is_missed;
        uint64_t renamed; /* watch_tree::renames when the directory was last renamed */
        unsigned tries;   /* how many passes in a row could not look at the directory */
        size_t name_n;
        char *key; /* id of the parent (8 bytes), name, NUL */
};

NODISCARD struct watch_node *watch_node_new(struct watch_tree *t, struct watch_node *parent,
                                            struct slice name);
NODISCARD struct watch_node *watch_node_find(const struct watch_tree *t, const struct watch_node *parent,
                                             struct slice name);
void watch_node_free(struct watch_node *top); /* frees the node and all nodes below it */
/* Takes the node out of watch_tree::children. The node keeps its name and its own children. */
void watch_node_unmap(struct watch_node *n);
void watch_node_move(struct watch_node *n, struct watch_node *parent, struct slice name);
/* Returns the node, or the nearest node above it, that is in the middle of a rename, or NULL. The path of such a node is unknown,
 * so its directory is neither looked at nor reported. */
NODISCARD struct watch_node *watch_node_moving(struct watch_node *n);
/* Puts the node on the list of directories to be watched and listed. With `reports`, the names found in the directory are reported
 * as new. */
void watch_node_look(struct watch_node *n, bool reports);
/* Appends the path of a node's directory, or of `name` in that directory when `name` is not empty; `root_path` is the path of the
 * root. */
void watch_node_path(const struct watch_node *n, const char *root_path, struct slice name, struct buf *ret);
/* Makes a node for a new directory; the names in that directory will be reported as new. */
void watch_node_add(struct watch_node *parent, struct slice name);
/* Has a directory looked at again after a time, because a pass could not look at it for a reason that may go away. The time grows
 * with each try. The caller tells the client. */
void watch_node_look_later(struct watch_node *n, bool reports);
void watch_node_add_change(struct watch_node *n, enum watch_kind kind, struct slice name);
void watch_node_on_event(struct watch_listener *l, const struct watch_event *ev);

void watch_tree_changed(struct watch_tree *t); /* called when the batch may have changes to send */
void watch_tree_root_gone(struct watch_tree *t);
void watch_tree_lost(struct watch_tree *t);
void watch_tree_overflow(struct watch_tree *t);

/* watch_rename.c: handle the first and the second half of a rename; `path` is the full path of ev->name. */
void watch_rename_from(struct watch_node *parent, const struct watch_event *ev, struct slice path,
                       bool is_dir);
void watch_rename_to(struct watch_node *parent, const struct watch_event *ev, struct slice path, bool is_dir);
void watch_rename_end_all(struct watch_tree *t); /* ends renames whose second half has not come */
/* Ends renames whose second half has not come, and tells the client when one of them may have been an exchange. */
void watch_rename_settle(struct watch_tree *t);

/* Begins a pass when there is a directory to look at and no pass of the tree runs. */
void watch_slice_pump(struct watch_tree *t);
void watch_slice_abandon(struct watch_tree *t); /* called when the tree is freed during a pass */

/* Begins to join the results of a pass. A tree has at most one join under way. */
void watch_join_begin(struct watch_join *j, struct watch_tree *t, const struct watch_scan *scan,
                      struct watch_pass *pass);
/* Adds the node of the next directory that the pass is asked to look at. */
void watch_join_input(struct watch_join *j, struct watch_node *n);
/* Joins up to `count` more directories. 1 when there are more, -ENOSPC when not all could be joined, otherwise 0. */
NODISCARD int watch_join_some(struct watch_join *j, size_t count);
void watch_join_end(struct watch_join *j);
/* Clears the slot of a node that is freed or will be scanned again. */
void watch_join_forget(struct watch_node *n);
/* Called when a directory was renamed inside directory `i` of the scan: marks the directory that the pass was asked to look at and
 * below which `i` was found, so that this one is scanned again. */
void watch_join_mark_doubtful(struct watch_join *j, size_t i);
/* Gives back the wds of a scan that were not joined. */
void watch_join_discard(struct watcher *w, const struct watch_scan *scan);
