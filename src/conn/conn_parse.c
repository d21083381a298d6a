/* conn_parse: parses large messages on threads.
 *
 * The loop itself parses a message up to LIMIT_PARSE_LOOP_BYTES. A larger one would delay all other connections, so a
 * thread parses it. Meanwhile the connection is not read (BLOCK_PARSE), so that its messages keep their order. The threads
 * are made for the first such message. They are not the threads of file requests, which may be stuck in the kernel.
 *
 * The message keeps its share of the memory for large messages (assembly.h) until the user has it. When the connection ends
 * meanwhile, its memory is freed only after the thread is done.
 */
#include "base/mem.h"
#include "conn/conn_internal.h"

#include <stdatomic.h>

struct parse {
        struct work work;
        struct conn *conn;        /* not freed before the thread is done */
        bool frees_conn;          /* the connection has ended and is freed with this struct */
        _Atomic bool is_unwanted; /* the connection has ended: do not parse */
        struct buf text;
        struct arena arena;
        void *parsed; /* what conn_events::parse returned */
};

static void parse_run(struct work *work)
{
        struct parse *p = container_of(work, struct parse, work);
        if (atomic_load(&p->is_unwanted))
                return;
        /* Queues are bounded by the bytes in them, so a text must not stay in a buffer that is much larger. */
        buffer_pool_fit(NULL, &p->text);
        p->parsed = p->conn->conns->events->parse(&p->arena, buf_slice(&p->text));
}

static void parse_done(struct work *work)
{
        struct parse *p = container_of(work, struct parse, work);
        struct conn *c = p->conn;
        struct conns *s = c->conns;
        if (c->state == CONN_OPEN)
                s->events->parsed(c, &p->arena, &p->text, p->parsed);
        c->parse = NULL;
        assembly_release(&s->assembly, &c->share);
        if (p->frees_conn)
                conn_free(c);
        else if (c->state != CONN_DEAD)
                conn_unblock(c, BLOCK_PARSE);
        conns_free_buf(s, &p->text);
        conns_free_arena(s, &p->arena);
        free(p);
}

bool conn_parse_begin(struct conn *c)
{
        struct pool *pool = conns_threads(c->conns);
        if (!pool)
                return false;
        struct parse *p = mem_new(struct parse);
        p->work = (struct work){ .run = parse_run, .done = parse_done };
        p->conn = c;
        p->text = c->message;
        buf_init(&c->message, c->message.cap);
        c->parse = p;
        c->share.is_whole = true;
        conn_block(c, BLOCK_PARSE);
        pool_submit(pool, &p->work);
        return true;
}

void conn_parse_cancel(struct conn *c)
{
        atomic_store(&c->parse->is_unwanted, true);
}

bool conn_parse_may_free(struct conn *c)
{
        if (!c->parse)
                return true;
        c->parse->frees_conn = true;
        return false;
}
