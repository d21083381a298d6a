/* fuzz_client_hello: any bytes as the beginning of a connection. A name is a host, and what a beginning of them says still holds when more
 * have come. */
#include "base/mem.h"
#include "egress/client_hello.h"
#include "netrule/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct client_hello look(const uint8_t *data, size_t n)
{
        /* The copy has the exact size, so that the sanitizer reports a read beyond it. */
        _free_ char *copy = mem_alloc(MAX(n, (size_t)1));
        if (n)
                memcpy(copy, data, n);
        struct client_hello h = client_hello_read(slice_from(copy, n));
        must(h.kind != CLIENT_HELLO_NAMED || net_host_is_normal(slice_from(h.host, h.host_n)));
        must(h.kind == CLIENT_HELLO_NAMED || h.host_n == 0);
        return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct client_hello whole = look(data, size);
        size_t steps = MIN(size, (size_t)64);
        for (size_t i = 0; i < steps; i++) {
                struct client_hello part = look(data, size / steps * i);
                must(part.kind == CLIENT_HELLO_MORE || part.kind == whole.kind);
                must(part.kind != CLIENT_HELLO_NAMED || strcmp(part.host, whole.host) == 0);
        }
        return 0;
}
