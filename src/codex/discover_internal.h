/* discover_internal: the finder of discover.c, which reads bounded text files and collects warnings about those that cannot be
 * used. */
#pragma once

#include "base/buf.h"
#include "codex/discover.h"

struct finder {
        struct arena *arena;
        size_t bytes; /* size of all contents so far */
        const char **warnings;
        size_t warning_count, warnings_room;
        struct buf contents; /* of the file that is being read */
};

void finder_init(struct finder *f, struct arena *a);
void finder_release(struct finder *f);

void finder_warn(struct finder *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Returns the URI of a path, in the arena. */
NODISCARD const char *finder_uri(struct finder *f, struct slice path);

/* Reads the file. A path that is missing or not a regular file is skipped without a warning; any other failure adds one. `path`
 * must live as long as the arena. */
NODISCARD bool finder_find(struct finder *f, const char *path, struct found_file *ret);
