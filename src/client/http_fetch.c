/* http_fetch: one function that makes an HTTP request, waits for the answer, and collects its body. */
#include "client/client.h"

#include "base/mem.h"
#include "client/error.h"

#include <errno.h>

struct fetch {
        struct farhand_http_result result;
        struct buf body;
        bool is_over;
        struct farhand_error error; /* its code is 0 when nothing failed */
};

static void on_response(UNUSED struct farhand_http *h, void *arg, int status,
                        const struct farhand_http_header *headers, size_t count)
{
        struct farhand_http_result *result = &((struct fetch *)arg)->result;
        result->status = status;
        result->headers = mem_zalloc((count + 1) * sizeof(*headers));
        for (; result->header_count < count; result->header_count++) {
                const struct farhand_http_header *from = &headers[result->header_count];
                result->headers[result->header_count] =
                        (struct farhand_http_header){ .name = mem_strdup(from->name),
                                                      .value = mem_strdup(from->value) };
        }
}

static void on_body(UNUSED struct farhand_http *h, void *arg, const void *bytes, size_t n)
{
        struct fetch *fetch = arg;
        char *room;
        int r = fetch->error.code < 0 ? -ENOBUFS : buf_reserve_or_fail(&fetch->body, n, &room);
        if (r < 0) {
                error_set(&fetch->error, r == -ENOBUFS ? -EMSGSIZE : r,
                          "the body of the answer is longer than is wanted");
                fetch->is_over = true;
                return;
        }
        memcpy(room, bytes, n);
        buf_commit(&fetch->body, n);
}

static void on_done(UNUSED struct farhand_http *h, void *arg)
{
        ((struct fetch *)arg)->is_over = true;
}

static void on_failed(UNUSED struct farhand_http *h, void *arg, const struct farhand_error *error)
{
        struct fetch *fetch = arg;
        fetch->error = *error;
        fetch->is_over = true;
}

int farhand_http_fetch(struct farhand *f, const struct farhand_http_request *request, size_t max_bytes,
                       int timeout_ms, struct farhand_http_result *ret, struct farhand_error *ret_error)
{
        static const struct farhand_http_events events = {
                .on_response = on_response, .on_body = on_body, .on_done = on_done, .on_failed = on_failed
        };
        struct fetch fetch = { .body = BUF_INIT(max_bytes) };
        struct farhand_error error;
        uint64_t end = client_wait_end(timeout_ms);
        struct farhand_http *h = farhand_http_start(f, request, &events, &fetch, &error);
        int r = h ? 0 : error_copy(ret_error, &error);
        while (r == 0 && !fetch.is_over) {
                int n = client_wait_until(f, end, ret_error);
                if (n < 0 && !fetch.is_over)
                        r = n;
                else if (n == 0 && !fetch.is_over)
                        r = error_set(ret_error, -ETIMEDOUT, "the HTTP request was not answered in time");
        }
        if (r == 0 && fetch.error.code < 0)
                r = error_copy(ret_error, &fetch.error);
        farhand_http_free(h);
        if (r == 0) {
                fetch.result.body_bytes = fetch.body.n;
                fetch.result.body = buf_take(&fetch.body);
                *ret = fetch.result;
        } else {
                farhand_http_result_release(&fetch.result);
        }
        buf_release(&fetch.body);
        return r;
}

void farhand_http_result_release(struct farhand_http_result *result)
{
        for (size_t i = 0; i < result->header_count; i++) {
                free((void *)(uintptr_t)result->headers[i].name);
                free((void *)(uintptr_t)result->headers[i].value);
        }
        free(result->headers);
        free(result->body);
        *result = (struct farhand_http_result){ 0 };
}
