/* jwt_test: tests which signed tokens pass, and with which texts others are refused. The time is 1800000000 in all tests. */
#include "conn/jwt.h"

#include "base/base64.h"
#include "base/mem.h"

#include "unit.h"

#include <nettle/hmac.h>

#define NOW INT64_C(1800000000)
#define SECRET "0123456789abcdef0123456789abcdef"
#define HEADER "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"

#define BAD_JWT "invalid websocket jwt"
#define EXPIRED "expired websocket jwt"
#define EARLY "websocket jwt is not valid yet"
#define ISSUER "websocket jwt issuer mismatch"
#define AUDIENCE "websocket jwt audience mismatch"

static char issuer[] = "i", audience[] = "a";

/* These rules own no memory. */
#define RULES(...)                                                              \
        {                                                                       \
                .secret = SECRET, .secret_len = sizeof(SECRET) - 1, __VA_ARGS__ \
        }

static struct identity last_identity; /* the identity of the last token that passed */

/* Checks a token, copied to memory of exactly its size, so that sanitizers notice a read past its end. Returns the refusal, or
 * "passes". */
static const char *refusal_of(const struct jwt_rules *a, const char *token)
{
        size_t n = strlen(token);
        _free_ char *copy = mem_alloc(MAX(n, 1u));

        memcpy(copy, token, n);
        const char *refusal = jwt_check(a, slice_from(copy, n), NOW, &last_identity);
        return refusal ? refusal : "passes";
}

/* Returns HEADER.CLAIMS.SIGNATURE. The signature is right even when the header or the claims are not JSON. */
static char *token_make(struct slice header, struct slice claims, const char *key)
{
        char out[2048];
        uint8_t mac[SHA256_DIGEST_SIZE];
        struct hmac_sha256_ctx ctx;

        ok(header.n + claims.n < 1024);
        size_t n = base64url_encode(out, header.p, header.n);
        out[n++] = '.';
        n += base64url_encode(out + n, claims.p, claims.n);

        hmac_sha256_set_key(&ctx, strlen(key), (const uint8_t *)key);
        hmac_sha256_update(&ctx, n, (const uint8_t *)out);
        hmac_sha256_digest(&ctx, sizeof(mac), mac);
        out[n++] = '.';
        n += base64url_encode(out + n, mac, sizeof(mac));
        return slice_dup(slice_from(out, n));
}

static const char *refusal_of_claims(const struct jwt_rules *a, const char *claims)
{
        _free_ char *token = token_make(S(HEADER), slice_from_str(claims), SECRET);

        return refusal_of(a, token);
}

