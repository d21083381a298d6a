/* replay: shows on our terminal what a remote program had written before this program attached.
 *
 * Programs ask their terminal questions: where its cursor is, what kind it is, which colours it has. The terminal answers as if a
 * person typed. If old output with a question were shown again, our terminal would answer again, and the answer would be typed into
 * the program that runs now. So the questions are taken out; all other bytes stay. Questions in the form of 8-bit control
 * characters are not found.
 */
#pragma once

#include "base/buf.h"
#include "cli/remote.h"

#define REPLAY_HELD_MAX 512 /* a longer sequence is no question */

struct replay {
        enum { REPLAY_TEXT, REPLAY_ESC, REPLAY_CSI, REPLAY_STRING, REPLAY_STRING_ESC } state;
        char held[REPLAY_HELD_MAX]; /* a control sequence that has not ended, or the last part of it */
        size_t n;
        bool is_long; /* the beginning of the sequence was written to `out` already */
};

/* Copies `in` without its questions to `out`, which has room for n + REPLAY_HELD_MAX bytes. Returns how many bytes were copied. The
 * input may be split anywhere. */
size_t replay_filter(struct replay *r, const char *in, size_t n, char *out);

/* Reads the output that the server still keeps of a process of this session, and appends it to `ret` without its questions. *ret_seq is
 * the number of the last chunk. Waits for the server. Returns 0, or -errno; then stderr was told why. */
NODISCARD int replay_read(const struct remote *r, struct farhand *f, const char *process_id, struct buf *ret,
                          uint64_t *ret_seq);
