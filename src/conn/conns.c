/* conns: makes and releases what all connections share, and frees large memory on threads. */
#include "conn/conns.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

void conns_init(struct conns *s, struct loop *loop, const struct conn_options *options,
                const struct conn_events *events)
{
        *s = (struct conns){ .loop = loop, .options = options, .events = events, .max = SIZE_MAX };
        list_init(&s->all);
        list_init(&s->dirty);
        list_init(&s->httpds);
        assembly_init(&s->assembly, loop);
        s->scratch = mem_alloc(CONNS_SCRATCH_REST + LIMIT_READ_BYTES + BUF_PADDING);
        buffer_pool_init(&s->buffer_pool, loop);
        refusals_init(&s->refusals, loop);
}

bool conns_end_threads(struct conns *s, uint64_t wait_ms)
{
        s->is_released = true;
        return pool_free(TAKE(s->threads), wait_ms);
}

void conns_release(struct conns *s)
{
        assembly_end(&s->assembly);
        buffer_pool_release(&s->buffer_pool);
        refusals_release(&s->refusals);
        free(s->scratch);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

struct pool *conns_threads(struct conns *s)
{
        struct err err = ERR_INIT;
        if (!s->threads && !s->is_released && pool_new(s->loop, LIMIT_PARSES, &s->threads, &err) < 0)
                log_warn("large messages are parsed without a thread", "why=%s",
                         log_quote(slice_from_str(err.text)));
        return s->threads;
}

struct garbage {
        struct work work;
        struct conns *conns;
        size_t bytes;
        struct buf buf;
        struct arena arena;
};

static void garbage_run(struct work *work)
{
        struct garbage *g = container_of(work, struct garbage, work);
        if (g->buf.allocated > 0)
                mem_free_slowly(g->buf.p);
        buf_init(&g->buf, 0);
        arena_release_slowly(&g->arena);
}

static void garbage_done(struct work *work)
{
        struct garbage *g = container_of(work, struct garbage, work);
        garbage_run(work); /* frees the memory here when the work was cancelled before it ran */
        g->conns->freeing_bytes -= g->bytes;
        free(g);
}

/* Makes the work of freeing memory on a thread. Returns NULL when the memory is small or there is no thread: then the loop
 * frees it. */
static struct garbage *garbage_new(struct conns *s, size_t bytes)
{
        if (bytes <= LIMIT_FREE_LOOP_BYTES || bytes > LIMIT_FREE_BYTES ||
            s->freeing_bytes > LIMIT_FREE_BYTES - bytes || !conns_threads(s))
                return NULL;
        struct garbage *g = mem_new(struct garbage);
        g->work = (struct work){ .run = garbage_run, .done = garbage_done };
        g->conns = s;
        g->bytes = bytes;
        buf_init(&g->buf, 0);
        s->freeing_bytes += bytes;
        return g;
}

void conns_free_buf(struct conns *s, struct buf *b)
{
        struct garbage *g = buffer_pool_can_keep(&s->buffer_pool, b) ? NULL : garbage_new(s, b->allocated);
        if (!g) {
                buffer_pool_put(&s->buffer_pool, b);
                return;
        }
        g->buf = *b;
        buf_init(b, b->cap);
        pool_submit(s->threads, &g->work);
}

void conns_free_arena(struct conns *s, struct arena *a)
{
        struct garbage *g = garbage_new(s, a->bytes);
        if (!g) {
                arena_release(a);
                return;
        }
        g->arena = *a;
        *a = ARENA_INIT;
        pool_submit(s->threads, &g->work);
}
