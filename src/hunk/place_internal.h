/* place_internal: place_find with a choice of the memory for the search, for tests. */
#pragma once

#include "hunk/place.h"

/* As place_find. What is needed only during the search lies in `scratch`; `room` is that of the buffer (lines.h). */
NODISCARD int place_find_in(struct arena *scratch, size_t room, struct arena *a, const struct hunk *h,
                            struct slice path, const struct reader *r, struct edits *ret,
                            struct patch_error *ret_error, struct err *err);
