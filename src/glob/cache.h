/* cache: answers queries as glob_scan does, but remembers the trees of recent queries.
 *
 * The tree of a query is kept, and inotify watches every directory in it. The next query reads the events and examines only
 * the names in them. The answer is never stale: the kernel queues the event of a change before the system call that made it
 * returns, and the queue is read before every answer. Changes without events are checked each time: where the prefixes lead,
 * which file systems are mounted, which directories could not be read. Where events are not reliable (network file systems,
 * FUSE), where there are not enough watches, or when events were lost, everything is scanned again.
 *
 * Any thread may use the cache. There is one mutex; a thread that cannot get it soon scans on its own.
 */
#pragma once

#include "glob/matches.h"

#define GLOB_CACHE_QUERIES 16 /* queries that are remembered; then the least recently used is dropped */
/* The most watches of all queries. Beyond that older queries are dropped; a single query that needs more is scanned each time. */
#define GLOB_CACHE_WATCHES 32768
#define GLOB_CACHE_LOCK_MS 1000 /* how long a thread waits for the mutex before it scans on its own */
/* The pause before the cache tries again to watch a tree that it could not watch. */
#define GLOB_CACHE_RETRY_MS 60000

struct glob_cache;

NODISCARD struct glob_cache *glob_cache_new(void); /* never fails; without inotify it scans each time */
struct glob_cache *glob_cache_free(struct glob_cache *c);

/* Returns what glob_scan would return. */
NODISCARD int glob_cache_scan(struct glob_cache *c, const struct glob_query *query, struct glob_matches **ret,
                              struct err *err);

/* Returns how often whole trees were read, for tests and statistics. */
NODISCARD uint64_t glob_cache_full_scans(struct glob_cache *c);
