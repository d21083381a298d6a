/* fs_encode: the bytes of a file as base64, straight into the answer.
 *
 * Through a window on the stack that stays in the cache: a buffer as large as the block would be fresh memory each time,
 * whose page faults cost more than reading and encoding together.
 */
#include "base/base64.h"
#include "server/fs_internal.h"

#include <errno.h>
#include <unistd.h>

#define SLACK_BYTES 256
#define WINDOW_BYTES (96 * 1024) /* a multiple of three: only the last piece may have padding */

/* Up to `n` bytes: fewer only at the end of the file. */
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
        /* All at once, with room for what follows, so that the buffer does not grow bit by bit. Where so much does not
         * fit, the file may be shorter than what was asked for. */
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
