/* caller_memory: reads strings from the memory of another process (caller_memory.h).
 *
 * Few system calls: many pieces are read in one. No piece crosses a page, so that a page that is missing cuts off only the pieces behind
 * it: process_vm_readv returns what it has read before.
 */
#include "intercept/caller_memory.h"

#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/uio.h>

#define PAGE 4096 /* the smallest page that there is */
#define PIECE 256 /* how much of a string is read at first: most strings are shorter */
#define STRINGS_AT_ONCE 64
#define PAGES_AT_ONCE 64

static size_t to_page_end(uint64_t at, size_t max)
{
        size_t left = PAGE - (size_t)(at % PAGE);
        return MIN(left, max);
}

/* Reads pieces. Returns how many bytes were read, at least 1, or -errno. */
static ssize_t pieces_read(pid_t thread, const struct iovec *to, const struct iovec *from, size_t count)
{
        ssize_t n = process_vm_readv(thread, to, count, from, count, 0);
        if (n > 0)
                return n;
        return n < 0 && errno != EFAULT ? (errno == EPERM ? -EACCES : -errno) : -EFAULT;
}

static struct iovec piece_of(uint64_t at, size_t n)
{
        return (struct iovec){ .iov_base = (void *)(uintptr_t)at, .iov_len = n };
}

int caller_memory_string(pid_t thread, uint64_t at, struct buf *text)
{
        size_t before = text->n;
        for (size_t pages = 1;; pages = MIN(pages * 4, (size_t)PAGES_AT_ONCE)) {
                struct iovec to[PAGES_AT_ONCE], from[PAGES_AT_ONCE];
                size_t n = 0, used = 0, room = text->cap - text->n;
                char *p;
                while (used < pages && n < room) {
                        size_t step = to_page_end(at + n, room - n);
                        from[used++] = piece_of(at + n, step);
                        n += step;
                }
                if (n == 0 || buf_reserve(text, n, &p) < 0) {
                        buf_truncate(text, before);
                        return -ENOBUFS;
                }
                to[0] = (struct iovec){ p, n };
                for (size_t i = 0, done = 0; i < used; done += from[i++].iov_len)
                        to[i] = (struct iovec){ p + done, from[i].iov_len };
                ssize_t got = pieces_read(thread, to, from, used);
                if (got < 0) {
                        buf_truncate(text, before);
                        return (int)got;
                }
                const char *end = memchr(p, 0, (size_t)got);
                buf_commit(text, end ? (size_t)(end - p) + 1 : (size_t)got);
                if (end)
                        return 0;
                at += (size_t)got;
        }
}

/* Appends `count` strings. `room` is how many bytes they may have. */
static int strings_append(pid_t thread, const uint64_t *at, size_t count, size_t room, struct buf *text)
{
        char first[STRINGS_AT_ONCE][PIECE];
        struct iovec to[STRINGS_AT_ONCE] = { { 0 } }, from[STRINGS_AT_ONCE] = { { 0 } };
        size_t begin = text->n;
        for (size_t i = 0; i < count; i++) {
                size_t n = to_page_end(at[i], PIECE);
                to[i] = (struct iovec){ first[i], n };
                from[i] = piece_of(at[i], n);
        }
        ssize_t got = pieces_read(thread, to, from, count);
        if (got < 0)
                return (int)got;
        for (size_t i = 0; i < count; i++) {
                size_t here = MIN((size_t)got, to[i].iov_len);
                const char *end = memchr(first[i], 0, here);
                size_t n = end ? (size_t)(end - first[i]) + 1 : here;
                if (n > room - (text->n - begin) || buf_append(text, slice_from(first[i], n)) < 0)
                        return -E2BIG;
                if (!end) {
                        size_t cap = text->cap;
                        text->cap = MIN(cap, begin + room);
                        int r = caller_memory_string(thread, at[i] + n, text);
                        text->cap = cap;
                        if (r < 0)
                                return r == -ENOBUFS ? -E2BIG : r;
                }
                got -= (ssize_t)here;
        }
        return 0;
}

ssize_t caller_memory_strings(pid_t thread, uint64_t at, size_t max, struct buf *text)
{
        size_t count = 0, begin = text->n;
        while (at) {
                uint64_t pointers[STRINGS_AT_ONCE];
                size_t n = to_page_end(at, sizeof(pointers));
                if (n < sizeof(uint64_t))
                        n = sizeof(uint64_t); /* an array that is not aligned: one pointer can cross a page */
                struct iovec to = { pointers, n }, from = piece_of(at, n);
                ssize_t got = pieces_read(thread, &to, &from, 1);
                if (got < 0)
                        return got;
                size_t whole = (size_t)got / sizeof(uint64_t), used = 0;
                if (whole == 0)
                        return -EFAULT;
                while (used < whole && pointers[used])
                        used++;
                count += used;
                size_t taken = text->n - begin + count * sizeof(uint64_t);
                if (taken > max)
                        return -E2BIG;
                int r = used ? strings_append(thread, pointers, used, max - taken, text) : 0;
                if (r < 0)
                        return r;
                if (used < whole)
                        break;
                at += used * sizeof(uint64_t);
        }
        return (ssize_t)count;
}
