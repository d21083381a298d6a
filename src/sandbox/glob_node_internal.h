/* glob_node: the nodes of a glob_tree, one by one, for the walk that fills it (glob_tree.c). */
#pragma once

#include "sandbox/glob_tree_internal.h"

#include <limits.h>

/* `code`, with err: the scan of the node's prefix failed at `what`. */
int glob_node_fail(struct err *err, int code, const struct glob_node *node, const char *what);

/* `parent` may be NULL: a prefix. */
NODISCARD struct glob_node *glob_node_new(struct glob_group *g, struct glob_node *parent, struct slice name);
NODISCARD struct glob_node *glob_node_find_child(struct glob_tree *t, const struct glob_node *parent,
                                                 struct slice name);
/* With all that is below it; or only that. */
void glob_node_forget(struct glob_node *n);
void glob_node_forget_children(struct glob_node *top);

/* One that is none yet. */
NODISCARD int glob_node_make_match(struct glob_node *n, struct err *err);
/* Gives `n` its state, which is in t->scratch: a directory that waits to be read. */
NODISCARD int glob_node_keep_state(struct glob_node *n, struct err *err);

/* The path of `n` below its prefix, or "." */
void glob_node_write_path(const struct glob_node *n, char room[static PATH_MAX]);
/* The directory that it stands for, if it still is one; or -errno. `flags`: O_PATH or O_RDONLY. */
NODISCARD int glob_node_open(const struct glob_node *n, int flags);
