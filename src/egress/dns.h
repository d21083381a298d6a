/* dns: one question of the Domain Name System, and the answers that we give ourselves (RFC 1035, EDNS of RFC 6891).
 *
 * A managed network answers names itself and forwards nothing. So this reads a question and writes one of a few answers; it resolves
 * nothing. Questions are read strictly: whoever asks is the command, and may be an enemy. A question has no compressed name: a pointer in
 * it makes it malformed, so nothing here can loop. Over TCP a message has its length in front of it (dns_frame).
 */
#pragma once

#include "base/buf.h"
#include "base/compat.h"
#include "base/slice.h"

#define DNS_MESSAGE_MAX 512 /* bytes of a question or an answer, without the length in front */
#define DNS_NAME_MAX 253    /* bytes of a name as text */
#define DNS_TYPE_A 1
#define DNS_TYPE_AAAA 28

/* What is answered. */
enum dns_code {
        DNS_NOERROR = 0,
        DNS_FORMERR = 1,
        DNS_SERVFAIL = 2,
        DNS_NXDOMAIN = 3,
        DNS_NOTIMP = 4,
        DNS_BADVERS = 16, /* an EDNS version that nobody knows */
};

struct dns_question {
        uint16_t id;
        bool wants_recursion;
        bool has_edns;
        uint8_t opcode;
        struct slice
                bytes; /* the question as it came, which the answer repeats; empty when it could not be read */
        uint16_t type;
        bool is_host;                /* the name consists of letters, digits, '-' and '_' */
        char name[DNS_NAME_MAX + 1]; /* lower case, without the dot at the end; only when is_host */
        size_t name_n;
};

/* Finds the first message of a TCP stream. Returns how many bytes it takes with its length; 0: not all of it is here; -EPROTO: its
 * length is not one of a question. */
NODISCARD ssize_t dns_frame(struct slice in, struct slice *ret);

/* Reads a message. Returns DNS_NOERROR: it is a question, to be looked up; another code: it is to be answered with that, and *ret has what the
 * answer needs; -EPROTO: it gets no answer, because it is too short, or no question. */
NODISCARD int dns_question_read(struct slice message, struct dns_question *ret);

/* Appends an answer without addresses: NOERROR says that the name exists, but not with this type. Returns 0 or -ENOBUFS. */
NODISCARD int dns_answer_write(struct buf *out, const struct dns_question *q, enum dns_code code,
                               bool is_stream);
/* Appends an answer with an address, for a question of type A. */
NODISCARD int dns_address_write(struct buf *out, const struct dns_question *q, const uint8_t address[4],
                                uint32_t ttl_s, bool is_stream);
