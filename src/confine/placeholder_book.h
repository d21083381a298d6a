/* placeholder_book: the placeholders (sandbox/placeholder.h) that may exist on the disk now, also written to the journal.
 *
 * Keepers and the spawner remove placeholders, also when the server is killed. When all of them are killed at once the next
 * server removes what the journal names. A placeholder that cannot be removed (its directory is not writable any more)
 * stays in the book and is tried again. Commands that share a placeholder share its entry. All functions may be called from
 * any thread.
 */
#pragma once

#include "base/map.h"
#include "confine/prepare.h"
#include "fsop/journal.h"
#include "sandbox/image.h"

#include <pthread.h>

struct placeholder_book {
        pthread_mutex_t lock;
        struct map entries; /* by path */
        size_t stuck;       /* how many entries could not be removed */
};

struct placeholder_entry;

/* The entries of one sandbox. */
struct placeholder_entries {
        struct placeholder_entry **list;
        size_t count;
};

void placeholder_book_init(struct placeholder_book *b);
void placeholder_book_release(struct placeholder_book *b);

/* Enters the placeholders of a plan. To be called before they are made. Without a journal, or when it is full, they are only in the
 * book. */
void placeholder_book_enter(struct placeholder_book *b, struct journal *j, const struct plan *plan,
                            struct placeholder_entries *ret);
/* Strikes the placeholders of a command that is over from the book, and removes those that keeper and spawner have left. This may
 * take a second. Placeholders that cannot be removed stay in the book and in the journal, up to LIMIT_STUCK_PLACEHOLDERS. */
void placeholder_book_strike(struct placeholder_book *b, struct journal *j, struct placeholder_entries *e,
                             struct image *image);

/* Tries again to remove the placeholders that could not be removed; blocks. `preparer` has the locks that count their users. */
void placeholder_book_retry(struct placeholder_book *b, struct journal *j, struct preparer *preparer);
/* Returns how many placeholders wait for another try. */
NODISCARD size_t placeholder_book_stuck(struct placeholder_book *b);

/* For journal_sweep: removes a placeholder that a dead server left. Returns false when others still use the placeholder or it
 * cannot be removed: then it stays in the journal of that server. */
NODISCARD bool placeholder_book_sweep(void *preparer, const char *directory, const char *name);