static const struct {
        const char *claims, *expect;
} claims_table[] = {
        { "{\"exp\":1800000000,\"iss\":\"i\",\"aud\":\"a\"}", "passes" },
        { " {\"aud\":[\"x\",\"\\u0061\"],\"iss\":\"\\u0069\",\"\\u0065xp\":1800000060 , \"sub\":5}\n",
          "passes" },
        { "{\"exp\":9223372036854775807,\"nbf\":-9223372036854775808,\"iss\":\"i\",\"aud\":\"a\"}",
          "passes" },
        { "{\"exp\":1799999970,\"iss\":\"i\",\"aud\":\"a\"}", "passes" },
        { "{\"exp\":1799999969,\"iss\":\"i\",\"aud\":\"a\"}", EXPIRED },
        { "{\"exp\":-1,\"iss\":\"i\",\"aud\":\"a\"}", EXPIRED },
        { "{\"exp\":-9223372036854775808,\"iss\":\"i\",\"aud\":\"a\"}", EXPIRED },
        { "{\"exp\":1800000060,\"nbf\":1800000030,\"iss\":\"i\",\"aud\":\"a\"}", "passes" },
        { "{\"exp\":1800000060,\"nbf\":1800000031,\"iss\":\"i\",\"aud\":\"a\"}", EARLY },
        { "{\"exp\":1800000060,\"nbf\":9223372036854775807,\"iss\":\"i\",\"aud\":\"a\"}", EARLY },
        { "{\"exp\":1800000060,\"nbf\":null,\"iss\":\"i\",\"aud\":\"a\"}", "passes" },
        /* several wrong claims: the refusal names exp before nbf, nbf before iss, and iss before aud */
        { "{\"exp\":1,\"nbf\":1800000060,\"iss\":\"x\",\"aud\":\"x\"}", EXPIRED },
        { "{\"exp\":1800000060,\"nbf\":1800000060,\"iss\":\"x\",\"aud\":\"x\"}", EARLY },
        { "{\"exp\":1800000060,\"iss\":\"x\",\"aud\":\"x\"}", ISSUER },
        /* issuer */
        { "{\"exp\":1800000060,\"aud\":\"a\"}", ISSUER },
        { "{\"exp\":1800000060,\"iss\":null,\"aud\":\"a\"}", ISSUER },
        { "{\"exp\":1800000060,\"iss\":\"\",\"aud\":\"a\"}", ISSUER },
        { "{\"exp\":1800000060,\"iss\":\"I\",\"aud\":\"a\"}", ISSUER },
        { "{\"exp\":1800000060,\"iss\":\"i\\u0000\",\"aud\":\"a\"}", ISSUER },
        { "{\"exp\":1800000060,\"iss\":[\"i\"],\"aud\":\"a\"}", BAD_JWT },
        /* audience */
        { "{\"exp\":1800000060,\"iss\":\"i\"}", AUDIENCE },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":null}", AUDIENCE },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":\"\"}", AUDIENCE },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":\"ab\"}", AUDIENCE },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":[]}", AUDIENCE },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":[\"x\",\"ab\"]}", AUDIENCE },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":[\"a\",5]}", BAD_JWT },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":[[\"a\"]]}", BAD_JWT },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":{\"a\":\"a\"}}", BAD_JWT },
        /* values that are no times */
        { "{\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":null,\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":\"1800000060\",\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":1800000060.5,\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":1e300,\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":9223372036854775808,\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":true,\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":1800000060,\"nbf\":\"x\",\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":1800000060,\"nbf\":1.5,\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        /* parts that are no JSON objects */
        { "{\"exp\":1800000060,\"exp\":1800000061,\"iss\":\"i\",\"aud\":\"a\"}", BAD_JWT },
        { "{\"exp\":1800000060,\"iss\":\"i\",\"aud\":\"a\"}x", BAD_JWT },
        { "{\"exp\":", BAD_JWT },
        { "[]", BAD_JWT },
        { "5", BAD_JWT },
        { "null", BAD_JWT },
        { "", BAD_JWT },
        { "\xff", BAD_JWT },
};

TEST(claims_are_checked_in_their_order)
{
        const struct jwt_rules a = RULES(.issuer = issuer, .audience = audience, .skew_seconds = 30);

        for (size_t i = 0; i < ARRAY_LEN(claims_table); i++) {
                const char *got = refusal_of_claims(&a, claims_table[i].claims);
                if (strcmp(got, claims_table[i].expect) != 0)
                        fail_msg("%s: %s", claims_table[i].claims, got);
        }
}

