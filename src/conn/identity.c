/* identity: computes identities from tokens. Each part is hashed with its length, so that different clients never have the same
 * input to the hash. */
#include "conn/identity.h"

#include <nettle/memops.h>
#include <nettle/sha2.h>

static_assert(IDENTITY_BYTES == SHA256_DIGEST_SIZE, "an owner is a digest");

enum part { PART_TOKEN = 1, PART_SUBJECT, PART_NO_ISSUER, PART_ISSUER };

static void hash_part(struct sha256_ctx *ctx, int what, struct slice bytes)
{
        uint64_t head[2] = { (uint64_t)what, bytes.n };

        sha256_update(ctx, sizeof(head), (const uint8_t *)head);
        sha256_update(ctx, bytes.n, (const uint8_t *)bytes.p);
}

struct identity identity_of_token(const uint8_t digest[static IDENTITY_BYTES])
{
        struct identity who = { 0 };
        struct sha256_ctx ctx;

        sha256_init(&ctx);
        hash_part(&ctx, PART_TOKEN, slice_from((const char *)digest, IDENTITY_BYTES));
        sha256_digest(&ctx, sizeof(who.owner), who.owner);
        return who;
}

struct identity identity_of_subject(struct slice issuer, int kind, struct slice subject)
{
        struct identity who = { .is_personal = true };
        struct sha256_ctx ctx;

        sha256_init(&ctx);
        hash_part(&ctx, issuer.p ? PART_ISSUER : PART_NO_ISSUER, issuer);
        hash_part(&ctx, PART_SUBJECT, slice_from((const char *)&kind, sizeof(kind)));
        hash_part(&ctx, PART_SUBJECT, subject);
        sha256_digest(&ctx, sizeof(who.owner), who.owner);
        return who;
}

bool identity_may_see(const struct identity *who, const uint8_t owner[static IDENTITY_BYTES])
{
        return who->is_admin || memeql_sec(who->owner, owner, IDENTITY_BYTES);
}
