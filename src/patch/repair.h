/* repair: finishes or takes back patches that were interrupted. */
#pragma once

#include "patch/ask.h"
#include "patch/store.h"

/* Looks for journals without an owner. A patch whose changes are all done is finished; another is taken back. Appends to `notes`, for
 * people, what was done and what could not be: lines with LF. */
void repair_patches(struct asks *s, struct store *store, struct buf *notes);
