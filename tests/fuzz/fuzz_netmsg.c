/* fuzz_netmsg: the messages between server and farhand-net. What is taken from any bytes can be written again and is
 * then the same; nothing is taken beyond the input. */
#include "base/mem.h"
#include "wire/netmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX (4u << 20)

static void must_be_same(const struct buf *out, const struct netmsg *m)
{
        struct netmsg again;
        must(netmsg_next(buf_slice(out), &again) == (ssize_t)out->n);
        must(again.type == m->type && again.id == m->id && slice_eq(again.payload, m->payload));
}

static void take(const struct netmsg *m)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(OUT_MAX);
        struct netmsg_request request;
        struct netmsg_head head;
        struct netmsg_end end;
        uint32_t credit;
        int r = -1;
        switch (m->type) {
        case NETMSG_REQUEST:
                if (netmsg_request_decode(&a, m->payload, &request) == 0)
                        r = netmsg_request_write(&out, m->id, &request);
                break;
        case NETMSG_HEAD:
                if (netmsg_head_decode(&a, m->payload, &head) == 0)
                        r = netmsg_head_write(&out, m->id, &head);
                break;
        case NETMSG_END:
                if (netmsg_end_decode(m->payload, &end) == 0)
                        r = netmsg_end_write(&out, m->id, &end);
                break;
        case NETMSG_CREDIT:
                if (netmsg_credit_decode(m->payload, &credit) == 0)
                        r = netmsg_credit_write(&out, m->id, credit);
                break;
        case NETMSG_BODY:
        case NETMSG_DATA:
                r = netmsg_bytes_write(&out, m->type, m->id, m->payload);
                must(r == 0);
                break;
        case NETMSG_CANCEL:
                r = netmsg_cancel_write(&out, m->id);
                must(r == 0);
                break;
        case NETMSG_PING:
                r = netmsg_ping_write(&out);
                must(r == 0);
                break;
        case NETMSG_PONG:
                r = netmsg_pong_write(&out);
                must(r == 0);
                break;
        }
        if (r == 0)
                must_be_same(&out, m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        /* The copy has the exact size, so that the sanitizer reports a read beyond it. */
        _free_ char *copy = mem_alloc(MAX(size, (size_t)1));
        if (size)
                memcpy(copy, data, size);
        struct slice rest = slice_from(copy, size);
        struct netmsg m;
        ssize_t n;
        while ((n = netmsg_next(rest, &m)) > 0) {
                must((size_t)n <= rest.n && m.payload.p + m.payload.n == rest.p + n);
                take(&m);
                rest = slice_from(rest.p + n, rest.n - (size_t)n);
        }
        return 0;
}
