/* fuzz_lines: the decoder of lines (wire/lines.h) gives, for any split of the input into reads, the lines that a plain walk over all of
 * it gives. The first two bytes choose the longest line and the splits. */
#include "base/buf.h"
#include "base/mem.h"
#include "wire/lines.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LOG_MAX (1u << 24)

static void log_line(struct buf *out, struct slice line)
{
        must(buf_printf(out, "%zu:", line.n) >= 0);
        must(buf_append(out, line) >= 0);
}

/* Splits the input as lines.h promises, in the simplest way. */
static void walk(struct slice in, size_t max_line, struct buf *out)
{
        struct slice rest = in;

        while (rest.p && rest.n > 0) {
                struct slice line = slice_split(&rest, '\n');

                if (line.n > 0 && line.p[line.n - 1] == '\r')
                        line.n--;
                if (line.n > max_line) {
                        must(buf_append(out, S("too long")) >= 0);
                        return;
                }
                if (slice_trim(line).n > 0)
                        log_line(out, line);
        }
}

static void decode(struct slice in, size_t max_line, size_t step, struct buf *out)
{
        struct line_decoder d;
        size_t at = 0, avail = 0;

        line_decoder_init(&d, max_line);
        for (;;) {
                _free_ char *copy = mem_alloc(MAX(avail - at, 1u));
                struct slice line;
                bool at_eof = avail == in.n;

                memcpy(copy, in.p + at, avail - at);
                ssize_t r = line_next(&d, slice_from(copy, avail - at), at_eof, &line);
                if (r == -EMSGSIZE) {
                        must(buf_append(out, S("too long")) >= 0);
                        return;
                }
                must(r >= 0 && (size_t)r <= avail - at);
                if (line.p) {
                        must(line.p >= copy && line.p + line.n <= copy + r);
                        log_line(out, line);
                }
                at += (size_t)r;
                if (r > 0)
                        continue;
                must(!line.p && d.scanned == avail - at);
                if (at_eof)
                        break;
                avail = MIN(avail + step, in.n);
        }
        must(at == in.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 2 || size > 4096)
                return 0;
        struct slice in = slice_from(data + 2, size - 2);
        const size_t steps[] = { 1, 1u + data[1], size };
        _buf_ struct buf expect = BUF_INIT(LOG_MAX);

        walk(in, data[0], &expect);
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                _buf_ struct buf got = BUF_INIT(LOG_MAX);
                decode(in, data[0], steps[i], &got);
                must(slice_eq(buf_slice(&got), buf_slice(&expect)));
        }
        return 0;
}
