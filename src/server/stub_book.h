/* stub_book: which stubs of sandboxes (sandbox/stub.h) may exist now, written down where a crash does not reach.
 *
 * Keepers and the spawner remove stubs, also when the server is killed. Only when all of them are killed at once does
 * anything stay, and the next start of a server removes what the journal names. Commands that share a stub share its entry.
 * From any thread.
 */
#pragma once

#include "base/map.h"
#include "fsop/journal.h"
#include "sandbox/plan.h"

#include <pthread.h>

struct stub_book {
        pthread_mutex_t lock;
        struct map entries; /* by path */
};

struct stub_entry;

/* The entries of one sandbox. */
struct stub_entries {
        struct stub_entry **list;
        size_t count;
};

void stub_book_init(struct stub_book *b);
void stub_book_release(struct stub_book *b);

/* Before the stubs are made. Without a journal, or when it is full, they are remembered here only. */
void stub_book_enter(struct stub_book *b, struct journal *j, const struct plan *plan,
                     struct stub_entries *ret);
/* When they are gone. */
void stub_book_strike(struct stub_book *b, struct journal *j, struct stub_entries *e);

/* For journal_sweep: what a dead server left. */
void stub_book_sweep(const char *directory, const char *name);
