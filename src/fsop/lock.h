/* lock: the locks of names and files (name_lock_internal.h) of several processes, all of them in one: a process that does
 * file requests for another asks that one. */
#pragma once

#include "base/compat.h"

#include <stdint.h>

/* In the process that asks: a number, or -errno. */
struct lock_remote {
        int (*take)(void *arg, uint64_t dev, uint64_t ino, const char *name);
        void (*release)(void *arg, int number);
        void *arg;
};
void lock_set_remote(const struct lock_remote *remote); /* must stay */

/* In the one that is asked, for it: waits so long at most, because it is not believed. -ETIMEDOUT. */
struct name_lock;
NODISCARD int lock_take(uint64_t dev, uint64_t ino, const char *name, unsigned wait_ms,
                        struct name_lock **ret);
struct name_lock *lock_release(struct name_lock *l); /* NULL is fine; returns NULL */
