/* discover_find: reads bounded text files and collects warnings about those that cannot be used. */
#include "codex/discover_internal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/uri.h"
#include "base/utf8.h"
#include "fsop/at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#define URI_BYTES_MAX ((size_t)256 * 1024) /* more than the longest path takes when all of it is escaped */
#define READ_BYTES ((size_t)64 * 1024)

void finder_init(struct finder *f, struct arena *a)
{
        /* The buffer takes one byte more than a file may have, so that files that are too large are noticed. */
        *f = (struct finder){ .arena = a, .contents = BUF_INIT(DISCOVER_FILE_BYTES + 1) };
}

void finder_release(struct finder *f)
{
        buf_release(&f->contents);
}

const char *finder_uri(struct finder *f, struct slice path)
{
        _buf_ struct buf uri = BUF_INIT(URI_BYTES_MAX);

        if (path.n == 0 || uri_from_path(&uri, path) < 0)
                return "file:///";
        return arena_dup(f->arena, buf_slice(&uri));
}

void finder_warn(struct finder *f, const char *fmt, ...)
{
        _buf_ struct buf text = BUF_INIT(2 * URI_BYTES_MAX);
        va_list ap;

        va_start(ap, fmt);
        int r = buf_vprintf(&text, fmt, ap);
        va_end(ap);
        must(r >= 0); /* a warning has one URI and a sentence, which always fit */

        f->warnings = arena_room(f->arena, f->warnings, f->warning_count, &f->warnings_room,
                                 sizeof(f->warnings[0]));
        f->warnings[f->warning_count++] = arena_dup(f->arena, buf_slice(&text));
}

static void warn_errno(struct finder *f, const char *what, const char *path, int e)
{
        finder_warn(f, "failed to %s capability file %s: %s (os error %d)", what,
                    finder_uri(f, slice_from_str(path)), errno_text(e), -e);
}

/* Returns the length of the invalid UTF-8 sequence at `p`: the bytes that could begin a character, at least 1. 0 when the text ends
 * within a character. */
static size_t invalid_bytes(const unsigned char *p, size_t n)
{
        size_t width = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
        if (p[0] < 0xc2 || p[0] > 0xf4)
                return 1;
        if (n == 1)
                return 0;

        unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
        unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
        if (p[1] < low || p[1] > high)
                return 1;
        for (size_t i = 2; i < width; i++) {
                if (i == n)
                        return 0;
                if ((p[i] & 0xc0) != 0x80)
                        return i;
        }
        return 1; /* not reached for an invalid sequence */
}

static void warn_not_utf8(struct finder *f, const char *path, struct slice text)
{
        size_t at = 0;
        for (size_t n; at < text.n && (n = utf8_sequence(text.p + at, text.n - at)) > 0;)
                at += n;

        const char *uri = finder_uri(f, slice_from_str(path));
        size_t bad = at < text.n ? invalid_bytes((const unsigned char *)text.p + at, text.n - at) : 0;
        if (bad > 0)
                finder_warn(
                        f,
                        "capability file %s is not UTF-8: invalid utf-8 sequence of %zu bytes from index %zu",
                        uri, bad, at);
        else
                finder_warn(f,
                            "capability file %s is not UTF-8: incomplete utf-8 byte sequence from index %zu",
                            uri, at);
}

/* Reads the file into f->contents, up to the buffer's ceiling. */
static int read_contents(struct finder *f, int fd)
{
        buf_truncate(&f->contents, 0);
        for (;;) {
                size_t want = MIN(READ_BYTES, f->contents.cap - f->contents.n);
                char *room;
                if (want == 0)
                        return 0;
                int r = buf_reserve(&f->contents, want, &room);
                if (r < 0)
                        return r;

                ssize_t n = read(fd, room, want);
                if (n < 0 && errno == EINTR)
                        continue;
                buf_commit(&f->contents, n > 0 ? (size_t)n : 0);
                if (n <= 0)
                        return n < 0 ? -errno : 0;
        }
}

/* Returns whether a file of this size is within the limits. Warns when it is not. */
static bool fits(struct finder *f, const char *path, uint64_t bytes)
{
        if (bytes > DISCOVER_FILE_BYTES) {
                finder_warn(f, "capability file %s exceeds the %d-byte limit",
                            finder_uri(f, slice_from_str(path)), DISCOVER_FILE_BYTES);
                return false;
        }
        if (bytes > DISCOVER_ROOT_BYTES - f->bytes) {
                finder_warn(f, "capability root bundle exceeds the %d-byte limit", DISCOVER_ROOT_BYTES);
                return false;
        }
        return true;
}

/* Copies the contents with zeros behind them, because the JSON parser of manifests reads whole vectors. */
static struct slice padded_copy(struct arena *a, struct slice s)
{
        char *copy = arena_alloc(a, s.n + BUF_PADDING);

        memcpy(copy, s.p, s.n);
        memset(copy + s.n, 0, BUF_PADDING);
        return slice_from(copy, s.n);
}

bool finder_find(struct finder *f, const char *path, struct found_file *ret)
{
        struct stat st;
        int r = at_stat(AT_FDCWD, path, &st, 0) < 0 ? -errno : 0;

        if (r < 0 && r != -ENOENT)
                warn_errno(f, "inspect", path, r);
        if (r < 0 || !S_ISREG(st.st_mode))
                return false;
        if (!fits(f, path, (uint64_t)st.st_size))
                return false; /* large files are not even read, so that a tree of them costs little */

        /* The kind is checked once more by the descriptor, because the path may lead to another file now. */
        _close_ int fd = fsop_open(path, O_RDONLY, 0, true);
        r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : 0;
        if (r == 0 && !S_ISREG(st.st_mode))
                return false;
        if (r == 0)
                r = read_contents(f, fd);
        if (r < 0) {
                warn_errno(f, "read", path, r);
                return false;
        }

        struct slice contents = buf_slice(&f->contents);
        if (!fits(f, path, contents.n))
                return false;
        if (!utf8_is_valid(contents)) {
                warn_not_utf8(f, path, contents);
                return false;
        }
        f->bytes += contents.n;
        ret->path = slice_from_str(path);
        ret->contents = padded_copy(f->arena, contents);
        return true;
}
