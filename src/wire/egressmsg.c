/* egressmsg: encodes and decodes the messages between the server and farhand-egress.
 *
 * Writers check what readers check: what one end sends by mistake fails there, and does not end the link.
 */
#include "wire/egressmsg.h"

#include "base/packed.h"

#include <errno.h>

#define FLAG_GUARD 1u
#define FLAG_OVERRIDE 2u
#define FLAG_METHOD 4u
#define FLAGS 7u

/* --- reading ------------------------------------------------------------------------------------------------------ */

static uint8_t read_choice(struct unpacker *u, unsigned count)
{
        return (uint8_t)unpack_number_to(u, 1, count - 1);
}

/* A number that is never 0. */
static uint32_t read_id(struct unpacker *u)
{
        uint32_t v = (uint32_t)unpack_number(u, 4);
        u->is_broken |= v == 0;
        return v;
}

static void read_open(struct unpacker *u, struct egressmsg_open *m)
{
        m->count = unpack_count(u, EGRESSMSG_SOCKETS_MAX, 3);
        for (size_t i = 0; i < m->count; i++) {
                m->kinds[i] = read_choice(u, EGRESSMSG_KINDS);
                m->ports[i] = (uint16_t)unpack_number(u, 2);
        }
}

static void read_answer(struct unpacker *u, struct egressmsg_answer *m)
{
        m->question = read_id(u);
        m->action = read_choice(u, EGRESSMSG_ACTIONS);
        m->remember = read_choice(u, EGRESSMSG_REMEMBERS);
        m->ttl_ms = (uint32_t)unpack_number(u, 4);
        m->reason = unpack_text(u, EGRESSMSG_REASON_MAX);
}

static void read_ask(struct unpacker *u, struct egressmsg_ask *m)
{
        m->question = read_id(u);
        m->protocol = read_choice(u, EGRESSMSG_PROTOCOLS);
        m->port = (uint16_t)unpack_number(u, 2);
        m->host = unpack_text(u, EGRESSMSG_HOST_MAX);
        u->is_broken |= m->host.n == 0;
}

static void read_decided(struct unpacker *u, struct egressmsg_decided *m)
{
        m->count = read_id(u);
        m->time_ms = unpack_number(u, 8);
        m->action = read_choice(u, EGRESSMSG_ACTIONS);
        m->source = read_choice(u, EGRESSMSG_SOURCES);
        m->protocol = read_choice(u, EGRESSMSG_PROTOCOLS);
        unsigned flags = (unsigned)unpack_number_to(u, 1, FLAGS);
        m->is_guard = flags & FLAG_GUARD;
        m->is_override = flags & FLAG_OVERRIDE;
        m->has_method = flags & FLAG_METHOD;
        m->port = (uint16_t)unpack_number(u, 2);
        m->reason = unpack_text(u, EGRESSMSG_REASON_MAX);
        m->host = unpack_text(u, EGRESSMSG_HOST_MAX);
        m->method = unpack_text(u, EGRESSMSG_METHOD_MAX);
        m->client = unpack_text(u, EGRESSMSG_ADDRESS_MAX);
        u->is_broken |= m->method.n > 0 && !m->has_method;
}

static void read_ended(struct unpacker *u, struct egressmsg_ended *m)
{
        m->protocol = read_choice(u, EGRESSMSG_PROTOCOLS);
        m->port = (uint16_t)unpack_number(u, 2);
        m->action = read_choice(u, EGRESSMSG_ACTIONS);
        m->host = unpack_text(u, EGRESSMSG_HOST_MAX);
        m->address = unpack_text(u, EGRESSMSG_ADDRESS_MAX);
        m->rule = unpack_text(u, EGRESSMSG_RULE_MAX);
        m->reason = unpack_text(u, EGRESSMSG_REASON_MAX);
        m->bytes_up = unpack_number(u, 8);
        m->bytes_down = unpack_number(u, 8);
        m->time_ms = unpack_number(u, 8);
        m->took_ms = (uint32_t)unpack_number(u, 4);
}

