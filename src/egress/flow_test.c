/* flow_test: bytes arrive whole and in order, little or much, at receivers that take their time. */
#include "egress/flow.h"

#include "base/fd.h"
#include "base/mem.h"
#include "egress/pipes.h"
#include "unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct rig {
        int writer, from, to, reader;
};

static struct rig rig_new(void)
{
        int a[2], b[2];
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, a), 0);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, b), 0);
        return (struct rig){ .writer = a[0], .from = a[1], .to = b[0], .reader = b[1] };
}

static void rig_release(struct rig *r)
{
        fd_close(r->writer);
        fd_close(r->from);
        fd_close(r->to);
        fd_close(r->reader);
        pipes_release();
}

/* Sends `total` bytes through the flow, reading at most `sip` at a time. Returns how many arrived as they should. */
static size_t carry(struct rig *r, struct flow *f, size_t total, size_t sip)
{
        _free_ unsigned char *bytes = mem_alloc(sip);
        unsigned char out[1000];
        size_t sent = 0, got = 0;
        while (got < total) {
                size_t n = 0;
                while (n < sizeof(out) && sent + n < total) {
                        out[n] = (unsigned char)((sent + n) % 251);
                        n++;
                }
                ssize_t w = n > 0 ? write(r->writer, out, n) : 0;
                if (w > 0)
                        sent += (size_t)w;
                bool is_stuck = w <= 0;
                if (is_stuck)
                        eq_int(flow_run(f), 0);
                ssize_t taken = is_stuck ? read(r->reader, bytes, sip) : 0;
                for (ssize_t i = 0; i < taken; i++, got++)
                        if (bytes[i] != (unsigned char)(got % 251))
                                return got;
        }
        return got;
}

TEST(much_arrives_at_a_slow_reader_in_order)
{
        struct rig r = rig_new();
        struct flow f;
        flow_init(&f, r.from, r.to, FLOW_ENDLESS);
        eq_int(carry(&r, &f, 3000000, 700), 3000000);
        eq_int(carry(&r, &f, 251 * 20000, 300000), 251 * 20000);
        flow_release(&f);
        rig_release(&r);
}

TEST(no_more_is_read_than_may_pass)
{
        struct rig r = rig_new();
        struct flow f;
        char bytes[16];
        flow_init(&f, r.from, r.to, 3);
        eq_int(write(r.writer, "abcdef", 6), 6);
        flow_give(&f, S("<"));
        flow_give(&f, S(">"));
        eq_int(flow_run(&f), 0);
        eq_int(read(r.reader, bytes, sizeof(bytes)), 5);
        eq_slice(slice_from(bytes, 5), S("<>abc"));
        ok(!flow_wants_read(&f) && !f.has_ended);
        eq_int(read(r.from, bytes, sizeof(bytes)), 3);
        flow_release(&f);
        rig_release(&r);
}

TEST(an_end_is_noticed_and_a_lost_receiver_too)
{
        struct rig r = rig_new();
        struct flow f;
        flow_init(&f, r.from, r.to, FLOW_ENDLESS);
        eq_int(write(r.writer, "x", 1), 1);
        eq_int(shutdown(r.writer, SHUT_WR), 0);
        eq_int(flow_run(&f), 0);
        eq_int(flow_run(&f), 0);
        ok(f.has_ended);
        eq_u64(f.bytes, 1);
        r.reader = fd_close(r.reader);
        flow_give(&f, S("y"));
        eq_int(flow_run(&f), -EPIPE);
        flow_release(&f);
        rig_release(&r);
}
