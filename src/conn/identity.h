/* identity: the client for which a connection speaks, as far as its token says.
 *
 * Sessions belong to the identity that made them: only the same identity, or an admin, sees and resumes them. Connections
 * that no token tells apart (no authentication, or signed tokens without a subject) share the identity "nobody", whose owner
 * is all zero. An identity holds digests only: it has a fixed size and contains no secret.
 */
#pragma once

#include "base/slice.h"

#define IDENTITY_BYTES 32 /* a SHA-256 digest */

struct identity {
        uint8_t owner[IDENTITY_BYTES];
        bool is_admin; /* sees and resumes all sessions */
        bool is_personal; /* all connections with this identity are one client: each may see the ids of the others */
};

/* Returns the identity of a capability token with this digest. */
NODISCARD struct identity identity_of_token(const uint8_t digest[static IDENTITY_BYTES]);

/* Returns the identity of a signed token: its subject and, because subjects are unique for one issuer only, its issuer
 * (p == NULL: the token has none). `kind` is the JSON type of the subject: 1 and "1" are two subjects. */
NODISCARD struct identity identity_of_subject(struct slice issuer, int kind, struct slice subject);

bool identity_may_see(const struct identity *who, const uint8_t owner[static IDENTITY_BYTES]);
