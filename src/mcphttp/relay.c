/* relay: reads and writes the lines between the listener and the process of a session. */
#include "mcphttp/relay.h"

#include <inttypes.h>

#define DIGITS_MAX 20

bool relay_read(struct slice line, uint64_t *ret_route, enum relay_kind *ret_kind, struct slice *ret_text)
{
        size_t n = 0;
        while (n < line.n && n < DIGITS_MAX && line.p[n] >= '0' && line.p[n] <= '9')
                n++;
        if (n == line.n || slice_to_u64(slice_from(line.p, n), UINT64_MAX, ret_route) < 0)
                return false;
        char kind = line.p[n];
        if (kind != RELAY_TO && kind != RELAY_MORE && kind != RELAY_LAST && kind != RELAY_REFUSED)
                return false;
        *ret_kind = (enum relay_kind)kind;
        *ret_text = slice_from(line.p + n + 1, line.n - n - 1);
        return true;
}

int relay_write(struct buf *out, uint64_t route, enum relay_kind kind, struct slice text)
{
        char *room;
        int r = buf_printf(out, "%" PRIu64 "%c", route, kind);
        if (r >= 0)
                r = buf_reserve(out, text.n, &room);
        if (r < 0)
                return r;
        for (size_t i = 0; i < text.n; i++)
                room[i] = text.p[i] == '\n' || text.p[i] == '\r' ? '\t' : text.p[i];
        buf_commit(out, text.n);
        return buf_append_char(out, '\n');
}
