/* matches: a query for the denied patterns of a profile, and its answer: the existing paths that match one of them.
 *
 * The caller masks these paths. A pattern is compared with names as they are, hidden and ignored files included, and with
 * the name of a symbolic link itself. Links are followed only on the way to a pattern's prefix (the directories before the
 * first wildcard); the answer holds real paths. Nothing is searched below a directory that matches, because all of it is
 * denied. A directory that cannot be read, or whose path leaves no room for another name, could hide a match and
 * counts as one.
 *
 * The search opens each directory by descriptor, so that a directory that is renamed or replaced meanwhile cannot lead it
 * out of the prefix. The limits below bound the matches, the names and the time. A search that reaches a limit fails,
 * because a match that was not found would not be masked. There is one exception: when more than GLOB_MATCHES_MAX matches
 * are not symbolic links, the answer is marked `is_overfull`, for callers that compare each path with the patterns
 * themselves and need no list.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

#include <stdatomic.h>

#define GLOB_MATCHES_MAX 8192  /* each match becomes a mount; links and other files are counted apart */
#define GLOB_PATTERNS_MAX 1024 /* the most patterns of one query */
/* The most 64-bit words of one state, for all patterns together: about 256,000 characters after the prefixes. */
#define GLOB_WORDS_MAX 4096
#define GLOB_DIRECTORIES_MAX 262144 /* the most directories that are read */
#define GLOB_ENTRIES_MAX 16777216   /* the most names that are looked at for one answer */
/* The most bytes of the states of all directories; a directory with the same state as its parent shares that state. */
#define GLOB_STATE_BYTES_MAX (64 * 1048576)
#define GLOB_MS_MAX 30000 /* the longest time for one answer */

struct glob_query {
        const struct slice *patterns; /* absolute; order and duplicates do not matter */
        size_t count;
        /* how many levels below its prefix a pattern is searched; 0: no limit. 1: only names directly in the prefix */
        uint64_t depth;
        /* may be NULL; another thread sets it, and the search ends with -ECANCELED */
        const atomic_bool *is_cancelled;
};

struct glob_match {
        struct slice path; /* without symbolic links, NUL-terminated */
        uint64_t dev, ino;
        bool is_directory, is_symlink;
        bool is_unreadable; /* a directory that could hide a match; it need not match itself */
};

/* Immutable and reference counted; any thread may use it. */
struct glob_matches {
        atomic_size_t refs;
        bool is_overfull; /* there are more matches than those listed, and none of the missing ones is a link */
        bool has_links;   /* a prefix leads through a symbolic link, or does not exist */
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

/* Returns -E2BIG and fills err: there are too many matches below this prefix. */
int glob_refuse_count(struct err *err, struct slice prefix);
