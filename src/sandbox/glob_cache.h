/* glob_cache: glob_scan with a memory.
 *
 * The tree of a query is kept, and every directory in it is watched by inotify. The next time the events are read and
 * only the names that they tell of are looked at again. Never stale: the kernel queues the event of a change before the
 * change returns to whoever made it, and the queue is read before every answer. What no event tells of is looked at each
 * time: where the prefixes lead, which file systems are mounted, what could not be read before. Where events are not
 * to be trusted (network file systems, FUSE), where watches run out, or when events were lost, everything is scanned
 * again.
 *
 * For any thread. One mutex: who cannot have it soon scans on its own.
 */
#pragma once

#include "sandbox/glob_scan.h"

#define GLOB_CACHE_SETS 16 /* queries remembered; beyond: the least recently used goes */
#define GLOB_CACHE_WATCHES \
        32768 /* of all of them; beyond: older ones go, and one alone that needs more is scanned each time */
#define GLOB_CACHE_LOCK_MS 1000   /* wait for the mutex; then: scan without it */
#define GLOB_CACHE_RETRY_MS 60000 /* before it is tried again to watch what could not be */

struct glob_cache;

NODISCARD struct glob_cache *glob_cache_new(
        void); /* never fails: where nothing can be watched it only scans */
struct glob_cache *glob_cache_free(struct glob_cache *c);

static inline void glob_cache_freep(struct glob_cache **c)
{
        *c = glob_cache_free(*c);
}
#define _glob_cache_ CLEANUP(glob_cache_freep)

/* As glob_scan. */
NODISCARD int glob_cache_scan(struct glob_cache *c, const struct glob_query *query, struct glob_matches **ret,
                              struct err *err);

/* How often it had to read whole trees, for tests and statistics. */
NODISCARD uint64_t glob_cache_full_scans(struct glob_cache *c);
