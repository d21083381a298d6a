/* tokens: adds digests of capability tokens to a set and looks them up in constant time. */
#include "conn/tokens.h"

#include <errno.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>

static_assert(TOKEN_DIGEST_BYTES == SHA256_DIGEST_SIZE, "a digest is SHA-256");

void token_digest(struct slice token, uint8_t ret[static TOKEN_DIGEST_BYTES])
{
        struct sha256_ctx ctx;

        sha256_init(&ctx);
        sha256_update(&ctx, token.n, (const uint8_t *)token.p);
        sha256_digest(&ctx, TOKEN_DIGEST_BYTES, ret);
        explicit_bzero(&ctx, sizeof(ctx));
}

int tokens_add_digest(struct tokens *t, const uint8_t digest[static TOKEN_DIGEST_BYTES])
{
        if (tokens_has(t, digest))
                return 0;
        if (t->count == TOKENS_MAX)
                return -E2BIG;
        memcpy(t->digests[t->count++], digest, TOKEN_DIGEST_BYTES);
        return 0;
}

int tokens_add_lines(struct tokens *t, struct slice text)
{
        struct slice rest = text;
        while (rest.p) {
                struct slice token = slice_trim(slice_split(&rest, '\n'));
                if (token.n == 0)
                        continue;
                uint8_t digest[TOKEN_DIGEST_BYTES];
                token_digest(token, digest);
                int r = tokens_add_digest(t, digest);
                if (r < 0)
                        return r;
        }
        return 0;
}

bool tokens_has(const struct tokens *t, const uint8_t digest[static TOKEN_DIGEST_BYTES])
{
        bool found = false;
        for (size_t i = 0; i < t->count; i++)
                found |= (bool)memeql_sec(t->digests[i], digest, TOKEN_DIGEST_BYTES);
        return found;
}
