/* node_internal: the data of a glob_tree, and the functions that make, find, open and remove one node of the tree.
 *
 * tree_internal.h has the functions on the tree as a whole.
 */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "glob/matches.h"
#include "policy/pattern.h"

#include <limits.h>

#define GLOB_READ_BYTES ((size_t)64 * 1024) /* how much of a directory is read at once */

struct glob_tree;
struct glob_group;

struct glob_node {
        struct glob_group *group;
        struct list children, sibling;
        struct list match; /* glob_tree::matches */
        struct list wait;  /* glob_tree::waiting: directories to be read */
        struct list watch; /* for the listener, like the next two members */
        void *watch_owner;
        uint64_t serial;
        uint64_t *state; /* what is left of the patterns in this directory; may be shared with its parent */
        uint32_t depth;  /* how many levels below the prefix */
        uint32_t path_n; /* length of the path below the prefix */
        uint32_t name_n;
        bool is_match, is_directory, is_symlink, is_unreadable;
        uint64_t dev, ino;
        /* NULL: the node of a prefix. `parent` and `name` together are a key in glob_tree::names: nothing may be between them. */
        struct glob_node *parent;
        char name[];
};

/* All patterns that have the same prefix. */
struct glob_group {
        struct glob_tree *tree;
        struct slice prefix;
        const struct pattern **patterns;
        size_t count, words;
        struct glob_node *root; /* NULL: the prefix does not exist */
        char *real;             /* the path of the root without links */
        uint64_t dev, ino;
        int fd; /* the directory of the root, between glob_tree_open and glob_tree_close; otherwise -1 */
};

/* `on_enter` is called before a directory is read, so that no later change is missed; when it returns a negative value, the reading
 * ends with that error. `on_leave` is called before the node of a directory is removed. */
struct glob_listener {
        int (*on_enter)(void *arg, struct glob_node *node, int fd);
        void (*on_leave)(void *arg, struct glob_node *node);
        void *arg;
};

struct glob_tree {
        struct arena arena; /* groups and patterns */
        struct glob_group *groups;
        size_t group_count;
        uint64_t depth;
        const struct glob_listener *listener; /* may be NULL */

        struct map names;               /* nodes by parent and name */
        struct list matches;            /* glob_node::match */
        struct list waiting;            /* glob_node::wait */
        size_t match_count, link_count; /* the number of matches, and of those that are links */
        size_t directory_count, state_bytes;
        bool is_overfull; /* there are more matches than the limit, and the tree does not hold all of them */
        bool is_changed;  /* a match was added or removed; the listener resets it */
        bool is_read;     /* the prefixes were opened once */

        uint64_t deadline_ms, entries; /* when the current call must end; how many entries it has read */
        const atomic_bool *is_cancelled;
        uint64_t *scratch; /* space for one state */
        char *room;        /* the buffer of getdents64 */
};

/* Fills err and returns `code`: the scan of the node's prefix failed at `what`. */
int glob_node_fail(struct err *err, int code, const struct glob_node *node, const char *what);

/* Makes a node in the tree; `parent` is NULL for the node of a prefix. */
NODISCARD struct glob_node *glob_node_new(struct glob_group *g, struct glob_node *parent, struct slice name);
NODISCARD struct glob_node *glob_node_find_child(struct glob_tree *t, const struct glob_node *parent,
                                                 struct slice name);
/* glob_node_forget removes a node with everything below it, glob_node_forget_children only everything below it. */
void glob_node_forget(struct glob_node *n);
void glob_node_forget_children(struct glob_node *top);

/* Adds `n`, which is not a match yet, to the matches of the tree. When the tree already has GLOB_MATCHES_MAX matches, `n` is freed
 * instead. */
NODISCARD int glob_node_make_match(struct glob_node *n, struct err *err);
/* Gives `n`, a directory, the state in t->scratch and puts it on the list of directories to be read. */
NODISCARD int glob_node_keep_state(struct glob_node *n, struct err *err);

/* Writes the path of `n` below its prefix, or ".". */
void glob_node_write_path(const struct glob_node *n, char room[static PATH_MAX]);
/* Opens the directory of a node, if it still is a directory. Returns a descriptor or -errno. `flags`: O_PATH or O_RDONLY. */
NODISCARD int glob_node_open(const struct glob_node *n, int flags);
