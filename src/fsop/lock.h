/* lock: lets several processes share the locks of names and files (name_lock_internal.h): the server holds all locks, and an fs
 * helper asks the server for them. */
#pragma once

#include "base/compat.h"

#include <stdint.h>

/* How an fs helper asks the server for a lock. `take` returns the number of the lock, or -errno. */
struct lock_remote {
        int (*take)(void *arg, uint64_t dev, uint64_t ino, const char *name);
        void (*release)(void *arg, int number);
        void *arg;
};
void lock_set_remote(const struct lock_remote *remote); /* `remote` must stay valid until the process ends */

/* The server takes a lock for an fs helper. It waits for a bounded time (-ETIMEDOUT), because the fs helper is not trusted. */
struct name_lock;
NODISCARD int lock_take(uint64_t dev, uint64_t ino, const char *name, unsigned wait_ms,
                        struct name_lock **ret);
struct name_lock *lock_release(struct name_lock *l); /* NULL is fine; returns NULL */
