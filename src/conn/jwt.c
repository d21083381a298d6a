/* jwt: checks the signature and the claims of a token.
 *
 * Nothing in a token is decoded before its signature was verified, so that no JSON of strangers is parsed. The claims must have
 * the types that the reference server requires, even where the value does not matter.
 */
#include "conn/jwt.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "wire/json.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#define JWT_INVALID "invalid websocket jwt"
#define SIGNATURE_CHARS 43 /* 32 bytes in base64url */

static bool signature_is_good(const struct jwt_rules *rules, struct slice text, struct slice signature)
{
        uint8_t given[SHA256_DIGEST_SIZE], right[SHA256_DIGEST_SIZE];

        if (signature.n != SIGNATURE_CHARS ||
            base64url_decode(given, signature.p, signature.n) != (ssize_t)sizeof(given))
                return false;

        struct hmac_sha256_ctx ctx;
        hmac_sha256_set_key(&ctx, rules->secret_len, rules->secret);
        hmac_sha256_update(&ctx, text.n, (const uint8_t *)text.p);
        hmac_sha256_digest(&ctx, sizeof(right), right);
        bool good = memeql_sec(given, right, sizeof(right));
        explicit_bzero(&ctx, sizeof(ctx));
        explicit_bzero(right, sizeof(right));
        return good;
}

/* Decodes one part of a token, which is a JSON object in base64url. */
static bool part_parse(struct arena *arena, struct slice part, struct json_doc *ret)
{
        char *text = arena_zalloc(arena, part.n + BUF_PADDING);
        ssize_t n = base64url_decode(text, part.p, part.n);
        struct json_error why;

        return n >= 0 && json_parse(arena, slice_from(text, (size_t)n), ret, &why) >= 0 &&
               json_root(ret)->type == JSON_OBJECT;
}

/* Finds a claim. Returns NULL when the claim is absent or null. */
static const struct json *claim_find(const struct json_doc *d, struct slice name)
{
        const struct json *v = json_get(d, json_root(d), name);

        return v && v->type == JSON_NULL ? NULL : v;
}

static bool header_is_usable(struct arena *arena, struct slice part)
{
        struct json_doc d;
        if (!part_parse(arena, part, &d))
                return false;

        const struct json *alg = claim_find(&d, S("alg"));
        /* RFC 7515, 4.1.11: `crit` names extensions that must be understood. We know none, so a token with `crit` is refused. */
        return alg && alg->type == JSON_STRING && slice_eq(json_string(arena, &d, alg), S("HS256")) &&
               !json_get(&d, json_root(&d), S("crit"));
}

/* The claims that we read. Their types are always checked, their values only as far as jwt_rules says. */
struct claims {
        int64_t exp, nbf;
        struct slice iss;       /* p == NULL when absent */
        const struct json *aud; /* a string, an array of strings, or NULL */
};

static bool claims_read(struct arena *arena, const struct json_doc *d, struct claims *ret)
{
        const struct json *exp = claim_find(d, S("exp")), *nbf = claim_find(d, S("nbf"));
        const struct json *iss = claim_find(d, S("iss")), *aud = claim_find(d, S("aud"));

        *ret = (struct claims){ .nbf = INT64_MIN, .aud = aud };
        if (!exp || json_i64(d, exp, &ret->exp) < 0 || (nbf && json_i64(d, nbf, &ret->nbf) < 0))
                return false;
        if (iss && iss->type != JSON_STRING)
                return false;
        if (iss)
                ret->iss = json_string(arena, d, iss);
        if (!aud || aud->type == JSON_STRING)
                return true;
        if (aud->type != JSON_ARRAY)
                return false;
        json_each (it, d, aud)
                if (it->type != JSON_STRING)
                        return false;
        return true;
}

static bool audience_matches(struct arena *arena, const struct json_doc *d, const struct json *aud,
                             struct slice wanted)
{
        if (!aud)
                return false;
        if (aud->type == JSON_STRING)
                return slice_eq(json_string(arena, d, aud), wanted);
        json_each (it, d, aud)
                if (slice_eq(json_string(arena, d, it), wanted))
                        return true;
        return false;
}

static int64_t later(int64_t time, int64_t seconds)
{
        int64_t sum;

        return ckd_add(&sum, time, seconds) ? INT64_MAX : sum; /* `seconds` is never negative */
}

/* Returns the identity that the subject of the token gives. A subject that is no string counts as it is written: 1 and "1" are
 * two subjects. A token without a subject gives the identity "nobody". */
static struct identity identity_read(struct arena *arena, const struct json_doc *d, struct slice issuer)
{
        const struct json *sub = claim_find(d, S("sub")), *admin = claim_find(d, S("admin"));
        struct identity who = { 0 };

        if (sub)
                who = identity_of_subject(issuer, sub->type,
                                          sub->type == JSON_STRING ? json_string(arena, d, sub)
                                                                   : json_raw(d, sub));
        who.is_admin = admin && admin->type == JSON_TRUE;
        return who;
}

const char *jwt_check(const struct jwt_rules *rules, struct slice token, int64_t now_unix_seconds,
                      struct identity *ret)
{
        struct slice rest = token;
        struct slice header = slice_split(&rest, '.'), body = slice_split(&rest, '.');
        if (!rest.p) /* a third '.' is refused later, as it is no base64url */
                return JWT_INVALID;
        if (!signature_is_good(rules, slice_from(token.p, (size_t)(rest.p - token.p) - 1), rest))
                return JWT_INVALID;

        _arena_ struct arena arena = ARENA_INIT;
        struct json_doc d;
        struct claims claims;
        if (!header_is_usable(&arena, header) || !part_parse(&arena, body, &d) ||
            !claims_read(&arena, &d, &claims))
                return JWT_INVALID;

        if (now_unix_seconds > later(claims.exp, rules->skew_seconds))
                return "expired websocket jwt";
        if (later(now_unix_seconds, rules->skew_seconds) < claims.nbf)
                return "websocket jwt is not valid yet";
        if (rules->issuer && (!claims.iss.p || !slice_eq(claims.iss, slice_from_str(rules->issuer))))
                return "websocket jwt issuer mismatch";
        if (rules->audience && !audience_matches(&arena, &d, claims.aud, slice_from_str(rules->audience)))
                return "websocket jwt audience mismatch";
        *ret = identity_read(&arena, &d, claims.iss);
        return NULL;
}
