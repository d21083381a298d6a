/* watch_batch: the changes of one watch that were not sent to the client yet.
 *
 * Changes are merged as they come: a file that was created and then written is reported as created. The two halves of a rename are
 * matched by the cookie of the kernel. A batch is bounded: beyond LIMIT_WATCH_EVENTS or LIMIT_WATCH_EVENT_BYTES it forgets
 * everything and remembers only that something was lost, until the client was told.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"

struct conn;

enum watch_kind { WATCH_CREATED, WATCH_MODIFIED, WATCH_REMOVED, WATCH_RENAMED };

struct watch_change {
        struct list link; /* watch_batch::changes */
        enum watch_kind kind;
        bool is_half;    /* the first half of a rename, whose second half may still come */
        uint32_t cookie; /* the kernel's number of the rename when is_half, else 0 */
        uint64_t at_ms;  /* when the first half of a rename came */
        char *from;      /* the old path for WATCH_RENAMED, else NULL */
        size_t path_n;
        char path[];
};

struct watch_batch {
        struct list changes; /* watch_change::link, in the order in which they came */
        struct map latest;   /* the last change of each path */
        size_t count, bytes;
        size_t halves;       /* how many of the changes are halves */
        bool has_overflowed; /* the client must be told that changes were lost */
};

void watch_batch_init(struct watch_batch *b);
void watch_batch_release(struct watch_batch *b);
bool watch_batch_is_empty(const struct watch_batch *b);

/* Adds a change, unless the last change of the same path says the same already. */
void watch_batch_add(struct watch_batch *b, enum watch_kind kind, struct slice path);
/* Adds the first half of a rename, which counts as a removal unless the second half comes. */
void watch_batch_moved_from(struct watch_batch *b, struct slice path, uint32_t cookie, uint64_t now_ms);
/* Adds the second half of a rename. Returns false, and changes nothing, when the client cannot be told of a rename: the first half
 * is not in the batch, or its path may name another file since. */
NODISCARD bool watch_batch_moved_to(struct watch_batch *b, struct slice path, uint32_t cookie);
/* Keeps later changes from being merged with earlier ones, because the same paths mean something else from now on. */
void watch_batch_stop_merging(struct watch_batch *b);
/* Notes that events were lost. The changes in the batch, and later changes, are sent nevertheless; the last notification tells the
 * client to look at the files again. */
void watch_batch_overflow(struct watch_batch *b);

/* Returns whether the batch has a first half of a rename that came less than `ms` ago. */
bool watch_batch_has_young_half(const struct watch_batch *b, uint64_t now_ms, uint64_t ms);

/* Sends all changes in as many notifications as needed; the batch is empty afterwards. */
void watch_batch_send(struct watch_batch *b, struct conn *c, const char *watch_id);
