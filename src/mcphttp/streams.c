/* streams: keeps messages in the order of their age, and drops the oldest. */
#include "mcphttp/streams.h"

#include "base/fatal.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define HEAD_BYTES 96
#define EVENT_COST_BYTES 256 /* what an event takes beside its message */
#define TAIL "\n\n\r\n"      /* the end of an event, and of its chunk */
#define EVENT_TAIL_BYTES 2

struct event {
        struct list age, link; /* streams::events, stream::events */
        struct mcp_stream *stream;
        uint64_t number;
        bool is_sent;
        char head[HEAD_BYTES]; /* of the chunk, and of the event behind it */
        size_t chunk_head_bytes, head_bytes;
        struct buf message;
};

void mcp_streams_init(struct mcp_streams *s)
{
        *s = (struct mcp_streams){ 0 };
        list_init(&s->all);
        list_init(&s->events);
}

/* ---- events ---- */

static struct event *event_after(const struct event *e)
{
        const struct list *next = e->link.next;
        return next == &e->stream->events ? NULL : list_entry(next, struct event, link);
}

static void event_free(struct event *e)
{
        struct mcp_stream *s = e->stream;
        if (s->next == e) {
                s->next = event_after(e);
                s->sent = 0;
        }
        s->streams->bytes -= e->message.n + EVENT_COST_BYTES;
        s->streams->count--;
        list_remove(&e->age);
        list_remove(&e->link);
        buf_release(&e->message);
        free(e);
}

static void stream_free(struct mcp_stream *s)
{
        while (!list_is_empty(&s->events))
                event_free(list_first(&s->events, struct event, link));
        s->streams->open -= !s->is_done;
        list_remove(&s->link);
        free(s);
}

/* Frees a stream if no reader can ask for anything of it any more. */
static void settle(struct mcp_stream *s)
{
        bool can_end = s->is_done || s->is_standalone;
        bool can_resume = s->is_sse && !list_is_empty(&s->events);
        if (!s->reader && can_end && !can_resume)
                stream_free(s);
}

void mcp_streams_release(struct mcp_streams *s)
{
        while (!list_is_empty(&s->all))
                stream_free(list_first(&s->all, struct mcp_stream, link));
}

void mcp_stream_lose_reader(struct mcp_stream *s)
{
        struct stream_reader *r = TAKE(s->reader);
        s->sent = 0;
        if (r)
                r->lost(r);
        settle(s);
}

/* Drops an event. When it was not sent the stream is lost, and what else it has may be dropped as well. */
static void drop(struct event *e)
{
        struct mcp_stream *s = e->stream;
        struct event *other;
        bool was_sent = e->is_sent;
        s->dropped = MAX(s->dropped, e->number + 1);
        event_free(e);
        if (was_sent) {
                settle(s);
                return;
        }
        s->is_lost = true;
        s->next = NULL;
        list_each (other, &s->events, link)
                other->is_sent = true;
        mcp_stream_lose_reader(s);
}

/* Returns the oldest event that may be dropped; NULL: none. The newest event always stays. */
static struct event *oldest(const struct mcp_streams *s, bool only_sent)
{
        struct event *e;
        list_each (e, &s->events, age)
                if ((e->is_sent || !only_sent) && e->age.next != &s->events)
                        return e;
        return NULL;
}

/* Drops the oldest events until these limits are kept. */
static void trim(struct mcp_streams *s, bool only_sent, size_t bytes, size_t count)
{
        struct event *e;
        while ((s->bytes > bytes || s->count > count) && (e = oldest(s, only_sent)))
                drop(e);
}

static void add(struct mcp_stream *s, uint64_t number, struct buf *message)
{
        struct event *e = mem_new(struct event);
        char head[64];
        int n = snprintf(head, sizeof(head), "id: %" PRIu64 "-%" PRIu64 "\ndata: ", s->id, number);
        e->stream = s;
        e->number = number;
        e->message = *message;
        buf_init(message, message->cap);
        int chunk = snprintf(e->head, HEAD_BYTES, "%zx\r\n", (size_t)n + e->message.n + EVENT_TAIL_BYTES);
        memcpy(e->head + chunk, head, (size_t)n);
        e->chunk_head_bytes = (size_t)chunk;
        e->head_bytes = (size_t)(chunk + n);
        list_append(&s->streams->events, &e->age);
        list_append(&s->events, &e->link);
        s->streams->bytes += e->message.n + EVENT_COST_BYTES;
        s->streams->count++;
        if (!s->next)
                s->next = e;
        trim(s->streams, true, LIMIT_MCP_HTTP_KEPT_BYTES, LIMIT_MCP_HTTP_KEPT_EVENTS);
        trim(s->streams, false, LIMIT_MCP_HTTP_WAITING_BYTES, LIMIT_MCP_HTTP_WAITING_EVENTS);
}

/* ---- streams ---- */

