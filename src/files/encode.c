/* encode: writes the content of a file as base64 straight into the answer.
 *
 * The content passes through a window on the stack, which stays in the cache. A buffer as large as the block would be fresh
 * memory each time, and its page faults cost more than reading and encoding together.
 */
#include "base/base64.h"
#include "files/answer.h"

#include <errno.h>
#include <unistd.h>

#define SLACK_BYTES 256
#define WINDOW_BYTES (96 * 1024) /* a multiple of three: only the last piece may have padding */

/* Reads `n` bytes; fewer only at the end of the file. Returns how many, or -errno. */
static ssize_t read_full(int fd, char *to, size_t n, uint64_t offset)
{
        size_t done = 0;
        while (done < n) {
                if (offset + done > INT64_MAX)
                        return done > 0 ? (ssize_t)done : -EINVAL;
                ssize_t r = pread(fd, to + done, n - done, (off_t)(offset + done));
                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return -errno;
                if (r == 0)
                        break;
                done += (size_t)r;
        }
        return (ssize_t)done;
}

ssize_t fs_encode(struct buf *out, int fd, uint64_t offset, size_t n)
{
        char window[WINDOW_BYTES], *to;
        size_t done = 0;
        /* Reserves everything at once, so that the buffer does not grow step by step. If that is beyond the ceiling, each piece is
         * reserved after it was read: the file may be shorter than `n`. */
        int may_grow = buf_reserve(out, base64_encoded_size(n) + SLACK_BYTES, &to);
        while (done < n) {
                size_t want = MIN(n - done, sizeof(window));
                ssize_t r = read_full(fd, window, want, offset + done);
                if (r < 0)
                        return r;
                if (may_grow < 0 && buf_reserve(out, base64_encoded_size((size_t)r), &to) < 0)
                        return -EMSGSIZE;
                size_t length = base64_encode(to, window, (size_t)r);
                buf_commit(out, length);
                to += length;
                done += (size_t)r;
                if ((size_t)r < want)
                        break;
        }
        return (ssize_t)done;
}
