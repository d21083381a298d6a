/* fuzz_dns: any bytes as a message of DNS. Every answer repeats the question and fits into its limit, and a name is a host or empty. */
#include "base/mem.h"
#include "egress/dns.h"
#include "netrule/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(const struct dns_question *q, int code)
{
        static const uint8_t address[] = { 198, 18, 0, 1 };
        _buf_ struct buf out = BUF_INIT(DNS_MESSAGE_MAX);
        must(code == DNS_NOERROR ? dns_address_write(&out, q, address, 60, false) == 0
                                 : dns_answer_write(&out, q, (enum dns_code)code, false) == 0);
        must(out.n >= 12 + q->bytes.n && slice_eq(slice_from(out.p + 12, q->bytes.n), q->bytes));
        must((unsigned char)out.p[2] & 0x80);
        struct dns_question again;
        must(dns_question_read(buf_slice(&out), &again) < 0); /* an answer is never answered */
        _buf_ struct buf framed = BUF_INIT(2 + DNS_MESSAGE_MAX);
        struct slice m;
        must(dns_answer_write(&framed, q, DNS_SERVFAIL, true) == 0);
        must(dns_frame(buf_slice(&framed), &m) == (ssize_t)framed.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        /* The copy has the exact size, so that the sanitizer reports a read beyond it. */
        _free_ char *copy = mem_alloc(MAX(size, (size_t)1));
        if (size)
                memcpy(copy, data, size);
        struct slice in = slice_from(copy, size), m = in;
        struct dns_question q;
        int code = dns_question_read(in, &q);
        if (code >= 0) {
                must(strlen(q.name) <= DNS_NAME_MAX);
                must(code != DNS_NOERROR || !q.is_host || q.name_n == strlen(q.name));
                check_answer(&q, code);
        }
        if (dns_frame(in, &m) > 0 && dns_question_read(m, &q) >= 0)
                check_answer(&q, DNS_NXDOMAIN);
        return 0;
}