struct mcp_stream *mcp_stream_new(struct mcp_streams *s, uint64_t id, bool is_standalone,
                                  struct stream_reader *reader)
{
        struct mcp_stream *new = mem_new(struct mcp_stream);
        new->streams = s;
        new->id = id;
        new->is_standalone = is_standalone;
        new->reader = reader;
        list_init(&new->events);
        list_append(&s->all, &new->link);
        s->open++;
        return new;
}

struct mcp_stream *mcp_stream_find(const struct mcp_streams *s, uint64_t id)
{
        struct mcp_stream *one;
        list_each (one, &s->all, link)
                if (one->id == id)
                        return one;
        return NULL;
}

/* Tells the reader that there is something new. Nothing may be done with the stream after that call. */
static void tell(struct mcp_stream *s)
{
        if (s->reader)
                s->reader->ready(s->reader);
}

void mcp_stream_put(struct mcp_stream *s, struct buf *message)
{
        if (s->is_lost || s->is_done) {
                buf_release(message);
                return;
        }
        add(s, ++s->last_number, message);
        tell(s);
}

void mcp_stream_greet(struct mcp_stream *s)
{
        struct buf none = BUF_INIT(0);
        add(s, s->last_number, &none);
        tell(s);
}

void mcp_stream_end(struct mcp_stream *s)
{
        s->streams->open -= !s->is_done;
        s->is_done = true;
        if (s->reader)
                tell(s);
        else
                settle(s);
}

void mcp_stream_detach(struct mcp_stream *s)
{
        s->reader = NULL;
        s->sent = 0;
        settle(s);
}

bool mcp_stream_attach(struct mcp_stream *s, uint64_t number, struct stream_reader *reader)
{
        struct event *e;
        if (s->is_lost || !s->is_sse || number > s->last_number || number + 1 < s->dropped)
                return false;
        struct stream_reader *before = s->reader;
        s->reader = reader;
        s->next = NULL;
        s->sent = 0;
        if (before)
                before->lost(before);
        /* For the new reader all events behind `number` count as unsent. Otherwise one that an earlier reader has sent could be
         * dropped, and the new reader would not learn of it. */
        list_each (e, &s->events, link) {
                if (e->number <= number)
                        continue;
                e->is_sent = false;
                s->next = s->next ? s->next : e;
        }
        return true;
}

void mcp_stream_move(struct mcp_stream *from, struct mcp_stream *to)
{
        while (!list_is_empty(&from->events)) { /* adding to one stream may drop events of the other */
                struct event *e = list_first(&from->events, struct event, link);
                struct buf message = e->message;
                buf_init(&e->message, 0);
                from->streams->bytes -= message.n;
                event_free(e);
                mcp_stream_put(to, &message);
        }
        from->is_lost = false; /* its later messages are sent although one was dropped here */
}

/* ---- sending ---- */

struct slice mcp_stream_first(const struct mcp_stream *s)
{
        return s->next ? buf_slice(&s->next->message) : (struct slice){ NULL, 0 };
}

/* Fills in the parts of an event that are not sent. Returns their count, and *ret_bytes: their length. */
static int parts(const struct mcp_stream *s, enum stream_form form, struct iovec ret[3], size_t *ret_bytes)
{
        struct event *e = s->next;
        static char tail[] = TAIL;
        size_t from = form == STREAM_CHUNKED ? 0 : e->chunk_head_bytes;
        struct iovec all[3] = {
                { e->head + from, form == STREAM_JSON ? 0 : e->head_bytes - from },
                { e->message.p, e->message.n },
                { tail, form == STREAM_JSON     ? 0
                        : form == STREAM_EVENTS ? EVENT_TAIL_BYTES
                                                : sizeof(TAIL) - 1 },
        };
        size_t skip = s->sent;
        int count = 0;
        *ret_bytes = 0;
        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
                size_t cut = MIN(skip, all[i].iov_len);
                skip -= cut;
                if (all[i].iov_len == cut)
                        continue;
                ret[count] = (struct iovec){ (char *)all[i].iov_base + cut, all[i].iov_len - cut };
                *ret_bytes += ret[count++].iov_len;
        }
        return count;
}

static void note_sent(struct mcp_stream *s)
{
        struct event *e = s->next;
        e->is_sent = true;
        s->next = event_after(e);
        s->sent = 0;
}

int mcp_stream_flush(struct mcp_stream *s, int fd, enum stream_form form)
{
        while (s->next) {
                struct iovec iov[3];
                size_t bytes;
                struct msghdr m = { .msg_iov = iov };
                m.msg_iovlen = (size_t)parts(s, form, iov, &bytes);
                ssize_t r = bytes == 0 ? 0 : sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (r < 0)
                        return fd_is_passing(errno) ? 1 : -errno;
                if ((size_t)r < bytes)
                        s->sent += (size_t)r;
                else
                        note_sent(s);
        }
        return 0;
}
