/* edit: changes of names and attributes, one call each. */
#pragma once

#include "fsop/fsop.h"

struct journal;

/* `recursive`: parents too, and an existing directory is fine. */
NODISCARD int fsop_create_directory(const char *path, bool recursive, bool follow, struct err *err);

/* `replace` false: an existing destination is EEXIST. */
NODISCARD int fsop_rename(const char *from, const char *to, bool replace, struct err *err);

NODISCARD int fsop_symlink(const char *path, const char *target, struct err *err);

struct fs_changes {
        bool has_mode, has_modified;
        uint32_t mode; /* 07777 at most */
        int64_t modified_ms;
};
NODISCARD int fsop_set_metadata(const char *path, const struct fs_changes *c, bool follow, struct err *err);

/* A final link is removed itself. `force`: a missing one is fine. Directories without `recursive`: rmdir. Never leaves
 * the tree that it was pointed at, whatever is swapped meanwhile, and never follows a link. */
NODISCARD int fsop_remove(const char *path, bool recursive, bool force, bool follow, struct err *err);

/* A file onto itself, or onto another name of itself, keeps its content. Trees merge; below the destination no link is
 * followed: what would have to go through one is EEXIST. `journal` as in write.h. PROTOCOL.md 9.3, fs/copy. */
NODISCARD int fsop_copy(const char *from, const char *to, bool recursive, struct journal *journal,
                        struct err *err);
