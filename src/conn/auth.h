/* auth: decides which requests may upgrade to a WebSocket (docs/PROTOCOL.md), and for which identity.
 *
 * A capability token is compared by its SHA-256 digest in constant time; a signed bearer token is a JWT with HS256 and
 * nothing else. Secrets are read at start and at a SIGHUP, each time into a new struct, and wiped with it.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "conn/identity.h"
#include "conn/jwt.h"
#include "conn/tokens.h"
#include "wire/http.h"

enum auth_mode { AUTH_NONE, AUTH_CAPABILITY_TOKEN, AUTH_SIGNED_BEARER_TOKEN };

/* What the flags or the configuration file say. The struct owns its strings; absent ones are NULL. */
struct auth_options {
        char *mode; /* "capability-token" or "signed-bearer-token" */
        char *token_file;
        char *admin_token_file;
        char *token_sha256;
        char *shared_secret_file;
        char *issuer;
        char *audience;
        uint64_t max_clock_skew_seconds;
        bool has_max_clock_skew_seconds;
};
void auth_options_release(struct auth_options *o);

struct auth {
        enum auth_mode mode;
        struct tokens tokens, admin_tokens; /* a token may be in both; then it is an admin's */
        struct jwt_rules jwt;               /* used with AUTH_SIGNED_BEARER_TOKEN */
};

/* Checks the options and reads the secret files. Returns 0 or -errno; error texts are those of the reference server. */
NODISCARD int auth_init(struct auth *a, const struct auth_options *o, struct err *err);
void auth_release(struct auth *a);

/* Checks whether a request may upgrade. Returns NULL and the identity of the client, or the body of the 401 answer (a literal). */
NODISCARD const char *auth_check(const struct auth *a, const struct http_request *r, int64_t now_unix_seconds,
                                 struct identity *ret);
