/* fuzz_base64: compares the vector code with a slow decoder and encoder, and checks round trips. */
#include "base/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void check(bool cond)
{
        if (!cond)
                abort();
}

/* Decodes bit by bit. Returns the number of bytes, or -1. */
static ssize_t decode_slowly(uint8_t *out, const char *in, size_t n)
{
        size_t pad = n >= 2 && in[n - 1] == '=' ? 1 + (in[n - 2] == '=') : 0, written = 0;
        unsigned bits = 0, count = 0;

        if (n % 4 != 0)
                return -1;
        for (size_t i = 0; i < n - pad; i++) {
                const char *letter = in[i] ? strchr(letters, in[i]) : NULL;
                if (!letter)
                        return -1;
                bits = (bits << 6 | (unsigned)(letter - letters)) & 0xffff;
                count += 6;
                if (count >= 8) {
                        count -= 8;
                        out[written++] = (uint8_t)(bits >> count);
                }
        }
        return bits & ((1U << count) - 1) ? -1 : (ssize_t)written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        /* The buffer is exactly as large as promised, so that the sanitizer reports a byte too many. */
        size_t max = base64_decoded_max(size), bad = SIZE_MAX;
        uint8_t *out = malloc(max + (max == 0)), *slow = malloc(max + 4);
        char *text = malloc(base64_encoded_size(size) + (size == 0));
        uint8_t *back = malloc(base64_decoded_max(base64_encoded_size(size)) + 1);

        ssize_t n = base64_decode(out, (const char *)data, size, &bad);
        check(n == decode_slowly(slow, (const char *)data, size));
        check(n >= 0 ? memcmp(out, slow, (size_t)n) == 0 : bad <= size);
        if (n >= 0) /* only one text decodes to these bytes */
                check(base64_encode(text, out, (size_t)n) == size && memcmp(text, data, size) == 0);
        else if (bad < size) /* the text before the bad character must decode */
                check(base64_decode(out, (const char *)data, bad / 4 * 4, NULL) >= 0);

        check(base64_encode(text, data, size) == base64_encoded_size(size));
        check(base64_decode(back, text, base64_encoded_size(size), NULL) == (ssize_t)size);
        check(memcmp(back, data, size) == 0);
        size_t url_size = base64url_encode(text, data, size);
        check(base64url_decode(back, text, url_size) == (ssize_t)size && memcmp(back, data, size) == 0);

        free(out);
        free(slow);
        free(text);
        free(back);
        return 0;
}