TEST(clients_are_told_apart_by_subject_and_issuer)
{
        /* Each row is a different client, or the identity "nobody". */
        static const char *const table[] = {
                "{\"exp\":1800000060,\"sub\":\"a\"}",
                "{\"exp\":1800000060,\"sub\":\"b\"}",
                "{\"exp\":1800000060,\"sub\":\"a\",\"iss\":\"b\"}",
                "{\"exp\":1800000060,\"sub\":\"b\",\"iss\":\"a\"}",
                "{\"exp\":1800000060,\"sub\":\"\",\"iss\":\"ba\"}",
                "{\"exp\":1800000060,\"sub\":\"\",\"iss\":\"\"}",
                "{\"exp\":1800000060,\"sub\":\"\"}",
                "{\"exp\":1800000060,\"sub\":1}",
                "{\"exp\":1800000060,\"sub\":\"1\"}",
                "{\"exp\":1800000060,\"sub\":[1]}",
                "{\"exp\":1800000060,\"sub\":{\"1\":1}}",
                "{\"exp\":1800000060,\"sub\":{\"1\":2}}",
                "{\"exp\":1800000060}",
        };
        const struct jwt_rules a = RULES(.skew_seconds = 30);
        struct identity seen[ARRAY_LEN(table)];

        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                eq_str(refusal_of_claims(&a, table[i]), "passes");
                seen[i] = last_identity;
                ok(!last_identity.is_admin && last_identity.is_personal == (i + 1 < ARRAY_LEN(table)));
                for (size_t k = 0; k < i; k++)
                        ok(!identity_may_see(&last_identity, seen[k].owner) &&
                           !identity_may_see(&seen[k], last_identity.owner));
        }
        eq_str(refusal_of_claims(&a, "{\"exp\":1800000050,\"jti\":7,\"sub\":\"\\u0061\"}"), "passes");
        ok(identity_may_see(&last_identity, seen[0].owner)); /* another token of the first client */
        eq_str(refusal_of_claims(&a, "{\"exp\":1800000060,\"sub\":null}"), "passes");
        ok(identity_may_see(&last_identity, seen[ARRAY_LEN(table) - 1].owner) && !last_identity.is_personal);
}

TEST(only_the_claim_admin_with_true_makes_an_admin)
{
        static const char *const others[] = {
                "false", "null", "1", "\"true\"", "[true]", "{\"admin\":true}"
        };
        const struct jwt_rules a = RULES(.skew_seconds = 30);
        char claims[128];

        eq_str(refusal_of_claims(&a, "{\"exp\":1800000060,\"sub\":\"a\",\"admin\":true}"), "passes");
        ok(last_identity.is_admin);
        eq_str(refusal_of_claims(&a, "{\"exp\":1800000060,\"admin\":true}"), "passes");
        ok(last_identity.is_admin);
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
                (void)snprintf(claims, sizeof(claims), "{\"exp\":1800000060,\"admin\":%s}", others[i]);
                eq_str(refusal_of_claims(&a, claims), "passes");
                ok(!last_identity.is_admin);
        }
}

TEST(issuer_and_audience_are_not_compared_unless_configured_but_must_have_their_type)
{
        const struct jwt_rules a = RULES(.skew_seconds = 0);

        eq_str(refusal_of_claims(&a, "{\"exp\":1800000000}"), "passes");
        eq_str(refusal_of_claims(&a, "{\"exp\":1799999999}"), EXPIRED);
        eq_str(refusal_of_claims(&a, "{\"exp\":1800000000,\"nbf\":1800000000}"), "passes");
        eq_str(refusal_of_claims(&a, "{\"exp\":1800000000,\"nbf\":1800000001}"), EARLY);
        eq_str(refusal_of_claims(&a, "{\"exp\":1800000000,\"iss\":\"x\",\"aud\":[]}"), "passes");
        eq_str(refusal_of_claims(&a, "{\"exp\":1800000000,\"iss\":5}"), BAD_JWT);
        eq_str(refusal_of_claims(&a, "{\"exp\":1800000000,\"aud\":5}"), BAD_JWT);
}

TEST(the_largest_skew_does_not_overflow)
{
        const struct jwt_rules a = RULES(.skew_seconds = INT64_MAX);

        eq_str(refusal_of_claims(&a, "{\"exp\":9223372036854775807,\"nbf\":9223372036854775807}"), "passes");
        eq_str(refusal_of_claims(&a, "{\"exp\":0}"), "passes");
        eq_str(refusal_of_claims(&a, "{\"exp\":-9223372036854775808}"), EXPIRED);
}

