/* outbox: sends messages, and collects those of batches. */
#include "mcp/outbox.h"

#include "base/fatal.h"
#include "base/mem.h"

/* All answers of a batch, which are at most LIMIT_MCP_BATCH, each of MCP_MESSAGE_MAX. Most are short. */
#define BATCH_MAX ((size_t)240 * 1024 * 1024)

struct batch {
        uint64_t route;
        struct buf answers; /* of an array */
        size_t open;        /* requests without an answer */
        bool is_array, is_refused, is_closed;
        bool has_ended; /* the last message was sent */
};

struct batch *batch_new(uint64_t route, bool is_array)
{
        struct batch *b = mem_new(struct batch);
        b->route = route;
        b->is_array = is_array;
        buf_init(&b->answers, BATCH_MAX);
        return b;
}

void batch_expect(struct batch *b)
{
        b->open++;
}

void batch_refuse(struct batch *b)
{
        b->is_refused = true;
}

bool batch_is_array(const struct batch *b)
{
        return b->is_array;
}

uint64_t batch_route(const struct batch *b)
{
        return b->route;
}

void outbox_send(struct outbox *o, uint64_t route, struct buf *message)
{
        o->send(o->arg, route, OUTBOX_MORE, message);
}

static void send_last(struct outbox *o, struct batch *b, struct buf *message)
{
        b->has_ended = true;
        o->send(o->arg, b->route, b->is_refused ? OUTBOX_REFUSED : OUTBOX_LAST, message);
}

static void finish(struct outbox *o, struct batch *b)
{
        if (b->open > 0 || !b->is_closed)
                return;
        if (b->answers.n > 0)
                must(buf_append_char(&b->answers, ']') == 0);
        if (!b->has_ended)
                send_last(o, b, &b->answers);
        buf_release(&b->answers);
        free(b);
}

void batch_close(struct batch *b, struct outbox *o)
{
        b->is_closed = true;
        finish(o, b);
}

void outbox_drop(struct outbox *o, struct batch *b)
{
        b->open--;
        finish(o, b);
}

/* Adds an answer to the array. One for which there is no room goes out alone, which clients accept. */
static void collect(struct outbox *o, struct batch *b, struct buf *message)
{
        if (b->answers.n + message->n + 2 > (o->batch_max > 0 ? o->batch_max : BATCH_MAX)) {
                outbox_send(o, b->route, message);
                return;
        }
        must(buf_append_char(&b->answers, b->answers.n == 0 ? '[' : ',') == 0);
        must(buf_append(&b->answers, buf_slice(message)) == 0);
        buf_release(message);
}

void outbox_answer(struct outbox *o, struct batch *b, struct buf *message)
{
        if (b->is_array)
                collect(o, b, message);
        else
                send_last(o, b, message);
        outbox_drop(o, b);
}
