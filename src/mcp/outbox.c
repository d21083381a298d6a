/* outbox: sends messages, and collects those of batches. */
#include "mcp/outbox.h"

#include "base/fatal.h"
#include "base/mem.h"

/* All answers of a batch, which are at most LIMIT_MCP_BATCH, each of MCP_MESSAGE_MAX. Most are short. */
#define BATCH_MAX ((size_t)240 * 1024 * 1024)

struct batch {
        struct buf answers;
        size_t open; /* requests without an answer */
        bool is_closed;
};

struct batch *batch_new(void)
{
        struct batch *b = mem_new(struct batch);
        buf_init(&b->answers, BATCH_MAX);
        return b;
}

void batch_expect(struct batch *b)
{
        b->open++;
}

void outbox_send(struct outbox *o, struct buf *message)
{
        o->send(o->arg, message);
}

static void finish(struct outbox *o, struct batch *b)
{
        if (b->open > 0 || !b->is_closed)
                return;
        if (b->answers.n > 0) {
                must(buf_append_char(&b->answers, ']') == 0);
                outbox_send(o, &b->answers);
        }
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
        if (!b)
                return;
        b->open--;
        finish(o, b);
}

/* An answer for which the batch has no room goes out alone, which clients accept. */
void outbox_answer(struct outbox *o, struct batch *b, struct buf *message)
{
        if (!b) {
                outbox_send(o, message);
                return;
        }
        if (b->answers.n + message->n + 2 > BATCH_MAX) {
                outbox_send(o, message);
        } else {
                must(buf_append_char(&b->answers, b->answers.n == 0 ? '[' : ',') == 0);
                must(buf_append(&b->answers, buf_slice(message)) == 0);
                buf_release(message);
        }
        outbox_drop(o, b);
}