TEST(only_hs256_is_an_algorithm)
{
        static const struct {
                const char *header, *expect;
        } table[] = {
                { "{\"alg\":\"HS256\"}", "passes" },
                { "{\"typ\":\"JOSE\",\"alg\":\"\\u0048S256\",\"kid\":\"k\"}", "passes" },
                { "{\"alg\":\"hs256\"}", BAD_JWT },
                { "{\"alg\":\"HS384\"}", BAD_JWT },
                { "{\"alg\":\"HS512\"}", BAD_JWT },
                { "{\"alg\":\"RS256\"}", BAD_JWT },
                { "{\"alg\":\"none\"}", BAD_JWT },
                { "{\"alg\":\"HS256\\u0000\"}", BAD_JWT },
                { "{\"alg\":5}", BAD_JWT },
                { "{\"alg\":null}", BAD_JWT },
                { "{\"alg\":[\"HS256\"]}", BAD_JWT },
                { "{\"alg\":\"none\",\"alg\":\"HS256\"}", BAD_JWT },
                { "{\"alg\":\"HS256\",\"crit\":[\"exp\"],\"exp\":1}", BAD_JWT },
                { "{\"typ\":\"JWT\"}", BAD_JWT },
                { "[\"HS256\"]", BAD_JWT },
                { "", BAD_JWT },
        };
        const struct jwt_rules a = RULES(.skew_seconds = 30);

        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _free_ char *token =
                        token_make(slice_from_str(table[i].header), S("{\"exp\":1800000060}"), SECRET);
                eq_str(refusal_of(&a, token), table[i].expect);
        }
}

TEST(a_token_of_another_secret_is_invalid_whatever_it_says)
{
        const struct jwt_rules a = RULES(.skew_seconds = 30);
        _free_ char *good = token_make(S(HEADER), S("{\"exp\":1800000060}"), SECRET "2");
        _free_ char *expired = token_make(S(HEADER), S("{\"exp\":1}"), SECRET "\n");

        eq_str(refusal_of(&a, good), BAD_JWT);
        eq_str(refusal_of(&a, expired), BAD_JWT);
}

/* A token with any character changed, or cut anywhere, is refused. */
TEST(a_token_that_is_cut_or_changed_anywhere_is_invalid)
{
        const struct jwt_rules a = RULES(.skew_seconds = 30);
        _free_ char *token = token_make(S(HEADER), S("{\"exp\":1800000060}"), SECRET);
        size_t n = strlen(token);

        eq_str(refusal_of(&a, token), "passes");
        for (size_t i = 1; i < n; i++) {
                _free_ char *cut = slice_dup(slice_from(token, i));
                eq_str(refusal_of(&a, cut), BAD_JWT);
        }
        for (size_t i = 0; i < n; i++) {
                for (const char *c = "A-.=+/ !"; *c; c++) {
                        if (token[i] == *c || ((i == 0 || i == n - 1) && *c == ' '))
                                continue; /* blanks at the ends are trimmed; cut tokens are tested above */
                        char kept = token[i];
                        token[i] = *c;
                        eq_str(refusal_of(&a, token), BAD_JWT);
                        token[i] = kept;
                }
        }
}

TEST(a_token_has_three_parts_without_padding)
{
        static const char *const suffixes[] = { ".", ".x", "=", " x", "A", "AA" };
        static const char *const tokens[] = { "garbage", ".",     "..",       "...",
                                              "a.b.c",   "!.!.!", "e30.e30.", "e30.e30" };
        const struct jwt_rules a = RULES(.skew_seconds = 30);
        _free_ char *token = token_make(S(HEADER), S("{\"exp\":1800000060}"), SECRET);

        for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
                _free_ char *longer = mem_printf("%s%s", token, suffixes[i]);
                eq_str(refusal_of(&a, longer), BAD_JWT);
        }
        for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
                eq_str(refusal_of(&a, tokens[i]), BAD_JWT);
}
