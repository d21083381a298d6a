/* deltas: cuts output into pieces of whole characters, for events. */
#include "unified/deltas.h"

#include "base/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* One piece that is being filled. */
struct piece {
        char bytes[DELTA_BYTES_MAX];
        size_t n;
        struct deltas *deltas;
        deltas_put put;
        void *arg;
};

static void give(struct piece *p)
{
        if (p->n > 0 && p->deltas->count < DELTAS_MAX) {
                p->deltas->count++;
                p->put(p->arg, slice_from(p->bytes, p->n));
        }
        p->n = 0;
}

static void add(struct piece *p, struct slice character)
{
        if (p->n + character.n > sizeof(p->bytes))
                give(p);
        memcpy(p->bytes + p->n, character.p, character.n);
        p->n += character.n;
}

/* Returns whether the bytes are the beginning of a character, and not a whole one. */
static bool is_beginning(struct slice s)
{
        uint32_t state = 0;
        return utf8_feed(&state, s) && !utf8_is_complete(state);
}

/* Takes one byte, which follows the bytes in `rest`. */
static void take_byte(struct deltas *d, struct piece *p, char byte)
{
        d->rest[d->rest_n++] = byte;
        struct slice rest = slice_from(d->rest, d->rest_n);
        if (is_beginning(rest))
                return;
        if (utf8_sequence(rest.p, rest.n) == rest.n) {
                add(p, rest);
                d->rest_n = 0;
                return;
        }
        /* The last byte does not continue the character that waits: one U+FFFD replaces that character, and the byte may begin another. */
        add(p, S(REPLACEMENT));
        bool is_alone = d->rest_n == 1;
        d->rest_n = 0;
        if (!is_alone)
                take_byte(d, p, byte);
}

void deltas_feed(struct deltas *d, struct slice bytes, deltas_put put, void *arg)
{
        struct piece p;
        p.n = 0;
        p.deltas = d;
        p.put = put;
        p.arg = arg;
        if (d->count >= DELTAS_MAX)
                return;
        for (size_t i = 0; i < bytes.n; i++)
                if (d->rest_n == 0 && (unsigned char)bytes.p[i] < 0x80)
                        add(&p, slice_from(bytes.p + i, 1));
                else
                        take_byte(d, &p, bytes.p[i]);
        give(&p);
}

void deltas_flush(struct deltas *d, deltas_put put, void *arg)
{
        if (d->rest_n > 0 && d->count < DELTAS_MAX) {
                d->count++;
                put(arg, S(REPLACEMENT));
        }
        d->rest_n = 0;
}
