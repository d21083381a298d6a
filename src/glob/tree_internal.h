/* tree_internal: the directories that a query has read and the matches in them, as a tree that can be updated.
 *
 * Every directory has a node with the state of the patterns there; every match has a node too. When a name changes, only that name
 * is examined again (glob_tree_touch). Only one thread at a time may use a tree.
 */
#pragma once

#include "glob/node_internal.h"

/* Compiles the patterns of the query; nothing is read yet. The tree must be released, also after a failure. */
NODISCARD int glob_tree_init(struct glob_tree *t, const struct glob_query *query,
                             const struct glob_listener *listener, struct err *err);
void glob_tree_release(struct glob_tree *t);

/* Open the prefixes before each piece of work, and close them after it. glob_tree_open returns 1 when a prefix has changed:
 * then the tree is no longer valid. */
NODISCARD int glob_tree_open(struct glob_tree *t, const atomic_bool *is_cancelled, struct err *err);
void glob_tree_close(struct glob_tree *t);

/* Both are called between glob_tree_open and glob_tree_close. glob_tree_read reads everything, once. glob_tree_touch examines a
 * name that has changed in a directory; `is_directory`: the name may be a directory now. It returns -ESTALE when the tree is no
 * longer valid. */
NODISCARD int glob_tree_read(struct glob_tree *t, struct err *err);
NODISCARD int glob_tree_touch(struct glob_tree *t, struct glob_node *directory, struct slice name,
                              bool is_directory, struct err *err);
/* Two checks for changes without events. glob_tree_has_opened_up: a directory that could not be read is readable now.
 * glob_tree_has_same_inodes: every match still has its inode number, which some file systems change. */
NODISCARD bool glob_tree_has_opened_up(const struct glob_tree *t);
NODISCARD bool glob_tree_has_same_inodes(const struct glob_tree *t);

NODISCARD struct glob_matches *glob_tree_matches(const struct glob_tree *t);
