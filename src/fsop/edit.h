/* edit: makes directories and links, renames, removes, copies, and sets modes and times: one function each. */
#pragma once

#include "fsop/fsop.h"

struct journal;

/* Makes a directory. `recursive`: its parents too, and an existing directory is no error. */
NODISCARD int fsop_create_directory(const char *path, bool recursive, bool follow, struct err *err);

/* Renames a file, link or directory. Without `replace` an existing destination gives EEXIST. */
NODISCARD int fsop_rename(const char *from, const char *to, bool replace, bool follow, struct err *err);

NODISCARD int fsop_symlink(const char *path, const char *target, bool follow, struct err *err);

struct fs_changes {
        bool has_mode, has_modified;
        uint32_t mode; /* 07777 at most */
        int64_t modified_ms;
};
NODISCARD int fsop_set_metadata(const char *path, const struct fs_changes *c, bool follow, struct err *err);

/* Removes a file, directory or tree; a link at the end of the path is removed itself. `force`: a missing file is no error. Without
 * `recursive` a directory must be empty. Nothing outside of the tree is removed, even if names are swapped meanwhile. */
NODISCARD int fsop_remove(const char *path, bool recursive, bool force, bool follow, struct err *err);

/* Copies a file, link or tree (docs/PROTOCOL.md, fs/copy). A file that is copied onto itself, or onto another name of itself, keeps
 * its content. A tree is merged into an existing directory. No link below the destination is followed: a file that would be
 * written through a link gives EEXIST. `journal` records temporary files (write.h). */
NODISCARD int fsop_copy(const char *from, const char *to, bool recursive, struct journal *journal,
                        struct err *err);
