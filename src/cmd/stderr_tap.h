/* stderr_tap: keeps the end of what a command writes to a standard error that is no terminal (for terminals: cmd/relay.h).
 *
 *     a file       passed on as it is; what was written to it is read afterwards
 *     a pipe       the command gets another pipe, and bytes are carried from it to the real one
 *     all others   passed on as it is; what was written is not known
 *
 * Only a pipe has to be replaced, because it can be read only once; its replacement is a pipe as well. A standard output
 * that is the same pipe (2>&1) is replaced by the same new pipe, otherwise the order of the two would be lost. Any other
 * standard output is not touched: it carries most of the output of most commands.
 *
 * The command sees no difference: each write of up to PIPE_BUF bytes stays one write, so that writes of other processes to
 * the real pipe do not get in between; a slow reader makes the command wait; and when the reader is gone the command gets
 * EPIPE. Only a process outside to which the command has sent our pipe over a unix socket loses the pipe when we end.
 */
#pragma once

#include "base/compat.h"
#include "cmd/tail.h"

#include <poll.h>
#include <sys/types.h>

#define STDERR_TAP_FDS 2
#define STDERR_TAP_BYTES 65536

struct stderr_tap {
        struct tail *tail; /* borrowed */
        bool is_file;
        off_t from;      /* the offset in the file at which the command begins to write */
        int in, out;     /* the read end of our pipe, and the real pipe; -1: not open */
        bool is_out_own; /* `out` was opened again, so that O_NONBLOCK is safe */
        int write_end;   /* our pipe's write end until the command has it; then -1 */
        size_t off, n;   /* the bytes that are read and not written yet */
        char bytes[STDERR_TAP_BYTES];
};

/* Makes a tap that does nothing until stderr_tap_open. */
void stderr_tap_init(struct stderr_tap *t);
/* Opens the tap. `stdio` has the descriptors for the command; those that have to be replaced are changed. A standard error that
 * cannot be tapped is left as it is. */
void stderr_tap_open(struct stderr_tap *t, struct tail *tail, int stdio[static 3]);
/* Closes our copy of the write end. To be called when the command has its descriptors. */
void stderr_tap_close_write_end(struct stderr_tap *t);
/* stderr_tap_prepare fills the array for poll; stderr_tap_carry carries bytes after poll. */
void stderr_tap_prepare(const struct stderr_tap *t, struct pollfd fds[STDERR_TAP_FDS]);
void stderr_tap_carry(struct stderr_tap *t, const struct pollfd fds[STDERR_TAP_FDS]);
/* After the last process of the sandbox is gone: carries the rest, however long the reader takes. It stops when a signal
 * comes (`signals`: a signalfd), or when a signal came before the command ended (`is_told_to_end`) and the reader has taken
 * nothing for a second. */
void stderr_tap_drain(struct stderr_tap *t, int signals, bool is_told_to_end);
/* Writes a text of ours to standard error, behind all output. It waits only briefly for room in a pipe, whose reader may be
 * waiting for our end. At most PIPE_BUF bytes. */
void stderr_tap_say(struct stderr_tap *t, struct slice text);
void stderr_tap_close(struct stderr_tap *t);
