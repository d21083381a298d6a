/* output: the recent output of one process, numbered, bounded.
 *
 * Chunks are appended under numbers that the process hands out (exit and close take numbers of the same sequence) and kept
 * until their sum or their count passes the cap; then the oldest are dropped. A reader says "after n" and gets what is still
 * here; dropped bytes are counted.
 *
 * The beginning of each stream is kept as well (half the cap), for an excerpt of a long output; and how much was dropped
 * before which chunk, so that a late reader can be told what it missed.
 *
 * Invariants: numbers rise; bytes <= cap unless a single chunk is larger; the sum of all outputs is kept in *total.
 */
#pragma once

#include "base/buf.h"
#include "base/compat.h"
#include "base/slice.h"

enum stream { STREAM_STDOUT, STREAM_STDERR, STREAM_PTY, STREAMS };
const char *stream_name(enum stream s); /* as in the protocol */

struct chunk {
        struct chunk *next, *prev;
        uint64_t end; /* bytes of all streams up to and with this chunk */
        uint64_t seq;
        uint32_t len;
        uint8_t stream;
        char bytes[];
};

static inline struct slice chunk_slice(const struct chunk *c)
{
        return slice_from(c->bytes, c->len);
}

/* The beginning of one stream, kept beside the recent chunks. */
struct output_stream {
        uint64_t bytes; /* all bytes of the stream so far */
        size_t head_len;
        char *head;
};

struct output_mark; /* where a dropped chunk ended */

struct output {
        struct chunk *first, *last;
        size_t count;
        uint64_t bytes;
        uint64_t cap_bytes;
        uint64_t *total;        /* memory of all outputs, which share this number */
        uint64_t dropped_bytes; /* all that were dropped since the process began */
        struct output_stream streams[STREAMS];
        struct output_mark *marks; /* a ring of the chunks that were dropped last */
        size_t mark_count, mark_next;
        uint64_t dropped_seq; /* chunks up to this number may be gone */
};

/* A part of the output that a reader asks for and that is no longer there. */
struct output_gap {
        uint64_t from_seq, to_seq, bytes;
};

void output_init(struct output *o, uint64_t cap_bytes, uint64_t *total);
void output_release(struct output *o);

/* Appends a chunk with a copy of `bytes` (not empty, at most 4 GiB - 1). */
void output_append(struct output *o, enum stream stream, uint64_t seq, struct slice bytes);

/* Drops the oldest chunk; returns false when there is none. For the cap over all processes. */
bool output_drop_oldest(struct output *o);

/* Returns the first kept chunk after `after_seq`, or NULL; follow `next` from there. */
NODISCARD const struct chunk *output_after(const struct output *o, uint64_t after_seq);

/* Says which chunks after `after_seq` were dropped; returns false when none were. The bytes are exact when `after_seq` is 0, or when
 * the last OUTPUT_MARKS dropped chunks reach back to it. Otherwise they count everything that was dropped. */
#define OUTPUT_MARKS 1024
NODISCARD bool output_gap_after(const struct output *o, uint64_t after_seq, struct output_gap *ret);

/* Frees the kept beginnings; for the cap over all processes. Returns false when there was none. */
bool output_drop_heads(struct output *o);

/* Appends the beginning and the end of one stream to `ret`, at most `max` bytes together, half of them from the beginning. Returns
 * the number of bytes that are left out. */
uint64_t output_snapshot(const struct output *o, enum stream stream, uint64_t max, struct buf *ret);
