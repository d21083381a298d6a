/* work: what applying, undoing and showing a patch have in common: the requests, the store, and how an error becomes a result. */
#pragma once

#include "patch/commit.h"
#include "patch/result.h"
#include "patch/store.h"

/* One call of patch_apply and its like. */
struct work {
        struct patch_result *result;
        struct arena *arena; /* of the result */
        const struct patch_options *options;
        struct asks asks;
        struct store *store; /* NULL: there is none */
        struct err no_store; /* why there is none */
};

/* Begins the work: fills *ret as a failure without words, opens the store, and with `may_repair` repairs what was interrupted. */
void work_begin(struct work *w, struct farhand *f, const struct patch_options *o, bool may_repair,
                struct patch_result *ret);
/* Ends the work. Returns 0 or -EIO, as the result says. */
NODISCARD int work_end(struct work *w);

/* Notes in the result why the work failed. `error` gets an LF behind it. */
void work_fail(struct work *w, const char *error, const struct failure *failure);
/* Adds a denial to the list of the result. All denials are added before work_fail_denied is called; that function adds its own when the
 * list is empty. */
void work_add_denial(struct work *w, const struct denial *denial);
void work_fail_denied(struct work *w, const char *error, const struct denial *denial);
/* Notes in the result why a commit failed. */
void work_fail_commit(struct work *w, const struct commit *c);
/* Makes the list of what the hunks have done. */
void work_set_done(struct work *w, const struct draft *d);
