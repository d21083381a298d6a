/* fuzz_http: for any bytes, http_parse gives for each prefix the result of the whole, or "more"; its slices lie inside of the head;
 * and it never accepts both ways to announce a body. */
#include "base/mem.h"
#include "wire/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void is_inside(struct slice s, struct slice head)
{
        must(s.p >= head.p && s.p + s.n <= head.p + head.n);
}

static void request_check(const struct http_request *r, struct slice head)
{
        must(r->method.n > 0 && r->target.n > 0 && r->path.n > 0);
        is_inside(r->method, head);
        is_inside(r->target, head);
        is_inside(r->path, r->target);
        if (r->query.p)
                is_inside(r->query, r->target);
        must(r->header_count <= HTTP_HEADERS_MAX);
        must(!(r->has_content_length && r->is_chunked));
        must(http_header_count(r, S("content-length")) == r->has_content_length);
        must(http_header_count(r, S("transfer-encoding")) == r->is_chunked);
        for (size_t i = 0; i < r->header_count; i++) {
                const struct http_header *h = &r->headers[i];

                is_inside(h->name, head);
                is_inside(h->value, head);
                must(h->name.n > 0 && h->value.p > h->name.p + h->name.n);
                must(!memchr(h->value.p, '\n', h->value.n) && !memchr(h->value.p, '\r', h->value.n));
                must(!slice_has_nul(h->value));
                must(http_header_find(r, h->name).p != NULL);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct slice in = slice_from(data, size);
        struct http_request r;
        ssize_t whole = http_parse(in, &r), before = 0;

        must(whole <= (ssize_t)MIN(size, (size_t)HTTP_HEAD_MAX));
        must(whole >= 0 || whole == -400 || whole == -431 || whole == -501 || whole == -505);
        must(whole != 0 || size < HTTP_HEAD_MAX);
        if (whole > 0)
                request_check(&r, slice_from(in.p, (size_t)whole));

        /* Parses every prefix of a short input, and some of a long one, each in a buffer of exactly its size. */
        size_t step = 1 + size / 256;
        for (size_t n = 0; n < size; n += step) {
                _free_ char *copy = mem_alloc(MAX(n, 1u));
                memcpy(copy, data, n);
                ssize_t got = http_parse(slice_from(copy, n), &r);

                must(got == 0 || got == whole);
                must(before == 0 || got == before);
                must(whole <= 0 || (got != 0) == (n >= (size_t)whole));
                before = got;
        }
        return 0;
}
