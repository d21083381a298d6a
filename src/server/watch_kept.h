/* watch_kept: events kept while directories are being added to the watcher, in order and bounded. */
#pragma once

#include "base/list.h"
#include "server/watcher.h"

struct watch_kept_event {
        struct list link; /* watch_kept::events */
        uint64_t seq;
        int wd;
        uint32_t mask, cookie;
        size_t name_n;
        char name[];
};

struct watch_kept {
        struct list events; /* watch_kept_event::link, oldest first */
        size_t bytes;
        uint64_t lost_seq; /* of the last one that was dropped for want of room */
};

void watch_kept_init(struct watch_kept *k);
void watch_kept_release(struct watch_kept *k);
void watch_kept_add(struct watch_kept *k, uint64_t seq, int wd, const struct watch_event *ev);
void watch_kept_forget(struct watch_kept *k, uint64_t up_to_seq);
