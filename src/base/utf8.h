/* utf8: checks whether bytes are UTF-8, whole or piece by piece. ASCII is checked many bytes at a time. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

/* Returns the length of the character that starts at p (1-4), or 0 when it is invalid or cut by the end. */
size_t utf8_sequence(const char *p, size_t n);

bool utf8_is_valid(struct slice s);

/* Writes one character, which is at most 0x10ffff and no surrogate. Returns its length. */
size_t utf8_encode(uint32_t c, char ret[static 4]);

/* Checks a message piece by piece; a character may be split between pieces. `state` starts at 0. Returns false for a piece that
 * makes the message invalid. The message is valid when every piece was and utf8_is_complete(state) holds at its end. */
NODISCARD bool utf8_feed(uint32_t *state, struct slice piece);
static inline bool utf8_is_complete(uint32_t state)
{
        return state == 0;
}
