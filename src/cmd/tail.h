/* tail: the newest output of a command, kept to be searched after a failure. */
#pragma once

#include "base/limits.h"
#include "base/slice.h"

struct tail {
        size_t n;
        bool is_cut; /* older output was dropped */
        char bytes[2 * LIMIT_REFUSED_TEXT_BYTES];
};

void tail_add(struct tail *t, struct slice bytes);
/* Returns the kept output, at most LIMIT_REFUSED_TEXT_BYTES. It begins with a whole line. */
NODISCARD struct slice tail_text(const struct tail *t);
/* Does the output end without a newline? */
NODISCARD bool tail_is_open(const struct tail *t);