int egressmsg_read(struct slice packet, struct egressmsg *ret)
{
        if (packet.n > EGRESSMSG_MAX)
                return -EPROTO;
        struct unpacker u = unpack_begin(packet);
        struct egressmsg m = { 0 };
        u.is_broken |= unpack_number(&u, 1) != EGRESSMSG_VERSION;
        unsigned type = (unsigned)unpack_number(&u, 1);
        u.is_broken |= unpack_number(&u, 2) != 0;
        bool has_network = type != EGRESSMSG_PING && type != EGRESSMSG_PONG;
        m.type = (enum egressmsg_type)type;
        m.network = has_network ? (uint32_t)unpack_number(&u, 4) : 0;
        switch (type) {
        case EGRESSMSG_OPEN:
                read_open(&u, &m.open);
                break;
        case EGRESSMSG_ANSWER:
                read_answer(&u, &m.answer);
                break;
        case EGRESSMSG_ASK:
                read_ask(&u, &m.ask);
                break;
        case EGRESSMSG_WITHDRAWN:
                m.withdrawn = read_id(&u);
                break;
        case EGRESSMSG_DECIDED:
                read_decided(&u, &m.decided);
                break;
        case EGRESSMSG_ENDED:
                read_ended(&u, &m.ended);
                break;
        case EGRESSMSG_RULES:
        case EGRESSMSG_CLOSE:
        case EGRESSMSG_CLOSED:
        case EGRESSMSG_PING:
        case EGRESSMSG_PONG:
                break;
        default:
                return -EPROTO;
        }
        if (unpack_end(&u) < 0)
                return -EPROTO;
        *ret = m;
        return 0;
}

