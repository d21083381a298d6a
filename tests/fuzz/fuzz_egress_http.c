/* fuzz_egress_http: heads of requests and responses that go through the proxy. What is passed on is a head again, leads to the same place, and
 * has the same body. */
#include "base/mem.h"
#include "egress/http_head.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX (4u << 20)

static void must_be_the_same_request(const struct buf *out, const struct http_head *h,
                                     const struct http_target *t)
{
        static struct http_head again;
        struct http_target there;
        size_t scanned = 0;
        must(http_head_find(buf_slice(out), &scanned) == (ssize_t)out->n);
        int r = http_request_read(buf_slice(out), &again);
        must(r == 0 || (r == -EMSGSIZE && h->field_count + 3 > HTTP_FIELDS_MAX));
        if (r < 0)
                return;
        must(again.framing == h->framing && again.length == h->length && slice_eq(again.method, h->method));
        if (slice_eq(h->method, S("CONNECT")))
                return;
        must(http_target_read(&again, &there) == 0);
        must(there.port == t->port || t->is_tls || h->host.p);
}

static void try_request(struct slice head)
{
        static struct http_head h;
        struct http_target t;
        if (http_request_read(head, &h) < 0 || http_target_read(&h, &t) < 0)
                return;
        must(t.host.n > 0 && t.port > 0);
        _buf_ struct buf out = BUF_INIT(OUT_MAX);
        must(http_request_write(&out, &h, &t, false, true) == 0);
        must_be_the_same_request(&out, &h, &t);
}

static void try_response(struct slice head, struct slice method)
{
        static struct http_head h, again;
        if (http_response_read(head, method, &h) < 0)
                return;
        _buf_ struct buf out = BUF_INIT(OUT_MAX);
        must(http_response_write(&out, &h, h.is_kept_alive) == 0);
        size_t scanned = 0;
        must(http_head_find(buf_slice(&out), &scanned) == (ssize_t)out.n);
        if (http_response_read(buf_slice(&out), method, &again) == 0)
                must(again.framing == h.framing && again.status == h.status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct slice in = slice_from(data, size);
        size_t scanned = 0;
        ssize_t n = http_head_find(in, &scanned);
        must(n <= (ssize_t)size);
        if (n <= 0)
                return 0;
        struct slice head = slice_from(in.p, (size_t)n);
        try_request(head);
        try_response(head, S("GET"));
        try_response(head, S("HEAD"));
        return 0;
}
