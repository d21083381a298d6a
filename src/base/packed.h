/* packed: fields one after the other, as programs of ours tell them to each other: numbers are little-endian, a text has its length
 * in front of it.
 *
 * The bytes that are read may come from an enemy. A reader takes field after field and remembers the first one that is broken;
 * after that every field reads as zero or empty, so a decoder asks once, at the end (unpack_end). Slices point into the input.
 * A writer remembers the first field that did not fit in the same way.
 */
#pragma once

#include "base/buf.h"
#include "base/compat.h"
#include "base/slice.h"

struct unpacker {
        struct slice rest;
        bool is_broken;
};

static inline struct unpacker unpack_begin(struct slice in)
{
        return (struct unpacker){ .rest = in };
}

NODISCARD uint64_t unpack_number(struct unpacker *u, size_t bytes); /* bytes: 1 to 8 */
/* As unpack_number; above `max` the input is broken, and the result is 0. */
NODISCARD uint64_t unpack_number_to(struct unpacker *u, size_t bytes, uint64_t max);
NODISCARD bool unpack_flag(struct unpacker *u);                    /* one byte, which must be 0 or 1 */
NODISCARD struct slice unpack_bytes(struct unpacker *u, size_t n); /* exactly n bytes */
NODISCARD struct slice unpack_text(struct unpacker *u,
                                   uint32_t max); /* a length of 4 bytes, and so many bytes */
/* Reads how many elements follow. A count of which not even the shortest elements would fit into the rest is broken: no memory is
 * allocated for what cannot be there. `least` is at least 1. */
NODISCARD uint32_t unpack_count(struct unpacker *u, uint32_t max, size_t least);
/* Returns 0 when every field was good and nothing is left, else -EPROTO. */
NODISCARD int unpack_end(const struct unpacker *u);

struct packer {
        struct buf *out;
        size_t at; /* where this writer began: a failed one leaves `out` as it was */
        int error; /* -errno of the first field that failed; 0: none */
};

static inline struct packer pack_begin(struct buf *out)
{
        return (struct packer){ .out = out, .at = out->n };
}

void pack_number(struct packer *p, size_t bytes, uint64_t v);
void pack_flag(struct packer *p, bool v);
void pack_bytes(struct packer *p, struct slice bytes);
void pack_text(struct packer *p, struct slice text, uint32_t max); /* longer: -EMSGSIZE */
void pack_count(struct packer *p, size_t count, uint32_t max);     /* more: -EMSGSIZE */
/* Returns 0, -EMSGSIZE, or -ENOBUFS when `out` is full. */
NODISCARD int pack_end(struct packer *p);
