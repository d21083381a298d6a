/* walk: what is below a directory, breadth first, the names of each directory sorted by bytes (PROTOCOL.md 9.3, fs/walk).
 *
 * The root is not listed. Links to files, broken links and special files are not listed either; links to directories are
 * when they are followed, and each real directory is entered once. What cannot be entered or examined is an error of its
 * own and does not end the walk.
 */
#pragma once

#include "base/arena.h"
#include "fsop/fsop.h"

#define WALK_DEPTH_MAX 64
#define WALK_DIRECTORIES_MAX 10000
#define WALK_ENTRIES_MAX 50000
/* An answer holds so much: for each item its URI, for an error its message too, and WALK_ITEM_BYTES. Beyond: truncated. */
#define WALK_ANSWER_BYTES ((size_t)4 * 1024 * 1024)
#define WALK_ITEM_BYTES ((size_t)64)

struct walk_options {
        uint64_t max_depth;       /* 0: only what is in the root */
        uint64_t max_directories; /* how many are entered, the root among them; more: truncated */
        uint64_t
                max_entries; /* names examined, listed or not, but for broken links; more: truncated at once */
        bool follow_directory_links;
        bool prune_hidden; /* directories whose name begins with a dot are listed, not entered */
};

struct walk_item {
        struct slice path; /* absolute, bytes; in the arena */
        bool is_directory;
};

struct walk_error {
        struct slice path;
        const char *message;
};

struct walk_result {
        struct walk_item *items;
        size_t count;
        struct walk_error *errors;
        size_t error_count;
        bool is_truncated;
};

/* A root that is no directory, or a link when they are not followed, has nothing below. One that cannot be looked at is an
 * error. Limits that are zero or above the maximums are refused with the words that clients know. */
NODISCARD int fsop_walk(struct arena *a, const char *path, const struct walk_options *o,
                        struct walk_result *ret, struct err *err);