size_t egressmsg_fd_count(const struct egressmsg *m)
{
        switch (m->type) {
        case EGRESSMSG_OPEN:
                return m->open.count + 1;
        case EGRESSMSG_RULES:
                return 1;
        default:
                return 0;
        }
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static struct packer begin(struct buf *out, enum egressmsg_type type)
{
        struct packer p = pack_begin(out);
        pack_number(&p, 1, EGRESSMSG_VERSION);
        pack_number(&p, 1, type);
        pack_number(&p, 2, 0);
        return p;
}

static struct packer begin_for(struct buf *out, enum egressmsg_type type, uint32_t network)
{
        struct packer p = begin(out, type);
        pack_number(&p, 4, network);
        return p;
}

static int end(struct packer *p)
{
        if (!p->error && p->out->n - p->at > EGRESSMSG_MAX)
                p->error = -EMSGSIZE;
        return pack_end(p);
}

static void write_choice(struct packer *p, uint8_t v, unsigned count)
{
        if (!p->error && v >= count)
                p->error = -EMSGSIZE;
        pack_number(p, 1, v);
}

static void write_id(struct packer *p, uint32_t v)
{
        if (!p->error && v == 0)
                p->error = -EMSGSIZE;
        pack_number(p, 4, v);
}

int egressmsg_open_write(struct buf *out, uint32_t network, const struct egressmsg_open *m)
{
        struct packer p = begin_for(out, EGRESSMSG_OPEN, network);
        pack_count(&p, m->count, EGRESSMSG_SOCKETS_MAX);
        for (size_t i = 0; i < m->count && !p.error; i++) {
                write_choice(&p, m->kinds[i], EGRESSMSG_KINDS);
                pack_number(&p, 2, m->ports[i]);
        }
        return end(&p);
}

int egressmsg_rules_write(struct buf *out, uint32_t network)
{
        struct packer p = begin_for(out, EGRESSMSG_RULES, network);
        return end(&p);
}

int egressmsg_close_write(struct buf *out, uint32_t network)
{
        struct packer p = begin_for(out, EGRESSMSG_CLOSE, network);
        return end(&p);
}

int egressmsg_answer_write(struct buf *out, uint32_t network, const struct egressmsg_answer *m)
{
        struct packer p = begin_for(out, EGRESSMSG_ANSWER, network);
        write_id(&p, m->question);
        write_choice(&p, m->action, EGRESSMSG_ACTIONS);
        write_choice(&p, m->remember, EGRESSMSG_REMEMBERS);
        pack_number(&p, 4, m->ttl_ms);
        pack_text(&p, m->reason, EGRESSMSG_REASON_MAX);
        return end(&p);
}

int egressmsg_ping_write(struct buf *out)
{
        struct packer p = begin(out, EGRESSMSG_PING);
        return end(&p);
}

int egressmsg_ask_write(struct buf *out, uint32_t network, const struct egressmsg_ask *m)
{
        struct packer p = begin_for(out, EGRESSMSG_ASK, network);
        write_id(&p, m->question);
        write_choice(&p, m->protocol, EGRESSMSG_PROTOCOLS);
        pack_number(&p, 2, m->port);
        if (!p.error && m->host.n == 0)
                p.error = -EMSGSIZE;
        pack_text(&p, m->host, EGRESSMSG_HOST_MAX);
        return end(&p);
}

int egressmsg_withdrawn_write(struct buf *out, uint32_t network, uint32_t question)
{
        struct packer p = begin_for(out, EGRESSMSG_WITHDRAWN, network);
        write_id(&p, question);
        return end(&p);
}

int egressmsg_decided_write(struct buf *out, uint32_t network, const struct egressmsg_decided *m)
{
        struct packer p = begin_for(out, EGRESSMSG_DECIDED, network);
        write_id(&p, m->count);
        pack_number(&p, 8, m->time_ms);
        write_choice(&p, m->action, EGRESSMSG_ACTIONS);
        write_choice(&p, m->source, EGRESSMSG_SOURCES);
        write_choice(&p, m->protocol, EGRESSMSG_PROTOCOLS);
        pack_number(&p, 1,
                    (m->is_guard ? FLAG_GUARD : 0) | (m->is_override ? FLAG_OVERRIDE : 0) |
                            (m->has_method ? FLAG_METHOD : 0));
        pack_number(&p, 2, m->port);
        pack_text(&p, m->reason, EGRESSMSG_REASON_MAX);
        pack_text(&p, m->host, EGRESSMSG_HOST_MAX);
        pack_text(&p, m->has_method ? m->method : S(""), EGRESSMSG_METHOD_MAX);
        pack_text(&p, m->client, EGRESSMSG_ADDRESS_MAX);
        return end(&p);
}

int egressmsg_ended_write(struct buf *out, uint32_t network, const struct egressmsg_ended *m)
{
        struct packer p = begin_for(out, EGRESSMSG_ENDED, network);
        write_choice(&p, m->protocol, EGRESSMSG_PROTOCOLS);
        pack_number(&p, 2, m->port);
        write_choice(&p, m->action, EGRESSMSG_ACTIONS);
        pack_text(&p, m->host, EGRESSMSG_HOST_MAX);
        pack_text(&p, m->address, EGRESSMSG_ADDRESS_MAX);
        pack_text(&p, m->rule, EGRESSMSG_RULE_MAX);
        pack_text(&p, m->reason, EGRESSMSG_REASON_MAX);
        pack_number(&p, 8, m->bytes_up);
        pack_number(&p, 8, m->bytes_down);
        pack_number(&p, 8, m->time_ms);
        pack_number(&p, 4, m->took_ms);
        return end(&p);
}

int egressmsg_closed_write(struct buf *out, uint32_t network)
{
        struct packer p = begin_for(out, EGRESSMSG_CLOSED, network);
        return end(&p);
}

int egressmsg_pong_write(struct buf *out)
{
        struct packer p = begin(out, EGRESSMSG_PONG);
        return end(&p);
}
