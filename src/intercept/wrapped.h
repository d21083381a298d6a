/* wrapped: one question of a wrapper to the broker: its stream, what was read from it, and the answers (escalate_socket.h).
 *
 * A caller of this kind does not wait in execve: it is a wrapper that a shell has executed in place of the program. The wrapper names the
 * program, its arguments and its environment, and may lie, as the memory of a caller in execve may. The kernel says which process it is:
 * the process that has made the stream. Directory, limits and signals are those of this process.
 *
 * Everything that comes is hostile: any descriptor may come in place of a stream, its sender may keep a copy and read and write there too,
 * and any number of descriptors may come with any bytes. No call here waits.
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"
#include "intercept/escalate_socket.h"

#include <sys/types.h>

struct wrapped {
        int stream;
        int pidfd; /* of the process that has made the stream; borrowed, -1: not known yet */
        struct buf in;
        bool is_escalated; /* the answer was Escalate: only a result can follow */
        struct buf env;    /* each NAME=VALUE with its NUL */
        size_t env_count;
        int umask;                         /* -1: not said */
        size_t counted_bytes, counted_fds; /* how much of this stream is in the sums of the broker */
        /* The descriptors that came, in their order. Their numbers come with the last of them. */
        size_t fd_count;
        struct {
                int fd, number;
        } fds[ESCALATE_MORE_FDS];
};

/* Takes a message of the pair (sandbox/exec_pair.h) and the stream that comes with it. Returns the stream; -EAGAIN when there is no
 * message; -EPIPE when there may be none any more; -EPROTO when the message is not a stream, and was dropped; or another -errno. */
NODISCARD int wrapped_accept(int pair);
/* Makes the question of a stream, and owns the stream from then on. */
NODISCARD struct wrapped *wrapped_new(int stream);
struct wrapped *wrapped_free(struct wrapped *w); /* returns NULL */

/* Returns the process that has made the stream, if it is below this process; or -EACCES. */
NODISCARD pid_t wrapped_process(const struct wrapped *w);

/* Reads once. Returns 0, also when there was nothing to read; -EPIPE at the end; -EBADMSG when more came than may come; or another
 * -errno. After an error the stream is of no use. */
NODISCARD int wrapped_read(struct wrapped *w);
/* Each takes the next frame. Returns 1; 0 when it is not complete; or -EBADMSG. The slices point into *w and the arena, until the next
 * call of wrapped_read. */
NODISCARD int wrapped_request(struct wrapped *w, struct arena *a, struct escalate_request *ret);
/* Descriptors must have come in the number that the frame says, and none beside a signal. *ret_signal is 0, or the signal. */
NODISCARD int wrapped_more(struct wrapped *w, struct arena *a, int *ret_signal);

/* Each sends a frame, and fails when the stream does not take all of it at once. Returns 0 or -errno. */
int wrapped_answer(struct wrapped *w, enum escalate_action action, struct slice reason);
int wrapped_result(struct wrapped *w, int wait_status);
/* Called when the program cannot be executed: says so on the caller's standard error, and sends the status that shells have for the error. */
int wrapped_fail(struct wrapped *w, struct slice file, int error); /* error: -errno */
