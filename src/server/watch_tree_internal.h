/* watch_tree_internal: the nodes of a watch, shared by watch_node.c (names), watch_tree.c (events), watch_join.c,
 * watch_start.c and watch_slice.c (passes), watch_rename.c. */
#pragma once

#include "base/buf.h"
#include "server/watch_tree.h"

/* A directory that is renamed, or not there, while it is looked at is tried again so often. */
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
        uint32_t cookie;  /* of the rename that it is in the middle of */
        uint32_t slot;    /* 1 + its slot in the join under way; 0: it has none */
        bool reports;     /* what is found in it is news */
        bool is_gone;     /* the kernel says so */
        bool is_doubtful; /* one found in it was renamed while a pass looked at it */
        bool has_failed;  /* it could not be looked at, which was told */
        uint64_t renamed; /* watch_tree::renames when it was */
        unsigned tries;
        size_t name_n;
        char *key; /* id of the parent (8 bytes), name, NUL */
};

NODISCARD struct watch_node *watch_node_new(struct watch_tree *t, struct watch_node *parent,
                                            struct slice name);
NODISCARD struct watch_node *watch_node_find(const struct watch_tree *t, const struct watch_node *parent,
                                             struct slice name);
void watch_node_free(struct watch_node *top); /* with all that is below it */
/* It cannot be found under its name any more, but keeps it, and what is below it. */
void watch_node_unmap(struct watch_node *n);
void watch_node_move(struct watch_node *n, struct watch_node *parent, struct slice name);
/* The half renamed directory that it is, or is in: nobody knows where that is, so nothing can be told of it, and it is
 * not looked at. NULL: none. */
NODISCARD struct watch_node *watch_node_moving(struct watch_node *n);
/* Puts it on the list of those to be watched and listed. */
void watch_node_look(struct watch_node *n, bool reports);
/* Appends the path of a node, or of a name in it; `root_path` is that of the root. */
void watch_node_path(const struct watch_node *n, const char *root_path, struct slice name, struct buf *ret);
/* A new directory: watched and listed soon, and what is in it is news. */
void watch_node_add(struct watch_node *parent, struct slice name);
/* It could not be looked at, for a reason that may pass: tried again, less and less often. */
void watch_node_look_later(struct watch_node *n, bool reports);
void watch_node_add_change(struct watch_node *n, enum watch_kind kind, struct slice name);
void watch_node_on_event(struct watch_listener *l, const struct watch_event *ev);

void watch_tree_changed(struct watch_tree *t); /* perhaps there is something to tell */
void watch_tree_root_gone(struct watch_tree *t);
void watch_tree_lost(struct watch_tree *t);
void watch_tree_overflow(struct watch_tree *t);

/* watch_rename.c: the halves of a rename; `path` is that of the name. */
void watch_rename_from(struct watch_node *parent, const struct watch_event *ev, struct slice path,
                       bool is_dir);
void watch_rename_to(struct watch_node *parent, const struct watch_event *ev, struct slice path, bool is_dir);
void watch_rename_end_all(struct watch_tree *t); /* those whose other half has not come */
void watch_rename_settle(struct watch_tree *t);  /* and those of which more should have been heard by now */

void watch_slice_pump(
        struct watch_tree *t); /* begins a pass when there is something to look at and none runs */
void watch_slice_abandon(struct watch_tree *t); /* the tree is being freed */

/* Only one join at a time is under way in a tree. */
void watch_join_begin(struct watch_join *j, struct watch_tree *t, const struct watch_scan *scan,
                      struct watch_pass *pass);
/* The node of the next directory that the pass was asked to look at. */
void watch_join_input(struct watch_join *j, struct watch_node *n);
/* So many more of the directories. 1 when there are more, -ENOSPC when not all could be joined, else 0. */
NODISCARD int watch_join_some(struct watch_join *j, size_t count);
void watch_join_end(struct watch_join *j);
void watch_join_forget(struct watch_node *n); /* it is not joined: it is being freed, or looked at again */
/* A directory was renamed in this one of the scan: what it was found in is in doubt. */
void watch_join_doubt(struct watch_join *j, size_t i);
/* Gives back the wds of a scan that nobody has joined. */
void watch_join_discard(struct watcher *w, const struct watch_scan *scan);
