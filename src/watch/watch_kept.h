/* watch_kept: the events that are kept while a pass adds directories to the watcher, in order and up to a limit. */
#pragma once

#include "base/list.h"
#include "base/slice.h"

/* An event as a listener gets it. `name` is empty when the event is about the watched directory itself; `name` is valid only during
 * the call of the listener. */
struct watch_event {
        uint32_t mask, cookie;
        struct slice name;
};

struct watch_kept_event {
        struct list link; /* watch_kept::events */
        uint64_t seq;     /* the watcher numbers all events */
        int wd;
        uint32_t mask, cookie;
        size_t name_n;
        char name[];
};

struct watch_kept {
        struct list events; /* watch_kept_event::link, oldest first */
        size_t bytes;
        uint64_t lost_seq; /* number of the last event that the kernel or a full list dropped */
};

void watch_kept_init(struct watch_kept *k);
void watch_kept_add(struct watch_kept *k, uint64_t seq, int wd, const struct watch_event *ev);
/* Drops the events with numbers up to `up_to_seq`; UINT64_MAX: all events. */
void watch_kept_forget(struct watch_kept *k, uint64_t up_to_seq);
