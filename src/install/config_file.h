/* config_file: the configuration file of another program: read and replaced only when nobody but this user can write it. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct config_file {
        const char *path;
        bool exists, is_link;
        struct slice text; /* in the arena */
};

/* Reads the file; it may be missing. Returns 0, or -errno: for a file or a directory on the way to it that another user owns or may
 * write, a file with more than one name, a symlink that leads nowhere, a file above LIMIT_CLIENT_CONFIG_BYTES. */
NODISCARD int config_file_read(struct arena *a, const char *path, struct config_file *ret, struct err *err);
/* Replaces the file by `text` in one step, or, when that is NULL, removes it. Nothing is written when the file is no longer as it
 * was read. A symlink stays, and the file that it leads to is replaced. */
NODISCARD int config_file_replace(struct arena *a, const struct config_file *file, const struct slice *text,
                                  struct err *err);
