/* egressmsg_test: messages are read back as they were written; messages that are cut, too long or invalid are not accepted. */
#include "base/limits.h"
#include "base/mem.h"
#include "unit.h"
#include "wire/egressmsg.h"

#include <errno.h>

static const struct egressmsg_open sample_open = {
        .count = 3,
        .kinds = { EGRESSMSG_HTTP_LISTENER, EGRESSMSG_SOCKS_LISTENER, EGRESSMSG_PORT_LISTENER },
        .ports = { 3128, 1080, 65535 },
};
static const struct egressmsg_answer sample_answer = {
        .question = 9,
        .action = 2,
        .remember = EGRESSMSG_FOR_NETWORK,
        .ttl_ms = 5000,
        .reason = S("please wait"),
};
static const struct egressmsg_ask sample_ask = {
        .question = 0xffffffff, .protocol = 5, .port = 443, .host = S("a.test")
};
static const struct egressmsg_decided sample_decided = {
        .count = 3,
        .time_ms = 1790000000123,
        .action = 1,
        .source = 3,
        .protocol = 1,
        .is_guard = true,
        .is_override = true,
        .has_method = true,
        .port = 1,
        .reason = S("not_allowed"),
        .host = S("b.test"),
        .method = S("GET"),
        .client = S("127.0.0.1:9"),
};
static const struct egressmsg_ended sample_ended = {
        .protocol = 2,
        .port = 22,
        .action = 0,
        .host = S("c.test"),
        .address = S("[2606::1]:22"),
        .rule = S("**.test"),
        .reason = S("allow"),
        .bytes_up = UINT64_MAX,
        .bytes_down = 7,
        .time_ms = 1,
        .took_ms = 12,
};

#define TYPES 11

/* Writes one message of each type. */
static int write_sample(struct buf *out, size_t i)
{
        switch (i) {
        case 0:
                return egressmsg_open_write(out, 7, &sample_open);
        case 1:
                return egressmsg_rules_write(out, 7);
        case 2:
                return egressmsg_close_write(out, 7);
        case 3:
                return egressmsg_answer_write(out, 7, &sample_answer);
        case 4:
                return egressmsg_ping_write(out);
        case 5:
                return egressmsg_ask_write(out, 7, &sample_ask);
        case 6:
                return egressmsg_withdrawn_write(out, 7, 4);
        case 7:
                return egressmsg_decided_write(out, 7, &sample_decided);
        case 8:
                return egressmsg_ended_write(out, 7, &sample_ended);
        case 9:
                return egressmsg_closed_write(out, 7);
        default:
                return egressmsg_pong_write(out);
        }
}

static struct egressmsg read_sample(struct buf *out, size_t i)
{
        struct egressmsg m;
        buf_truncate(out, 0);
        eq_int(write_sample(out, i), 0);
        eq_int(egressmsg_read(buf_slice(out), &m), 0);
        ok(egressmsg_is_from_server(m.type) == (i < 5));
        eq_int(m.network, i == 4 || i == 10 ? 0 : 7);
        return m;
}

TEST(every_egress_message_is_read_back_as_it_was_written)
{
        _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
        struct egressmsg m = read_sample(&out, 0);
        eq_int(m.type, EGRESSMSG_OPEN);
        eq_int(m.open.count, 3);
        eq_int(m.open.kinds[2], EGRESSMSG_PORT_LISTENER);
        eq_int(m.open.ports[2], 65535);
        eq_int(egressmsg_fd_count(&m), 4);
        m = read_sample(&out, 1);
        eq_int(m.type, EGRESSMSG_RULES);
        eq_int(egressmsg_fd_count(&m), 1);
        m = read_sample(&out, 2);
        eq_int(m.type, EGRESSMSG_CLOSE);
        eq_int(egressmsg_fd_count(&m), 0);
        m = read_sample(&out, 3);
        eq_int(m.type, EGRESSMSG_ANSWER);
        eq_int(m.answer.question, 9);
        eq_int(m.answer.action, 2);
        eq_int(m.answer.remember, EGRESSMSG_FOR_NETWORK);
        eq_int(m.answer.ttl_ms, 5000);
        eq_slice(m.answer.reason, S("please wait"));
        eq_int(read_sample(&out, 4).type, EGRESSMSG_PING);
        m = read_sample(&out, 5);
        eq_int(m.type, EGRESSMSG_ASK);
        eq_u64(m.ask.question, 0xffffffff);
        eq_int(m.ask.protocol, 5);
        eq_int(m.ask.port, 443);
        eq_slice(m.ask.host, S("a.test"));
        m = read_sample(&out, 6);
        eq_int(m.type, EGRESSMSG_WITHDRAWN);
        eq_int(m.withdrawn, 4);
        m = read_sample(&out, 7);
        eq_int(m.type, EGRESSMSG_DECIDED);
        eq_int(m.decided.count, 3);
        eq_u64(m.decided.time_ms, 1790000000123);
        eq_int(m.decided.action, 1);
        eq_int(m.decided.source, 3);
        eq_int(m.decided.protocol, 1);
        ok(m.decided.is_guard && m.decided.is_override && m.decided.has_method);
        eq_int(m.decided.port, 1);
        eq_slice(m.decided.reason, S("not_allowed"));
        eq_slice(m.decided.host, S("b.test"));
        eq_slice(m.decided.method, S("GET"));
        eq_slice(m.decided.client, S("127.0.0.1:9"));
        m = read_sample(&out, 8);
        eq_int(m.type, EGRESSMSG_ENDED);
        eq_int(m.ended.protocol, 2);
        eq_int(m.ended.port, 22);
        eq_int(m.ended.action, 0);
        eq_slice(m.ended.host, S("c.test"));
        eq_slice(m.ended.address, S("[2606::1]:22"));
        eq_slice(m.ended.rule, S("**.test"));
        eq_slice(m.ended.reason, S("allow"));
        eq_u64(m.ended.bytes_up, UINT64_MAX);
        eq_u64(m.ended.bytes_down, 7);
        eq_u64(m.ended.time_ms, 1);
        eq_int(m.ended.took_ms, 12);
        eq_int(read_sample(&out, 9).type, EGRESSMSG_CLOSED);
        eq_int(read_sample(&out, 10).type, EGRESSMSG_PONG);
}

