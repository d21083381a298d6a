/* jwt: see jwt.h.
 *
 * A token is hostile until its signature is good: nothing inside is decoded before that, so that JSON of strangers is
 * never parsed. The claims have the types that the reference asks for, also where nobody compares them.
 */
#include "server/jwt.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "wire/json.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#define JWT_INVALID "invalid websocket jwt"
#define SIGNATURE_CHARS 43 /* 32 bytes in base64url */

static bool signature_is_good(const struct auth *a, struct slice text, struct slice signature)
{
        uint8_t given[SHA256_DIGEST_SIZE], right[SHA256_DIGEST_SIZE];

        if (signature.n != SIGNATURE_CHARS ||
            base64url_decode(given, signature.p, signature.n) != (ssize_t)sizeof(given))
                return false;

        struct hmac_sha256_ctx ctx;
        hmac_sha256_set_key(&ctx, a->secret_len, a->secret);
        hmac_sha256_update(&ctx, text.n, (const uint8_t *)text.p);
        hmac_sha256_digest(&ctx, sizeof(right), right);
        bool good = memeql_sec(given, right, sizeof(right));
        explicit_bzero(&ctx, sizeof(ctx));
        explicit_bzero(right, sizeof(right));
        return good;
}

/* One part of a token: base64url of a JSON object. */
static bool part_parse(struct arena *arena, struct slice part, struct json_doc *ret)
{
        char *text = arena_zalloc(arena, part.n + BUF_PADDING);
        ssize_t n = base64url_decode(text, part.p, part.n);
        struct json_error why;

        return n >= 0 && json_parse(arena, slice_from(text, (size_t)n), ret, &why) >= 0 &&
               json_root(ret)->type == JSON_OBJECT;
}

/* A claim; NULL when it is absent or null. */
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
        /* RFC 7515, 4.1.11: an extension that must be understood, and we understand none. */
        return alg && alg->type == JSON_STRING && slice_eq(json_string(arena, &d, alg), S("HS256")) &&
               !json_get(&d, json_root(&d), S("crit"));
}

/* The claims that we read, of the types that they must have whether they are asked for or not. */
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
        json_each (it, d, aud) {
                if (it->type != JSON_STRING)
                        return false;
        }
        return true;
}

static bool audience_matches(struct arena *arena, const struct json_doc *d, const struct json *aud,
                             struct slice wanted)
{
        if (!aud)
                return false;
        if (aud->type == JSON_STRING)
                return slice_eq(json_string(arena, d, aud), wanted);
        json_each (it, d, aud) {
                if (slice_eq(json_string(arena, d, it), wanted))
                        return true;
        }
        return false;
}

static int64_t later(int64_t time, int64_t seconds)
{
        int64_t sum;

        return ckd_add(&sum, time, seconds) ? INT64_MAX : sum; /* `seconds` is never negative */
}

const char *jwt_check(const struct auth *a, struct slice token, int64_t now_unix_seconds)
{
        struct slice rest = token;
        struct slice header = slice_split(&rest, '.'), body = slice_split(&rest, '.');
        if (!rest.p) /* and a further '.' is no base64url */
                return JWT_INVALID;
        if (!signature_is_good(a, slice_from(token.p, (size_t)(rest.p - token.p) - 1), rest))
                return JWT_INVALID;

        _arena_ struct arena arena = ARENA_INIT;
        struct json_doc d;
        struct claims claims;
        if (!header_is_usable(&arena, header) || !part_parse(&arena, body, &d) ||
            !claims_read(&arena, &d, &claims))
                return JWT_INVALID;

        if (now_unix_seconds > later(claims.exp, a->skew_seconds))
                return "expired websocket jwt";
        if (later(now_unix_seconds, a->skew_seconds) < claims.nbf)
                return "websocket jwt is not valid yet";
        if (a->issuer && (!claims.iss.p || !slice_eq(claims.iss, slice_from_str(a->issuer))))
                return "websocket jwt issuer mismatch";
        if (a->audience && !audience_matches(&arena, &d, claims.aud, slice_from_str(a->audience)))
                return "websocket jwt audience mismatch";
        return NULL;
}
