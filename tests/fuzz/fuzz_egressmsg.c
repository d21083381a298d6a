/* fuzz_egressmsg: the messages between server and farhand-egress. What is taken from any bytes can be written again and is
 * then the same. */
#include "base/mem.h"
#include "wire/egressmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int write_again(struct buf *out, const struct egressmsg *m)
{
        switch (m->type) {
        case EGRESSMSG_OPEN:
                return egressmsg_open_write(out, m->network, &m->open);
        case EGRESSMSG_RULES:
                return egressmsg_rules_write(out, m->network);
        case EGRESSMSG_CLOSE:
                return egressmsg_close_write(out, m->network);
        case EGRESSMSG_ANSWER:
                return egressmsg_answer_write(out, m->network, &m->answer);
        case EGRESSMSG_PING:
                return egressmsg_ping_write(out);
        case EGRESSMSG_ASK:
                return egressmsg_ask_write(out, m->network, &m->ask);
        case EGRESSMSG_WITHDRAWN:
                return egressmsg_withdrawn_write(out, m->network, m->withdrawn);
        case EGRESSMSG_DECIDED:
                return egressmsg_decided_write(out, m->network, &m->decided);
        case EGRESSMSG_ENDED:
                return egressmsg_ended_write(out, m->network, &m->ended);
        case EGRESSMSG_CLOSED:
                return egressmsg_closed_write(out, m->network);
        case EGRESSMSG_PONG:
                return egressmsg_pong_write(out);
        }
        return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        /* The copy has the exact size, so that the sanitizer reports a read beyond it. */
        _free_ char *copy = mem_alloc(MAX(size, (size_t)1));
        if (size)
                memcpy(copy, data, size);
        struct slice in = slice_from(copy, size);
        struct egressmsg m;
        if (egressmsg_read(in, &m) < 0)
                return 0;
        must(egressmsg_fd_count(&m) <= EGRESSMSG_FDS_MAX);
        _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
        must(write_again(&out, &m) == 0);
        must(slice_eq(buf_slice(&out), in));
        return 0;
}
