/* lines: newline-delimited messages, for stdio.
 *
 * The decoder remembers only how far it has looked, so that a long line that arrives in many reads is
 * searched once and not once per read. The caller keeps the bytes and drops what line_next says was consumed.
 */
#include "wire/lines.h"

#include <errno.h>

void line_decoder_init(struct line_decoder *d, size_t max_line)
{
        *d = (struct line_decoder){ .max_line = max_line };
}

static struct slice without_cr(struct slice s)
{
        if (s.n > 0 && s.p[s.n - 1] == '\r')
                s.n--;
        return s;
}

static bool is_blank(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] != ' ' && s.p[i] != '\t' && s.p[i] != '\r')
                        return false;
        return true;
}

ssize_t line_next(struct line_decoder *d, struct slice in, bool at_eof, struct slice *ret)
{
        size_t start = 0, look = MIN(d->scanned, in.n);

        *ret = (struct slice){ NULL, 0 };
        d->scanned = 0;
        while (start < in.n) {
                const char *lf = look < in.n ? memchr(in.p + look, '\n', in.n - look) : NULL;
                size_t end = lf ? (size_t)(lf - in.p) : in.n;
                /* An unfinished line may end in the CR of a CRLF: it does not count against the limit yet,
                 * or the outcome would depend on how the bytes were split. */
                struct slice line = without_cr(slice_from(in.p + start, end - start));

                if (line.n > d->max_line)
                        return -EMSGSIZE;
                if (!lf && !at_eof) {
                        d->scanned = in.n - start;
                        return (ssize_t)start;
                }
                start = look = lf ? end + 1 : end;
                if (!is_blank(line)) {
                        *ret = line;
                        break;
                }
        }
        return (ssize_t)start;
}
