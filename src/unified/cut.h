/* cut: output as text for a model: bytes become UTF-8, and what is more than a budget allows is cut out of the middle.
 *
 * A token counts as four bytes. Pure functions; every text that they make is valid UTF-8, because cuts are made between characters.
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

#define CUT_TOKEN_BYTES 4

enum cut_unit { CUT_TOKENS, CUT_BYTES };

/* How much a model takes. In the unit CUT_BYTES the mark of a cut counts characters instead of tokens. */
struct cut_budget {
        enum cut_unit unit;
        uint64_t bytes; /* UINT64_MAX: any number */
};
#define CUT_NO_BUDGET ((struct cut_budget){ .bytes = UINT64_MAX })

/* Returns how many tokens so many bytes are: a fourth of them, rounded up. */
NODISCARD uint64_t cut_tokens(uint64_t bytes);
/* Returns the bytes of so many tokens; UINT64_MAX when they are too many to count. */
NODISCARD uint64_t cut_token_bytes(uint64_t tokens);

/* What was collected of an output: `head_bytes` of it, then a seam where `omitted_bytes` are missing, then the rest. */
struct cut_output {
        struct slice bytes;
        size_t head_bytes;
        uint64_t omitted_bytes; /* 0: there is no seam */
};

/* Appends the output as UTF-8, with U+FFFD in place of bytes that are no UTF-8. At the seam stands a line `... N bytes omitted ...`.
 * Returns 0 or -ENOBUFS. */
NODISCARD int cut_render(struct buf *out, const struct cut_output *output);

/* Appends the beginning and the end of `text`, `budget.bytes` in all at most, with `…N tokens truncated…` or `…N chars truncated…`
 * between them. The mark does not count. A text within the budget is appended as it is. */
NODISCARD int cut_middle(struct buf *out, struct slice text, struct cut_budget budget);

/* Appends a rendered output within the budget: as it is, or with two lines before it that say that it was cut. `output` tells how much
 * there was before any cut. */
NODISCARD int cut_for_model(struct buf *out, struct slice text, const struct cut_output *output,
                            struct cut_budget budget);
