/* output: the recent output of one process, numbered, bounded.
 *
 * Chunks are appended under numbers that the process hands out (exit and close take numbers of the same row) and kept
 * until their sum or their count passes the cap; then the oldest go. A reader says "after n" and gets what is still
 * here; what was dropped is counted.
 *
 * Invariants: numbers rise; bytes <= cap unless a single chunk is larger; the sum of all outputs is kept in *total.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

enum stream { STREAM_STDOUT, STREAM_STDERR, STREAM_PTY };
const char *stream_name(enum stream s); /* as on the wire */

struct chunk {
        struct chunk *next, *prev;
        uint64_t seq;
        uint32_t len;
        uint8_t stream;
        char bytes[];
};

static inline struct slice chunk_slice(const struct chunk *c)
{
        return slice_from(c->bytes, c->len);
}

struct output {
        struct chunk *first, *last;
        size_t count;
        uint64_t bytes;
        uint64_t cap_bytes;
        uint64_t *total;        /* memory of all outputs, shared */
        uint64_t dropped_bytes; /* in all */
        uint64_t dropped_seq;   /* chunks up to this number may be gone */
};

void output_init(struct output *o, uint64_t cap_bytes, uint64_t *total);
void output_release(struct output *o);

/* Copies `bytes` (not empty, at most 4 GiB - 1). */
void output_append(struct output *o, enum stream stream, uint64_t seq, struct slice bytes);

/* Drops the oldest chunk; false when there is none. For the cap over all processes. */
bool output_drop_oldest(struct output *o);

/* The first kept chunk behind `after_seq`, or NULL; follow `next` from there. */
NODISCARD const struct chunk *output_after(const struct output *o, uint64_t after_seq);
