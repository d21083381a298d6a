/* jwt: the signed bearer tokens of auth: JWTs (RFC 7519) with HS256 and nothing else. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"
#include "server/auth.h"

/* NULL when `a` (of AUTH_SIGNED_BEARER_TOKEN) lets the token pass, else the body of the 401: a literal. */
NODISCARD const char *jwt_check(const struct auth *a, struct slice token, int64_t now_unix_seconds);
