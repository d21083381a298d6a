/* walk: what is below a directory, breadth first (PROTOCOL.md 9.3, fs/walk). */
#pragma once

#include "base/arena.h"
#include "fsop/fsop.h"

#define WALK_DEPTH_MAX 64
#define WALK_DIRECTORIES_MAX 10000
#define WALK_ENTRIES_MAX 50000
#define WALK_ANSWER_BYTES (4 * 1024 * 1024) /* 64 bytes and the text for each item; beyond: truncated */

struct walk_options {
        uint64_t max_depth, max_directories, max_entries;
        bool follow_directory_links, prune_hidden;
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

NODISCARD int fsop_walk(struct arena *a, const char *path, const struct walk_options *o,
                        struct walk_result *ret, struct err *err);