/* Each beginning is copied into memory of its own length, so that a sanitizer sees a read behind its end. */
TEST(an_egress_message_that_is_cut_or_has_more_behind_it_is_broken)
{
        for (size_t i = 0; i < TYPES; i++) {
                _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
                eq_int(write_sample(&out, i), 0);
                struct egressmsg m;
                for (size_t n = 0; n < out.n; n++) {
                        _free_ char *copy = mem_alloc(MAX(n, (size_t)1));
                        memcpy(copy, out.p, n);
                        eq_int(egressmsg_read(slice_from(copy, n), &m), -EPROTO);
                }
                eq_int(buf_append_char(&out, 0), 0);
                eq_int(egressmsg_read(buf_slice(&out), &m), -EPROTO);
        }
}

TEST(an_egress_message_with_an_invalid_field_is_broken)
{
        static const struct {
                size_t sample, at;
                char value;
        } rows[] = {
                { 0, 0, 2 },  { 0, 1, 0 },  { 0, 1, 6 },  { 0, 2, 1 },  { 0, 8, 69 }, { 0, 12, 5 },
                { 3, 12, 3 }, { 3, 13, 2 }, { 5, 12, 6 }, { 7, 20, 3 }, { 7, 21, 4 }, { 7, 22, 6 },
                { 7, 23, 8 }, { 7, 23, 3 }, { 8, 8, 6 },  { 8, 11, 3 }, { 8, 15, 1 }, { 4, 1, 64 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
                struct egressmsg m;
                eq_int(write_sample(&out, rows[i].sample), 0);
                out.p[rows[i].at] = rows[i].value;
                eq_int(egressmsg_read(buf_slice(&out), &m), -EPROTO);
        }
        /* Ids that are never 0. */
        static const size_t ids[][2] = { { 3, 8 }, { 5, 8 }, { 6, 8 }, { 7, 8 } };
        for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
                _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
                struct egressmsg m;
                eq_int(write_sample(&out, ids[i][0]), 0);
                memset(out.p + ids[i][1], 0, 4);
                eq_int(egressmsg_read(buf_slice(&out), &m), -EPROTO);
        }
}

TEST(an_egress_message_that_its_receiver_would_refuse_is_not_written)
{
        static char text[EGRESSMSG_RULE_MAX + 1];
        memset(text, 'a', sizeof(text));
        _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
        eq_int(buf_append(&out, S("before")), 0);

        struct egressmsg_open many = { .count = EGRESSMSG_SOCKETS_MAX + 1 };
        eq_int(egressmsg_open_write(&out, 1, &many), -EMSGSIZE);
        struct egressmsg_ask ask = sample_ask;
        ask.host = slice_from(text, EGRESSMSG_HOST_MAX + 1);
        eq_int(egressmsg_ask_write(&out, 1, &ask), -EMSGSIZE);
        ask = sample_ask;
        ask.question = 0;
        eq_int(egressmsg_ask_write(&out, 1, &ask), -EMSGSIZE);
        ask = sample_ask;
        ask.host.n = 0;
        eq_int(egressmsg_ask_write(&out, 1, &ask), -EMSGSIZE);
        struct egressmsg_answer answer = sample_answer;
        answer.action = EGRESSMSG_ACTIONS;
        eq_int(egressmsg_answer_write(&out, 1, &answer), -EMSGSIZE);
        struct egressmsg_decided decided = sample_decided;
        decided.method = slice_from(text, EGRESSMSG_METHOD_MAX + 1);
        eq_int(egressmsg_decided_write(&out, 1, &decided), -EMSGSIZE);
        struct egressmsg_ended ended = sample_ended;
        ended.rule = slice_from(text, sizeof(text));
        eq_int(egressmsg_ended_write(&out, 1, &ended), -EMSGSIZE);
        eq_slice(buf_slice(&out), S("before"));

        _buf_ struct buf small = BUF_INIT(5);
        eq_int(egressmsg_closed_write(&small, 1), -ENOBUFS);
        eq_int(small.n, 0);
}

TEST(an_egress_message_with_everything_at_its_limit_fits_into_a_packet)
{
        static char text[EGRESSMSG_RULE_MAX];
        memset(text, 'a', sizeof(text));
        _buf_ struct buf out = BUF_INIT(2 * EGRESSMSG_MAX);
        struct egressmsg_open open = { .count = EGRESSMSG_SOCKETS_MAX };
        eq_int(egressmsg_open_write(&out, 1, &open), 0);
        ok(out.n <= EGRESSMSG_MAX);
        buf_truncate(&out, 0);
        struct egressmsg_ended ended = sample_ended;
        ended.host = slice_from(text, EGRESSMSG_HOST_MAX);
        ended.address = slice_from(text, EGRESSMSG_ADDRESS_MAX);
        ended.rule = slice_from(text, EGRESSMSG_RULE_MAX);
        ended.reason = slice_from(text, EGRESSMSG_REASON_MAX);
        eq_int(egressmsg_ended_write(&out, 1, &ended), 0);
        ok(out.n <= EGRESSMSG_MAX);
}
