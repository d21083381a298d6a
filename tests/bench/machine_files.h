/* machine_files: the machine's limit for the rows about files: the same work with plain system calls, in this process. */
#pragma once

#include "bench.h"
#include "files.h"

/* Names in the directory of a row. */
#define FILE_IN "in"     /* is read */
#define FILE_OUT "out"   /* is written */
#define TREE_IN "tree"   /* is listed, walked, copied */
#define TREE_COPY "copy" /* is copied from TREE_IN, and removed again */

extern const struct tree tree_flat, tree_walked, tree_copied, tree_searched;

NODISCARD int machine_read(struct turn *t, struct err *err);  /* open, read in pieces, close */
NODISCARD int machine_look(struct turn *t, struct err *err);  /* stat */
NODISCARD int machine_write(struct turn *t, struct err *err); /* open and truncate, write, close */
NODISCARD int machine_list(struct turn *t, struct err *err);  /* getdents of the first directory */
NODISCARD int machine_walk(struct turn *t, struct err *err);  /* getdents of all directories */
NODISCARD int machine_search(struct turn *t,
                             struct err *err); /* getdents of all directories of tree_searched */
NODISCARD int machine_tree(struct turn *t, struct err *err); /* copy_file_range and unlink, file by file */
