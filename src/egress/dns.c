/* dns: reads one question, writes one answer. */
#include "egress/dns.h"

#include <errno.h>

#define HEAD_BYTES 12
#define OPT_BYTES 11 /* with no options */
#define TYPE_OPT 41
#define TYPE_IXFR 251
#define TYPE_AXFR 252
#define CLASS_IN 1

/*      0  1   2                 3                 4  5   6  7   8  9   10 11
 *      | id  | QR opcode AA TC RD | RA Z AD CD rcode | QD   | AN   | NS   | AR   |
 */
#define QR 0x80
#define TC 0x02
#define RD 0x01
#define RA 0x80

/* --- reading ------------------------------------------------------------------------------------------------------ */

static uint16_t get16(const char *p)
{
        return (uint16_t)((unsigned char)p[0] << 8 | (unsigned char)p[1]);
}

ssize_t dns_frame(struct slice in, struct slice *ret)
{
        if (in.n < 2)
                return 0;
        size_t n = get16(in.p);
        if (n < HEAD_BYTES || n > DNS_MESSAGE_MAX)
                return -EPROTO;
        if (in.n - 2 < n)
                return 0;
        *ret = slice_from(in.p + 2, n);
        return (ssize_t)(2 + n);
}

static bool is_host_character(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Appends a label to the name. */
static void take_label(struct dns_question *q, struct slice label)
{
        if (q->name_n > 0)
                q->name[q->name_n++] = '.';
        for (size_t i = 0; i < label.n; i++) {
                char c = ascii_lower(label.p[i]);
                q->is_host &= is_host_character(c);
                q->name[q->name_n++] = c;
        }
}

/* Reads the name at `at`. Returns where it ends; 0 when it is malformed. */
static size_t read_name(struct slice m, size_t at, struct dns_question *q)
{
        q->is_host = true;
        while (at < m.n) {
                size_t n = (unsigned char)m.p[at++];
                if (n == 0) {
                        q->is_host &= q->name_n > 0;
                        q->name[q->is_host ? q->name_n : 0] = 0;
                        return at;
                }
                /* Above 63 it is a pointer, or something that never became a standard. */
                if (n > 63 || m.n - at < n || q->name_n + (q->name_n > 0) + n > DNS_NAME_MAX)
                        return 0;
                take_label(q, slice_from(m.p + at, n));
                at += n;
        }
        return 0;
}

/* Reads the record that may follow the question: EDNS, and nothing else. Returns a dns_code. */
static int read_edns(struct slice rest, struct dns_question *q)
{
        if (rest.n < OPT_BYTES || rest.p[0] != 0 || get16(rest.p + 1) != TYPE_OPT ||
            get16(rest.p + 9) != rest.n - OPT_BYTES)
                return DNS_FORMERR;
        for (size_t at = OPT_BYTES; at < rest.n;) {
                if (rest.n - at < 4 || rest.n - at - 4 < get16(rest.p + at + 2))
                        return DNS_FORMERR;
                at += 4 + (size_t)get16(rest.p + at + 2);
        }
        q->has_edns = true;
        return rest.p[6] == 0 ? DNS_NOERROR : DNS_BADVERS;
}

int dns_question_read(struct slice m, struct dns_question *ret)
{
        if (m.n < HEAD_BYTES || ((unsigned char)m.p[2] & QR))
                return -EPROTO;
        *ret = (struct dns_question){
                .id = get16(m.p),
                .wants_recursion = m.p[2] & RD,
                .opcode = (uint8_t)((unsigned char)m.p[2] >> 3 & 15),
                .bytes = S(""),
        };
        if (ret->opcode != 0)
                return DNS_NOTIMP;
        unsigned extra = get16(m.p + 10);
        if (m.n > DNS_MESSAGE_MAX || (m.p[2] & TC) || get16(m.p + 4) != 1 || get16(m.p + 6) != 0 ||
            get16(m.p + 8) != 0 || extra > 1)
                return DNS_FORMERR;
        struct dns_question q = *ret;
        size_t end = read_name(m, HEAD_BYTES, &q);
        if (end == 0 || m.n - end < 4)
                return DNS_FORMERR;
        q.type = get16(m.p + end);
        unsigned class = get16(m.p + end + 2);
        end += 4;
        q.bytes = slice_from(m.p + HEAD_BYTES, end - HEAD_BYTES);
        int code = DNS_NOERROR;
        if (extra)
                code = read_edns(slice_from(m.p + end, m.n - end), &q);
        else if (m.n != end)
                code = DNS_FORMERR;
        if (code == DNS_FORMERR)
                return code;
        *ret = q;
        if (code == DNS_NOERROR &&
            (class != CLASS_IN || q.type == TYPE_IXFR || q.type == TYPE_AXFR || q.type == TYPE_OPT))
                return DNS_NOTIMP;
        return code;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static size_t put16(char *p, unsigned v)
{
        p[0] = (char)(v >> 8);
        p[1] = (char)(v & 0xff);
        return 2;
}

/* A question has at most 259 bytes, so that every answer fits. */
static int write_answer(struct buf *out, const struct dns_question *q, enum dns_code code,
                        const uint8_t *address, uint32_t ttl_s, bool is_stream)
{
        char m[2 + DNS_MESSAGE_MAX] = { 0 };
        char *head = m + 2;
        size_t n = HEAD_BYTES;
        (void)put16(head, q->id);
        head[2] = (char)(QR | q->opcode << 3 | (q->wants_recursion ? RD : 0));
        head[3] = (char)(RA | (code & 15));
        (void)put16(head + 4, q->bytes.n > 0);
        (void)put16(head + 6, address != NULL);
        (void)put16(head + 10, q->has_edns);
        if (q->bytes.n > 0)
                memcpy(head + n, q->bytes.p, q->bytes.n);
        n += q->bytes.n;
        if (address) {
                n += put16(head + n, 0xc000 | HEAD_BYTES); /* the name of the question */
                n += put16(head + n, DNS_TYPE_A);
                n += put16(head + n, CLASS_IN);
                n += put16(head + n, ttl_s >> 16);
                n += put16(head + n, ttl_s & 0xffff);
                n += put16(head + n, 4);
                memcpy(head + n, address, 4);
                n += 4;
        }
        if (q->has_edns) {
                (void)put16(head + n + 1, TYPE_OPT);
                (void)put16(head + n + 3, DNS_MESSAGE_MAX);
                head[n + 5] = (char)(code >> 4);
                n += OPT_BYTES;
        }
        (void)put16(m, (unsigned)n);
        return buf_append(out, is_stream ? slice_from(m, n + 2) : slice_from(head, n));
}

int dns_answer_write(struct buf *out, const struct dns_question *q, enum dns_code code, bool is_stream)
{
        return write_answer(out, q, code, NULL, 0, is_stream);
}

int dns_address_write(struct buf *out, const struct dns_question *q, const uint8_t address[4], uint32_t ttl_s,
                      bool is_stream)
{
        return write_answer(out, q, DNS_NOERROR, address, ttl_s, is_stream);
}
