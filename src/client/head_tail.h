/* head_tail: the beginning and the end of a long output, bounded.
 *
 * The first half of the room is for the beginning, which stays; what follows goes to the other half, which forgets its oldest bytes.
 * Bytes that were forgotten are counted. Byte for byte: a character may be cut at the seam.
 */
#pragma once

#include "base/buf.h"

struct head_tail {
        struct buf head,
                tail; /* `tail` is cut back when it has twice its room, so that not every byte is moved */
        size_t head_max, tail_max;
        bool is_head_over;      /* the head takes nothing more, also when it has room */
        uint64_t omitted_bytes; /* before what `tail` holds */
};

void head_tail_init(struct head_tail *h, size_t cap_bytes);
void head_tail_release(struct head_tail *h);
void head_tail_put(struct head_tail *h, struct slice bytes);
/* So many bytes are missing here. There is only one seam: what lies between the head and this place is forgotten with them. */
void head_tail_skip(struct head_tail *h, uint64_t missing_bytes);
/* Returns all that is kept, head and tail, to be freed; *ret_head_bytes and *ret_omitted_bytes say where how much is missing. Nothing is
 * kept afterwards. */
NODISCARD char *head_tail_take(struct head_tail *h, size_t *ret_n, size_t *ret_head_bytes,
                               uint64_t *ret_omitted_bytes);
