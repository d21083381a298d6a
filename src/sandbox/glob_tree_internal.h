/* glob_tree: the directories that a query for globs has read and the matches in them, as a tree that can be kept.
 *
 * Every directory has a node that holds what is left of the patterns there; so does every match. When a name changes,
 * that name alone is looked at again (glob_tree_touch). A tree is one thread's at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "policy/pattern.h"
#include "sandbox/glob_scan.h"

#define GLOB_READ_BYTES ((size_t)64 * 1024) /* at once, of a directory */

struct glob_tree;
struct glob_group;

struct glob_node {
        struct glob_group *group;
        struct list children, sibling;
        struct list match; /* tree::matches */
        struct list wait;  /* tree::waiting, to be read */
        struct list watch; /* of the keeper */
        void *watch_owner; /* of the keeper */
        uint64_t serial;   /* of the keeper */
        uint64_t *state;   /* of a directory that is read; may be its parent's */
        uint32_t depth;    /* below the prefix */
        uint32_t path_n;   /* of the path below the prefix */
        uint32_t name_n;
        bool is_match, is_directory, is_symlink, is_unreadable;
        uint64_t dev, ino;
        struct glob_node
                *parent; /* NULL: a prefix. With the name it is the key in tree::names: nothing between */
        char name[];
};

/* The patterns with one prefix. */
struct glob_group {
        struct glob_tree *tree;
        struct slice prefix;
        const struct pattern **patterns;
        size_t count, words;
        struct glob_node *root; /* NULL: not there */
        char *real;             /* the path of the root without links */
        uint64_t dev, ino;
        int fd; /* of the root, while something is done; -1 */
};

/* Told of directories: before one is read, so that nothing that happens from then on is missed (a negative answer ends
 * the work), and before it is forgotten. */
struct glob_keeper {
        int (*on_enter)(void *arg, struct glob_node *node, int fd);
        void (*on_leave)(void *arg, struct glob_node *node);
        void *arg;
};

struct glob_tree {
        struct arena arena; /* groups and patterns */
        struct glob_group *groups;
        size_t group_count;
        uint64_t depth;
        const struct glob_keeper *keeper; /* may be NULL */

        struct map names;    /* nodes by parent and name */
        struct list matches; /* glob_node::match */
        struct list waiting; /* glob_node::wait */
        size_t match_count, directory_count, state_bytes;
        bool is_changed; /* matches came or went; for the keeper to reset */
        bool is_read;    /* the prefixes were opened once */

        uint64_t deadline_ms, entries; /* of the work at hand */
        const atomic_bool *is_cancelled;
        uint64_t *scratch; /* room for a state */
        char *room;        /* for getdents64 */
};

/* Takes the query apart; nothing is read yet. The tree must be released, also after a failure. */
NODISCARD int glob_tree_init(struct glob_tree *t, const struct glob_query *query,
                             const struct glob_keeper *keeper, struct err *err);
void glob_tree_release(struct glob_tree *t);

/* Before and after each piece of work: opens the prefixes, and closes them. glob_tree_open gives 1 when a prefix is not
 * what it was: then the tree is worth nothing. */
NODISCARD int glob_tree_open(struct glob_tree *t, const atomic_bool *is_cancelled, struct err *err);
void glob_tree_close(struct glob_tree *t);

/* Between those: reads everything, once; or looks at what a name has become, which is no directory or perhaps one.
 * -ESTALE from the latter: the tree is worth nothing. */
NODISCARD int glob_tree_read(struct glob_tree *t, struct err *err);
NODISCARD int glob_tree_touch(struct glob_tree *t, struct glob_node *directory, struct slice name,
                              bool is_directory, struct err *err);
/* What no event tells: a directory that could not be read may be read now; and some file systems give a file another
 * number in its life. */
NODISCARD bool glob_tree_has_opened_up(const struct glob_tree *t);
NODISCARD bool glob_tree_is_true(const struct glob_tree *t);

NODISCARD struct glob_matches *glob_tree_matches(const struct glob_tree *t);
