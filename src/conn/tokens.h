/* tokens: a set of capability tokens. Only their digests are kept. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

#define TOKENS_MAX 64
#define TOKEN_DIGEST_BYTES 32 /* SHA-256 */

struct tokens {
        size_t count; /* each token counts once */
        uint8_t digests[TOKENS_MAX][TOKEN_DIGEST_BYTES];
};

void token_digest(struct slice token, uint8_t ret[static TOKEN_DIGEST_BYTES]);

/* Adds a token; one that is in the set already is fine. Returns 0, or -E2BIG when the set is full. */
NODISCARD int tokens_add_digest(struct tokens *t, const uint8_t digest[static TOKEN_DIGEST_BYTES]);
/* Adds each line of `text` as a token, without the blanks around it; skips empty lines. Returns 0, or -E2BIG when the set is
 * full. */
NODISCARD int tokens_add_lines(struct tokens *t, struct slice text);

/* Looks a token up. Takes the same time whether the set has it or not, and wherever it is. */
bool tokens_has(const struct tokens *t, const uint8_t digest[static TOKEN_DIGEST_BYTES]);
