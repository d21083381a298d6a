/* finder: bounded text files, and warnings about those that are not. For discover.c. */
#pragma once

#include "base/buf.h"
#include "fsop/discover.h"

struct finder {
        struct arena *arena;
        size_t bytes; /* of all contents so far */
        const char **warnings;
        size_t warning_count, warnings_room;
        struct buf contents; /* scratch */
};

void finder_init(struct finder *f, struct arena *a);
void finder_release(struct finder *f);
#define _finder_ CLEANUP(finder_release)

void finder_warn(struct finder *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* In the arena. */
NODISCARD const char *finder_uri(struct finder *f, struct slice path);

/* The file, when it is there and as it should be. What is missing or not a file is passed over in silence, the rest with a
 * warning. `path` must live as long as the arena. */
NODISCARD bool finder_find(struct finder *f, const char *path, struct found_file *ret);

/* Room for one more in an array of the arena. */
NODISCARD void *finder_grown(struct finder *f, void *array, size_t count, size_t *room, size_t size);
