/* streams_test: what is sent, what is sent again, and what is dropped. */
#include "mcphttp/streams.h"

#include "base/fd.h"
#include "base/limits.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

struct rig {
        struct mcp_streams streams;
        int ours, theirs;
        struct stream_reader reader;
        int ready, lost;
};

static void on_reader_ready(struct stream_reader *r)
{
        container_of(r, struct rig, reader)->ready++;
}

static void on_reader_lost(struct stream_reader *r)
{
        container_of(r, struct rig, reader)->lost++;
}

static void rig_open(struct rig *rig)
{
        int pair[2];
        *rig = (struct rig){ .reader = { on_reader_ready, on_reader_lost } };
        mcp_streams_init(&rig->streams);
        ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
        rig->ours = pair[0];
        rig->theirs = pair[1];
}

static void rig_close(struct rig *rig)
{
        mcp_streams_release(&rig->streams);
        eq_int((int)rig->streams.count, 0);
        eq_int((int)rig->streams.bytes, 0);
        fd_close(rig->ours);
        fd_close(rig->theirs);
}

static void put(struct mcp_stream *s, const char *text)
{
        struct buf message = BUF_INIT(64 * MIB);
        eq_int(buf_append(&message, slice_from_str(text)), 0);
        mcp_stream_put(s, &message);
}

static void put_bytes(struct mcp_stream *s, size_t n)
{
        struct buf message = BUF_INIT(64 * MIB);
        char *room;
        eq_int(buf_reserve(&message, n, &room), 0);
        memset(room, 'x', n);
        buf_commit(&message, n);
        mcp_stream_put(s, &message);
}

/* Sends, and returns what has arrived. */
static const char *sent(struct rig *rig, struct mcp_stream *s, enum stream_form form)
{
        static char text[4096];
        eq_int(mcp_stream_flush(s, rig->ours, form), 0);
        ssize_t n = read(rig->theirs, text, sizeof(text) - 1);
        text[MAX(n, 0)] = '\0';
        return text;
}

TEST(the_three_forms_of_a_message)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *s = mcp_stream_new(&rig.streams, 7, false, &rig.reader);
        s->is_sse = true;
        put(s, "{}");
        eq_str(sent(&rig, s, STREAM_JSON), "{}");
        put(s, "[1]");
        eq_str(sent(&rig, s, STREAM_EVENTS), "id: 7-2\ndata: [1]\n\n");
        put(s, "[2]");
        eq_str(sent(&rig, s, STREAM_CHUNKED), "13\r\nid: 7-3\ndata: [2]\n\n\r\n");
        eq_int(rig.ready, 3);
        rig_close(&rig);
}

TEST(a_reader_that_comes_back_gets_what_it_has_not)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *s = mcp_stream_new(&rig.streams, 1, false, &rig.reader);
        s->is_sse = true;
        mcp_stream_greet(s);
        put(s, "a");
        put(s, "b");
        eq_str(sent(&rig, s, STREAM_EVENTS), "id: 1-0\ndata: \n\nid: 1-1\ndata: a\n\nid: 1-2\ndata: b\n\n");
        mcp_stream_detach(s);
        put(s, "c");
        mcp_stream_end(s);
        ok(mcp_stream_find(&rig.streams, 1) == s);
        ok(!mcp_stream_attach(s, 4, &rig.reader));
        ok(mcp_stream_attach(s, 1, &rig.reader));
        eq_str(sent(&rig, s, STREAM_EVENTS), "id: 1-2\ndata: b\n\nid: 1-3\ndata: c\n\n");
        ok(mcp_stream_attach(s, 0, &rig.reader)); /* another connection: the first one is told */
        eq_int(rig.lost, 1);
        eq_str(sent(&rig, s, STREAM_EVENTS), "id: 1-1\ndata: a\n\nid: 1-2\ndata: b\n\nid: 1-3\ndata: c\n\n");
        ok(mcp_stream_attach(s, 3, &rig.reader));
        eq_str(sent(&rig, s, STREAM_EVENTS), "");
        mcp_stream_detach(s);
        rig_close(&rig);
}

TEST(an_answer_without_events_is_gone_with_its_reader)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *s = mcp_stream_new(&rig.streams, 1, false, &rig.reader);
        put(s, "a");
        mcp_stream_end(s);
        mcp_stream_detach(s);
        ok(!mcp_stream_find(&rig.streams, 1));
        s = mcp_stream_new(&rig.streams, 2, true, &rig.reader);
        s->is_sse = true;
        mcp_stream_detach(s);
        ok(!mcp_stream_find(&rig.streams, 2));
        eq_int((int)rig.streams.open, 0);
        rig_close(&rig);
}

