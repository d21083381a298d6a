/* fuzz_socks: what a client of SOCKS says. Nothing is taken beyond the input, and the same is taken when more follows. */
#include "base/fatal.h"
#include "egress/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct slice in = slice_from(data, size);
        struct socks_request r, again;
        bool is_welcome = false;
        ssize_t n = socks_hello_read(in, &is_welcome);
        must(n <= (ssize_t)size);
        n = socks_request_read(in, &r);
        must(n <= (ssize_t)size);
        if (n > 0) {
                must(r.host.n > 0 && r.host.n <= 255);
                must(socks_request_read(slice_from(in.p, (size_t)n), &again) == n &&
                     slice_eq(again.host, r.host));
                must(socks_request_read(slice_from(in.p, (size_t)n - 1), &again) == 0);
        }
        return 0;
}
