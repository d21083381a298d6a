/* egressmsg: the messages between the server and farhand-egress, on their SOCK_SEQPACKET socketpair.
 *
 *      0         1      2      4
 *      | version | type | zero | payload
 *
 * Little-endian; one message is one packet of at most EGRESSMSG_MAX bytes. `network` names the network of one command and is not used
 * again before its CLOSED. The server opens a network, changes its rules, closes it, and answers questions; egress asks, withdraws
 * questions, tells what was decided and which connections have ended. PING, answered by PONG, shows that egress works.
 *
 * Descriptors travel with OPEN (a memfd with the policy, then the sockets in the order of `kinds`) and RULES (the memfd) only. Each end
 * takes the other for hostile: every field is checked, and a broken message, one of the wrong direction or one with other descriptors
 * ends the link.
 *
 * Numbers of actions, sources and protocols are those of netrule (enum net_action and so on), which this directory does not know.
 */
#pragma once

#include "base/buf.h"
#include "base/compat.h"
#include "base/slice.h"

#define EGRESSMSG_VERSION 1
#define EGRESSMSG_MAX (16 * 1024)
#define EGRESSMSG_PORTS_MAX 64                          /* ports that have a listener of their own */
#define EGRESSMSG_SOCKETS_MAX (EGRESSMSG_PORTS_MAX + 4) /* and HTTP, SOCKS5, DNS twice */
#define EGRESSMSG_FDS_MAX (EGRESSMSG_SOCKETS_MAX + 1)
#define EGRESSMSG_HOST_MAX 253
#define EGRESSMSG_REASON_MAX 1024
#define EGRESSMSG_METHOD_MAX 64
#define EGRESSMSG_RULE_MAX 1200  /* a pattern and a range */
#define EGRESSMSG_ADDRESS_MAX 64 /* "[address]:port" */
#define EGRESSMSG_ACTIONS 3      /* NET_ACTIONS */
#define EGRESSMSG_SOURCES 4      /* NET_SOURCES */
#define EGRESSMSG_PROTOCOLS 6    /* NET_PROTOCOLS */

enum egressmsg_type {
        EGRESSMSG_OPEN = 1,
        EGRESSMSG_RULES = 2,
        EGRESSMSG_CLOSE = 3,
        EGRESSMSG_ANSWER = 4,
        EGRESSMSG_PING = 5,
        EGRESSMSG_ASK = 65,
        EGRESSMSG_WITHDRAWN = 66,
        EGRESSMSG_DECIDED = 67,
        EGRESSMSG_ENDED = 68,
        EGRESSMSG_CLOSED = 69,
        EGRESSMSG_PONG = 70,
};

/* What a socket of OPEN is for. */
enum egressmsg_kind {
        EGRESSMSG_HTTP_LISTENER,
        EGRESSMSG_SOCKS_LISTENER,
        EGRESSMSG_DNS_UDP,
        EGRESSMSG_DNS_LISTENER,
        EGRESSMSG_PORT_LISTENER, /* connections to `ports[i]` of any address */
        EGRESSMSG_KINDS,
};

struct egressmsg_open {
        size_t count; /* of sockets */
        uint8_t kinds[EGRESSMSG_SOCKETS_MAX];
        uint16_t ports[EGRESSMSG_SOCKETS_MAX];
};

enum egressmsg_remember { EGRESSMSG_ONCE, EGRESSMSG_FOR_NETWORK, EGRESSMSG_REMEMBERS };

struct egressmsg_answer {
        uint32_t question;
        uint8_t action;
        uint8_t remember;
        uint32_t ttl_ms; /* how long it is remembered; 0: as long as the network lives */
        struct slice reason;
};

struct egressmsg_ask {
        uint32_t question; /* never 0; not used again while it is open */
        uint8_t protocol;
        uint16_t port;
        struct slice host;
};

struct egressmsg_decided {
        uint32_t count;   /* so many of the same since the last one; at least 1 */
        uint64_t time_ms; /* since 1970 */
        uint8_t action, source, protocol;
        bool is_guard;    /* scope non_domain */
        bool is_override; /* the client allowed what the policy does not */
        bool has_method;
        uint16_t port;
        struct slice reason, host, method, client;
};

struct egressmsg_ended {
        uint8_t protocol;
        uint16_t port;
        uint8_t action;
        struct slice host, address, rule, reason;
        uint64_t bytes_up, bytes_down;
        uint64_t time_ms; /* when it began, since 1970 */
        uint32_t took_ms;
};

struct egressmsg {
        enum egressmsg_type type;
        uint32_t network; /* 0 in PING and PONG */
        union {
                struct egressmsg_open open;
                struct egressmsg_answer answer;
                struct egressmsg_ask ask;
                uint32_t withdrawn; /* the question */
                struct egressmsg_decided decided;
                struct egressmsg_ended ended;
        };
};

/* Reads one packet; slices point into it. Returns 0 or -EPROTO. */
NODISCARD int egressmsg_read(struct slice packet, struct egressmsg *ret);

/* Which end may send it? */
static inline bool egressmsg_is_from_server(enum egressmsg_type type)
{
        return type < EGRESSMSG_ASK;
}

/* How many descriptors come with the message. */
NODISCARD size_t egressmsg_fd_count(const struct egressmsg *m);

/* Append one packet to `out`. Return 0; -EMSGSIZE when the message would break a limit of its receiver, or -ENOBUFS when `out` is
 * full: both leave `out` as it was. */
NODISCARD int egressmsg_open_write(struct buf *out, uint32_t network, const struct egressmsg_open *m);
NODISCARD int egressmsg_rules_write(struct buf *out, uint32_t network);
NODISCARD int egressmsg_close_write(struct buf *out, uint32_t network);
NODISCARD int egressmsg_answer_write(struct buf *out, uint32_t network, const struct egressmsg_answer *m);
NODISCARD int egressmsg_ping_write(struct buf *out);
NODISCARD int egressmsg_ask_write(struct buf *out, uint32_t network, const struct egressmsg_ask *m);
NODISCARD int egressmsg_withdrawn_write(struct buf *out, uint32_t network, uint32_t question);
NODISCARD int egressmsg_decided_write(struct buf *out, uint32_t network, const struct egressmsg_decided *m);
NODISCARD int egressmsg_ended_write(struct buf *out, uint32_t network, const struct egressmsg_ended *m);
NODISCARD int egressmsg_closed_write(struct buf *out, uint32_t network);
NODISCARD int egressmsg_pong_write(struct buf *out);
