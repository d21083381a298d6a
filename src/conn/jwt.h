/* jwt: the signed bearer tokens of auth: JWTs (RFC 7519) with HS256 and nothing else. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"
#include "conn/identity.h"

#define JWT_SECRET_MAX 4096

/* What is required of a token. */
struct jwt_rules {
        uint8_t secret[JWT_SECRET_MAX];
        size_t secret_len;
        char *issuer, *audience; /* NULL: not checked */
        int64_t skew_seconds;
};

/* Checks a token. Returns NULL and the identity when it is good, otherwise the body of the 401 answer (a literal). */
NODISCARD const char *jwt_check(const struct jwt_rules *rules, struct slice token, int64_t now_unix_seconds,
                                struct identity *ret);
