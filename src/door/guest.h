/* guest: a connection that got in at a door. Its thread connects to the environment, and passes bytes on. */
#pragma once

#include "base/slice.h"
#include "cli/remote.h"

#include <stdatomic.h>

#define GUESTS_MAX 64       /* connections at once. More: 503 */
#define GUEST_HOLD_MS 25000 /* how long an upgrade waits for the environment. Then: 502 */
#define GUEST_RETRY_MS \
        100 /* the first pause between two attempts; each pause is twice as long as the one before, up to GUEST_RETRY_LAST_MS */
#define GUEST_RETRY_LAST_MS 500
#define GUEST_RETRY_SSH_MS 1000 /* by ssh: machines lock out those that knock too often */
#define GUEST_LEAVE_MS 5000     /* how long a client may take to close its side after ours. Then: reset */

/* What all guests of a door share. Their threads use it until the program ends. */
struct guests {
        const struct remote *remote;    /* for messages */
        struct farhand_options options; /* how the environment is reached */
        bool is_silent;                 /* nothing is told on stderr */
        atomic_uint count;
};

/* Takes the connection over. `key` is the Sec-WebSocket-Key, `early` what the client has sent behind its request; both are copied.
 * Returns 0 or -errno; then the connection is still the caller's. */
NODISCARD int guest_start(struct guests *all, int fd, struct slice key, struct slice early);
