/* walk: lists what is below a directory, breadth first, the names of each directory sorted by bytes (docs/PROTOCOL.md, fs/walk).
 *
 * The root is not listed, nor are links to files, broken links and special files. Links to directories are listed when links are
 * followed; each real directory is entered once. A directory that cannot be entered, or a name that cannot be examined, adds an
 * error to the result and does not end the walk.
 */
#pragma once

#include "base/arena.h"
#include "fsop/fsop.h"
#include "reach/reach.h"

#define WALK_DEPTH_MAX 64
#define WALK_DIRECTORIES_MAX 10000
#define WALK_ENTRIES_MAX 50000
/* The walk is truncated when the answer would be larger than this. An item counts as its URI and WALK_ITEM_BYTES, an error as its
 * message and the paths of its refusal, too. */
#define WALK_ANSWER_BYTES ((size_t)4 * 1024 * 1024)
#define WALK_ITEM_BYTES ((size_t)64)

struct walk_options {
        uint64_t max_depth;       /* 0: only what is in the root */
        uint64_t max_directories; /* how many are entered, the root among them; beyond: truncated */
        /* How many names are examined, listed or not, not counting broken links; beyond: truncated at once. */
        uint64_t max_entries;
        bool follows_directory_links;
        bool prunes_hidden; /* directories whose name begins with a dot are listed, but not entered */
};

struct walk_item {
        struct slice path; /* absolute, bytes; in the arena */
        bool is_directory;
};

struct walk_error {
        struct slice path;
        const char *message;
        const struct reach_refusal *denied; /* the refusal that is the reason; NULL: none */
};

struct walk_result {
        struct walk_item *items;
        size_t count;
        struct walk_error *errors;
        size_t error_count;
        bool is_truncated;
};

/* Walks what is below `path`. The result is empty when `path` is no directory, or is a link and links are not followed. It is an
 * error when `path` cannot be looked at, or when a limit is zero or above its maximum (with the texts that clients know). */
NODISCARD int fsop_walk(struct arena *a, const char *path, const struct walk_options *o,
                        struct walk_result *ret, struct err *err);
