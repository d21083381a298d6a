/* fuzz_jwt: no Authorization header is accepted that was made without the secret.
 *
 * The first byte chooses: the rest is the header's value as it is; or HEADER.CLAIMS that we sign, so that what lies
 * behind the signature is reached: then only a header with HS256 and claims with an exp may pass, and never once the
 * signature is spoilt. The secret is not in the seeds; to find it is to break HMAC. */
#include "base/base64.h"
#include "base/mem.h"
#include "conn/auth.h"

#include <nettle/hmac.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW INT64_C(1800000000)
#define SECRET "kN8vQ2zXw5rT7yB1mC4sD9fG6hJ3pL0a"

static const char *asked(const struct auth *a, const char *value, size_t n)
{
        _free_ char *copy = mem_alloc(MAX(n, 1u));
        struct http_request r = { .header_count = 1 };
        struct identity who;

        memcpy(copy, value, n);
        r.headers[0] = (struct http_header){ S("authorization"), slice_from(copy, n) };
        return auth_check(a, &r, NOW, &who);
}

/* Returns "Bearer " and a signed token made of the two parts. */
static char *signed_value(struct slice header, struct slice claims, size_t *ret_n)
{
        char *out = mem_alloc(128 + (header.n + claims.n) * 2);
        uint8_t mac[SHA256_DIGEST_SIZE];
        struct hmac_sha256_ctx ctx;
        size_t start = strlen("Bearer "), n = start;

        memcpy(out, "Bearer ", start);
        n += base64url_encode(out + n, header.p, header.n);
        out[n++] = '.';
        n += base64url_encode(out + n, claims.p, claims.n);
        hmac_sha256_set_key(&ctx, strlen(SECRET), (const uint8_t *)SECRET);
        hmac_sha256_update(&ctx, n - start, (const uint8_t *)out + start);
        hmac_sha256_digest(&ctx, sizeof(mac), mac);
        out[n++] = '.';
        *ret_n = n + base64url_encode(out + n, mac, sizeof(mac));
        return out;
}

/* Is the word in the JSON text, or an escape that could be it? */
static bool may_name(struct slice json, struct slice word)
{
        return memmem(json.p, json.n, word.p, word.n) || memchr(json.p, '\\', json.n);
}

static void check_signed(const struct auth *a, struct slice parts)
{
        struct slice rest = parts, header = slice_split(&rest, '\n');
        size_t n;
        _free_ char *value = signed_value(header, rest, &n);

        if (!asked(a, value, n)) {
                must(may_name(header, S("alg")) && may_name(header, S("HS256")));
                must(may_name(rest, S("exp")));
        }

        /* Changes one character of the signature; which one depends on the input. */
        size_t at = n - 2 - parts.n % 40;
        value[at] = value[at] == 'A' ? 'B' : 'A';
        must(asked(a, value, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct auth token = { .mode = AUTH_CAPABILITY_TOKEN,
                                     .tokens = { .count = 1, .digests = { { 1, 2, 3 } } } };
        static struct auth jwt = { .mode = AUTH_SIGNED_BEARER_TOKEN,
                                   .jwt = { .secret_len = strlen(SECRET), .skew_seconds = 30 } };
        static char issuer[] = "i", audience[] = "a";

        if (size == 0 || size > HTTP_HEAD_MAX)
                return 0;
        memcpy(jwt.jwt.secret, SECRET, strlen(SECRET));
        jwt.jwt.issuer = data[0] & 1 ? issuer : NULL;
        jwt.jwt.audience = data[0] & 2 ? audience : NULL;

        const char *rest = (const char *)data + 1;
        if (data[0] & 4) {
                check_signed(&jwt, slice_from(rest, size - 1));
                return 0;
        }
        must(asked(&token, rest, size - 1));
        must(asked(&jwt, rest, size - 1));
        return 0;
}
