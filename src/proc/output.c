#include "proc/output.h"

#include "base/limits.h"
#include "base/mem.h"

const char *stream_name(enum stream s)
{
        switch (s) {
        case STREAM_STDOUT:
                return "stdout";
        case STREAM_STDERR:
                return "stderr";
        case STREAM_PTY:
                return "pty";
        }
        must(false);
        return NULL;
}

void output_init(struct output *o, uint64_t cap_bytes, uint64_t *total)
{
        *o = (struct output){ .cap_bytes = cap_bytes, .total = total };
}

void output_release(struct output *o)
{
        while (o->first) {
                struct chunk *c = o->first;
                o->first = c->next;
                free(c);
        }
        *o->total -= o->bytes + o->count * sizeof(struct chunk);
        output_init(o, o->cap_bytes, o->total);
}

bool output_drop_oldest(struct output *o)
{
        struct chunk *c = o->first;
        if (!c)
                return false;
        o->first = c->next;
        if (o->first)
                o->first->prev = NULL;
        else
                o->last = NULL;
        o->count--;
        o->bytes -= c->len;
        *o->total -= c->len + sizeof(*c);
        o->dropped_bytes += c->len;
        o->dropped_seq = c->seq;
        free(c);
        return true;
}

void output_append(struct output *o, enum stream stream, uint64_t seq, struct slice bytes)
{
        must(bytes.n > 0 && bytes.n <= UINT32_MAX);
        struct chunk *c = mem_alloc(sizeof(*c) + bytes.n);
        *c = (struct chunk){
                .prev = o->last, .seq = seq, .len = (uint32_t)bytes.n, .stream = (uint8_t)stream
        };
        memcpy(c->bytes, bytes.p, bytes.n);
        if (o->last)
                o->last->next = c;
        else
                o->first = c;
        o->last = c;
        o->count++;
        o->bytes += c->len;
        *o->total += c->len + sizeof(*c);

        /* The newest chunk stays, however large: a reader must be able to move on. */
        while (o->first != c && (o->bytes > o->cap_bytes || o->count > LIMIT_RETAINED_CHUNKS))
                (void)output_drop_oldest(o);
}

const struct chunk *output_after(const struct output *o, uint64_t after_seq)
{
        if (!o->first || after_seq < o->first->seq)
                return o->first;
        /* From the end: who polls has seen nearly everything. */
        const struct chunk *found = NULL;
        for (const struct chunk *c = o->last; c && c->seq > after_seq; c = c->prev)
                found = c;
        return found;
}
