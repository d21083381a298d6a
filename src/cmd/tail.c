/* tail: keeps the newest bytes in a buffer of twice the size, so that bytes are moved rarely. */
#include "cmd/tail.h"

static struct slice newest(struct slice s)
{
        size_t n = MIN(s.n, (size_t)LIMIT_REFUSED_TEXT_BYTES);
        return slice_from(s.p + (s.n - n), n);
}

void tail_add(struct tail *t, struct slice bytes)
{
        struct slice new = newest(bytes);
        if (t->n + new.n > sizeof(t->bytes)) {
                struct slice old = newest(slice_from(t->bytes, t->n));
                memmove(t->bytes, old.p, old.n);
                t->n = old.n;
                t->is_cut = true;
        }
        t->is_cut = t->is_cut || new.n < bytes.n;
        memcpy(t->bytes + t->n, new.p, new.n);
        t->n += new.n;
}

struct slice tail_text(const struct tail *t)
{
        struct slice all = slice_from(t->bytes, t->n), text = newest(all);
        if (!t->is_cut && text.n == all.n)
                return text;
        const char *newline = memchr(text.p, '\n', text.n);
        size_t begun = newline ? (size_t)(newline - text.p) + 1 : text.n;
        return slice_from(text.p + begun, text.n - begun);
}

bool tail_is_open(const struct tail *t)
{
        return t->n > 0 && t->bytes[t->n - 1] != '\n';
}
