/* glob_scan: what exists and matches the denied patterns of a profile, so that it can be masked.
 *
 * A name matches as it stands: hidden and ignored ones too, and a link by its own name. Links are never followed, but
 * for those on the way to a pattern's prefix; the answer has the real path. A directory that matches is not looked into:
 * all below it is denied with it. One that cannot be read, or whose path leaves no room for a name, could hide a
 * match: it counts as one.
 *
 * The walk goes by descriptors: nothing that is renamed or replaced meanwhile leads it out of the prefix. It is bounded
 * in what it finds, looks at and takes; at a bound it is refused, because a match that is not found is a hole.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

#include <stdatomic.h>

#define GLOB_MATCHES_MAX 8192       /* each becomes a mount */
#define GLOB_PATTERNS_MAX 1024      /* of one query */
#define GLOB_WORDS_MAX 4096         /* of all their states: about 256,000 characters behind the prefixes */
#define GLOB_DIRECTORIES_MAX 262144 /* read */
#define GLOB_ENTRIES_MAX 16777216   /* names looked at in one go */
#define GLOB_STATE_BYTES_MAX \
        (64 * 1048576)    /* of all directories; those that go on as their parent does need none */
#define GLOB_MS_MAX 30000 /* for one answer */

struct glob_query {
        const struct slice *patterns; /* absolute; order and duplicates do not matter */
        size_t count;
        uint64_t depth; /* below the prefix of each; 0: no bound. 1: what is in the prefix itself */
        const atomic_bool *is_cancelled; /* may be NULL; set by another thread: -ECANCELED soon */
};

struct glob_match {
        struct slice path; /* real, with a NUL behind it */
        uint64_t dev, ino;
        bool is_directory, is_symlink;
        bool is_unreadable; /* matches no pattern: see above */
};

/* Immutable and counted; by any thread. */
struct glob_matches {
        atomic_size_t refs;
        size_t count;
        struct glob_match list[]; /* sorted by path, `/` before all other bytes; none is below another */
};

struct glob_matches *glob_matches_ref(struct glob_matches *m);
struct glob_matches *glob_matches_unref(struct glob_matches *m); /* NULL is fine; returns NULL */

static inline void glob_matches_unrefp(struct glob_matches **m)
{
        *m = glob_matches_unref(*m);
}
#define _glob_matches_ CLEANUP(glob_matches_unrefp)

/* -errno with err (step "glob scan"): -EINVAL for a pattern, -E2BIG for too much of something, -ETIMEDOUT, -ECANCELED,
 * or what the file system says. A prefix that does not exist has no matches. Blocks. */
NODISCARD int glob_scan(const struct glob_query *query, struct glob_matches **ret, struct err *err);
