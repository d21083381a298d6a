/* watch_batch: what a client will be told next of one watch.
 *
 * Events are merged as they come: a file that was created and then written was created. The two halves of a rename find
 * each other by the kernel's cookie. Bounded: beyond LIMIT_WATCH_EVENTS or LIMIT_WATCH_EVENT_BYTES everything is
 * forgotten but that something was lost, until that is told.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"

struct conn;

enum watch_kind { WATCH_CREATED, WATCH_MODIFIED, WATCH_REMOVED, WATCH_RENAMED };

struct watch_change {
        struct list link; /* watch_batch::changes */
        enum watch_kind kind;
        bool is_half; /* of a rename whose other half may still come */
        uint32_t cookie;
        uint64_t at_ms; /* of a half: when it came */
        char *from;     /* of WATCH_RENAMED, else NULL */
        size_t path_n;
        char path[];
};

struct watch_batch {
        struct list changes; /* watch_change::link, in order */
        struct map latest;   /* by path: the last change of it */
        size_t count, bytes;
        size_t halves;
        bool has_overflowed;
};

void watch_batch_init(struct watch_batch *b);
void watch_batch_release(struct watch_batch *b);
bool watch_batch_is_empty(const struct watch_batch *b);

void watch_batch_add(struct watch_batch *b, enum watch_kind kind, struct slice path);
/* Something went away by a rename: removed, unless the other half comes. */
void watch_batch_moved_from(struct watch_batch *b, struct slice path, uint32_t cookie, uint64_t now_ms);
/* Something came by a rename. False when it cannot be told as one: the other half is not here, or what has been told since
 * would make it mean something else. */
NODISCARD bool watch_batch_moved_to(struct watch_batch *b, struct slice path, uint32_t cookie);
/* What comes is not merged with what was: the paths of before mean something else. */
void watch_batch_stop_merging(struct watch_batch *b);
/* Something was lost. What is here and what comes is told all the same: after it, the client looks again. */
void watch_batch_overflow(struct watch_batch *b);

/* Is there a half that came less than `ms` ago? */
bool watch_batch_has_young_half(const struct watch_batch *b, uint64_t now_ms, uint64_t ms);

/* Tells the client, in as many notifications as it takes; the batch is empty afterwards. */
void watch_batch_send(struct watch_batch *b, struct conn *c, const char *watch_id);
