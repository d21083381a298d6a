/* head_tail: keeps the beginning and the end of a long output, up to a limit.
 *
 * The first half of the room is for the beginning of the output, which stays. Later bytes go into the second half, which forgets
 * its oldest bytes and counts the forgotten ones. The place where bytes are missing is the seam; a character of several bytes may
 * be cut there.
 */
#pragma once

#include "base/buf.h"

struct head_tail {
        /* `tail` is cut back only when it holds twice tail_max bytes, so that not every new byte moves all others. */
        struct buf head, tail;
        size_t head_max, tail_max;
        bool is_head_over;      /* the head takes no more bytes, even if it has room */
        uint64_t omitted_bytes; /* how many bytes are missing before those in `tail` */
};

void head_tail_init(struct head_tail *h, size_t cap_bytes);
void head_tail_release(struct head_tail *h);
void head_tail_put(struct head_tail *h, struct slice bytes);
/* Notes that `missing_bytes` of the output are missing at this place. There is only one seam: the bytes between the head and this
 * place are forgotten too. */
void head_tail_skip(struct head_tail *h, uint64_t missing_bytes);
/* Returns all kept bytes, head and tail, which the caller frees. *ret_omitted_bytes are missing behind the first *ret_head_bytes.
 * Nothing is kept afterwards. */
NODISCARD char *head_tail_take(struct head_tail *h, size_t *ret_n, size_t *ret_head_bytes,
                               uint64_t *ret_omitted_bytes);
