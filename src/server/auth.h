/* auth: who may upgrade a connection (PROTOCOL.md 1.3).
 *
 * A capability token is compared by its SHA-256 digest in constant time; a signed bearer token is a JWT with HS256 and
 * nothing else. Secrets are read once, at start, and wiped with the struct.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "wire/http.h"

enum auth_mode { AUTH_NONE, AUTH_CAPABILITY_TOKEN, AUTH_SIGNED_BEARER_TOKEN };

/* As given by flags or file; strings owned, NULL when absent. */
struct auth_options {
        char *mode; /* "capability-token" or "signed-bearer-token" */
        char *token_file;
        char *token_sha256;
        char *shared_secret_file;
        char *issuer;
        char *audience;
        uint64_t max_clock_skew_seconds;
        bool has_max_clock_skew_seconds;
};
void auth_options_release(struct auth_options *o);

#define AUTH_SECRET_MAX 4096

struct auth {
        enum auth_mode mode;
        uint8_t token_digest[32];
        uint8_t secret[AUTH_SECRET_MAX];
        size_t secret_len;
        char *issuer, *audience; /* NULL = not checked */
        int64_t skew_seconds;
};

/* Loads and checks everything; -EINVAL etc. with the texts of PROTOCOL.md 1.3. */
NODISCARD int auth_init(struct auth *a, const struct auth_options *o, struct err *err);
void auth_release(struct auth *a);

/* NULL when the request may pass, else the body of the 401: a literal. */
NODISCARD const char *auth_check(const struct auth *a, const struct http_request *r,
                                 int64_t now_unix_seconds);
