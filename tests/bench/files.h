/* files: makes the files and trees that rows read, write and copy, and checks their content afterwards.
 *
 * The content of a file is a fixed run of bytes that do not repeat; a shorter file is the beginning of a longer one.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "bench.h"

/* Returns the content of a file of `n` bytes, which the caller frees. */
NODISCARD char *content_new(size_t n);
NODISCARD int file_make(const char *path, size_t n, struct err *err);
NODISCARD int file_check(const char *path, size_t n, struct err *err); /* -EPROTO: the content is another */

/* `dirs` directories with `files` files of `bytes` bytes each. */
struct tree {
        unsigned dirs, files;
        size_t bytes;
};
#define TREE_PATH_MAX 32
void tree_dir(char ret[TREE_PATH_MAX], unsigned dir); /* the path of a directory below the root of the tree */
void tree_file(char ret[TREE_PATH_MAX], unsigned dir, unsigned file);
NODISCARD int tree_make(const char *root, const struct tree *t, struct err *err); /* root exists */
NODISCARD int tree_check(const char *root, const struct tree *t, struct err *err);

NODISCARD int files_failed(struct err *err, const char *path); /* fills err from errno */

/* Adds a sample for an operation on one file since `start_ns`: in us for a small file, in MB/s for a large one. */
#define FILE_SMALL (64 * 1024)
void file_sample(struct turn *t, uint64_t start_ns);
