/* output: appends, drops and finds the retained chunks of one process (output.h). */
#include "proc/output.h"

#include "base/limits.h"
#include "base/mem.h"

const char *stream_name(enum stream s)
{
        static const char *const names[STREAMS] = {
                [STREAM_STDOUT] = "stdout", [STREAM_STDERR] = "stderr", [STREAM_PTY] = "pty"
        };
        must(s < STREAMS);
        return names[s];
}

struct output_mark {
        uint64_t seq, end;
};

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
        (void)output_drop_heads(o);
        free(o->marks);
        output_init(o, o->cap_bytes, o->total);
}

static void remember_end(struct output *o, const struct chunk *c)
{
        if (!o->marks)
                o->marks = mem_alloc(OUTPUT_MARKS * sizeof(*o->marks));
        o->marks[o->mark_next] = (struct output_mark){ .seq = c->seq, .end = c->end };
        o->mark_next = (o->mark_next + 1) % OUTPUT_MARKS;
        o->mark_count = MIN(o->mark_count + 1, (size_t)OUTPUT_MARKS);
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
        remember_end(o, c);
        free(c);
        return true;
}

static void keep_head(struct output *o, struct output_stream *s, struct slice bytes)
{
        uint64_t cap = o->cap_bytes / 2;
        s->bytes += bytes.n;
        if (s->head_len >= cap || s->bytes - bytes.n != s->head_len)
                return; /* the kept beginning is complete, or was given up */
        size_t n = MIN(bytes.n, (size_t)(cap - s->head_len));
        s->head = mem_realloc(s->head, s->head_len + n);
        memcpy(s->head + s->head_len, bytes.p, n);
        s->head_len += n;
        *o->total += n;
}

bool output_drop_heads(struct output *o)
{
        bool had_one = false;
        for (size_t i = 0; i < STREAMS; i++) {
                struct output_stream *s = &o->streams[i];
                had_one = had_one || s->head_len > 0;
                *o->total -= s->head_len;
                s->head_len = 0;
                free(TAKE(s->head));
        }
        return had_one;
}

void output_append(struct output *o, enum stream stream, uint64_t seq, struct slice bytes)
{
        must(bytes.n > 0 && bytes.n <= UINT32_MAX);
        keep_head(o, &o->streams[stream], bytes);
        struct chunk *c = mem_alloc(sizeof(*c) + bytes.n);
        *c = (struct chunk){
                .prev = o->last, .seq = seq, .len = (uint32_t)bytes.n, .stream = (uint8_t)stream
        };
        c->end = o->dropped_bytes + o->bytes + bytes.n;
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
        /* Searches from the end, because a reader that polls has seen nearly everything. */
        const struct chunk *found = NULL;
        for (const struct chunk *c = o->last; c && c->seq > after_seq; c = c->prev)
                found = c;
        return found;
}

bool output_gap_after(const struct output *o, uint64_t after_seq, struct output_gap *ret)
{
        if (after_seq >= o->dropped_seq)
                return false;
        /* Searches from the youngest mark back to the first mark that the reader has seen. */
        uint64_t seen = 0;
        for (size_t i = 0; i < o->mark_count && after_seq > 0; i++) {
                const struct output_mark *m = &o->marks[(o->mark_next + OUTPUT_MARKS - 1 - i) % OUTPUT_MARKS];
                if (m->seq <= after_seq) {
                        seen = m->end;
                        break;
                }
        }
        *ret = (struct output_gap){ .from_seq = after_seq + 1,
                                    .to_seq = o->dropped_seq,
                                    .bytes = o->dropped_bytes - seen };
        return true;
}

/* Returns how many bytes of one stream the kept chunks hold. */
static uint64_t tail_bytes(const struct output *o, enum stream stream)
{
        uint64_t n = 0;
        for (const struct chunk *c = o->first; c; c = c->next)
                n += c->stream == stream ? c->len : 0;
        return n;
}

/* Appends the last `n` of the `have` bytes of a stream that the kept chunks hold. */
static void append_tail(const struct output *o, enum stream stream, uint64_t have, uint64_t n,
                        struct buf *ret)
{
        uint64_t skip = have - n;
        for (const struct chunk *c = o->first; c; c = c->next) {
                if (c->stream != stream)
                        continue;
                uint64_t cut = MIN(skip, c->len);
                skip -= cut;
                must(buf_append(ret, slice_from(c->bytes + cut, c->len - (size_t)cut)) == 0);
        }
}

uint64_t output_snapshot(const struct output *o, enum stream stream, uint64_t max, struct buf *ret)
{
        const struct output_stream *s = &o->streams[stream];
        uint64_t have = tail_bytes(o, stream);
        uint64_t head = s->bytes <= max ? MIN(s->head_len, s->bytes - have) : MIN(s->head_len, max / 2);
        uint64_t tail = MIN(have, s->bytes <= max ? have : max - head);
        tail = MIN(tail, s->bytes - head); /* no byte twice */
        must(buf_append(ret, slice_from(s->head ? s->head : "", (size_t)head)) == 0);
        append_tail(o, stream, have, tail, ret);
        return s->bytes - head - tail;
}