TEST(what_was_sent_is_dropped_first)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *old = mcp_stream_new(&rig.streams, 1, false, NULL),
                          *s = mcp_stream_new(&rig.streams, 2, false, &rig.reader);
        old->is_sse = s->is_sse = true;
        put(old, "waits");
        for (int i = 0; i < 100; i++) {
                put_bytes(s, 64 * KIB);
                while (mcp_stream_flush(s, rig.ours, STREAM_EVENTS) == 1) {
                        static char drain[1 << 20];
                        ok(read(rig.theirs, drain, sizeof(drain)) > 0);
                }
        }
        ok(rig.streams.bytes <= LIMIT_MCP_HTTP_KEPT_BYTES && !s->is_lost && !old->is_lost);
        ok(mcp_stream_has_waiting(old));
        ok(!mcp_stream_attach(s, 1, &rig.reader)); /* the event 2 is gone */
        ok(mcp_stream_attach(s, 99, &rig.reader));
        rig_close(&rig);
}

TEST(what_is_sent_again_is_not_dropped_below_its_reader)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *s = mcp_stream_new(&rig.streams, 1, false, &rig.reader),
                          *other = mcp_stream_new(&rig.streams, 2, false, NULL);
        s->is_sse = other->is_sse = true;
        put(s, "a");
        put(s, "b");
        eq_str(sent(&rig, s, STREAM_EVENTS), "id: 1-1\ndata: a\n\nid: 1-2\ndata: b\n\n");
        ok(mcp_stream_attach(s, 0, &rig.reader)); /* that one has sent nothing yet */
        put_bytes(other, LIMIT_MCP_HTTP_KEPT_BYTES + 1);
        eq_str(sent(&rig, s, STREAM_EVENTS), "id: 1-1\ndata: a\n\nid: 1-2\ndata: b\n\n");
        ok(mcp_stream_attach(s, 0, &rig.reader));
        put_bytes(other,
                  LIMIT_MCP_HTTP_WAITING_BYTES); /* now there is no room for it, and the reader is told */
        ok(s->is_lost && !s->reader && !mcp_stream_has_waiting(s));
        eq_int(rig.lost, 3);
        rig_close(&rig);
}

TEST(a_slow_reader_loses_its_stream)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *slow = mcp_stream_new(&rig.streams, 1, false, &rig.reader);
        slow->is_sse = true;
        for (int i = 0; i < 40; i++)
                put_bytes(slow, MIB);
        ok(rig.streams.bytes <= LIMIT_MCP_HTTP_WAITING_BYTES + MIB + KIB && slow->is_lost);
        eq_int(rig.lost, 1);
        ok(!mcp_stream_has_waiting(slow) && !mcp_stream_attach(slow, 0, &rig.reader));
        struct mcp_stream *other = mcp_stream_new(&rig.streams, 2, false, NULL);
        other->is_sse = true;
        put_bytes(other, 40 * MIB); /* the newest always stays */
        ok(mcp_stream_has_waiting(other) && mcp_stream_first(other).n == 40 * MIB);
        mcp_stream_detach(slow);
        rig_close(&rig);
}

TEST(many_small_events_are_bounded)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *s = mcp_stream_new(&rig.streams, 1, true, &rig.reader);
        s->is_sse = true;
        for (int i = 0; i < 2 * LIMIT_MCP_HTTP_WAITING_EVENTS; i++)
                put(s, "x");
        ok(rig.streams.count <= LIMIT_MCP_HTTP_WAITING_EVENTS && s->is_lost);
        mcp_stream_detach(s);
        rig_close(&rig);
}

TEST(events_move_to_another_stream)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *from = mcp_stream_new(&rig.streams, 0, false, NULL),
                          *to = mcp_stream_new(&rig.streams, 5, true, &rig.reader);
        to->is_sse = true;
        put(from, "a");
        put(from, "b");
        mcp_stream_move(from, to);
        eq_str(sent(&rig, to, STREAM_EVENTS), "id: 5-1\ndata: a\n\nid: 5-2\ndata: b\n\n");
        ok(!mcp_stream_has_waiting(from));
        rig_close(&rig);
}

TEST(a_lost_message_keeps_no_later_one_back)
{
        struct rig rig;
        rig_open(&rig);
        struct mcp_stream *from = mcp_stream_new(&rig.streams, 0, false, NULL),
                          *to = mcp_stream_new(&rig.streams, 5, true, &rig.reader);
        to->is_sse = true;
        put(from, "a");
        put_bytes(from, LIMIT_MCP_HTTP_WAITING_BYTES);
        ok(from->is_lost);
        mcp_stream_move(from, to);
        while (mcp_stream_flush(to, rig.ours, STREAM_EVENTS) == 1) {
                static char drain[1 << 20];
                ok(read(rig.theirs, drain, sizeof(drain)) > 0);
        }
        put(from, "b");
        mcp_stream_move(from, to);
        eq_int((int)to->last_number, 2);
        ok(!to->is_lost);
        rig_close(&rig);
}
