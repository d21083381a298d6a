/* utf8: is it, and how far. Vector-fast on ASCII. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

/* Length of the valid sequence that starts at p (1-4), or 0 when it is invalid or cut by the end. */
size_t utf8_sequence(const char *p, size_t n);

bool utf8_is_valid(struct slice s);

/* Incremental check over pieces that may split characters: `state` starts at 0. False as soon as it is invalid.
 * A message is valid when every piece was and utf8_is_complete(state) holds at its end. */
NODISCARD bool utf8_feed(uint32_t *state, struct slice piece);
static inline bool utf8_is_complete(uint32_t state)
{
        return state == 0;
}
