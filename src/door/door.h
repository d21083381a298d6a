/* door: a WebSocket on this machine that leads to an environment.
 *
 * A connection gets in when its request shows the token: as the path of the URL, for programs that know only a URL, or as a bearer
 * token. A request with an Origin header, which browsers send, is refused before its token is looked at. For each connection that got in,
 * a thread connects to the environment and passes bytes on, until one side closes: a client whose connection is lost comes back by
 * itself and resumes its session. While the environment cannot be reached, the upgrade of that client waits.
 *
 * Everybody on the machine can connect. A connection that has not shown the token yet holds one of DOOR_KNOCKING_MAX places, for
 * DOOR_HEAD_MS at most; when all places are taken, the oldest such connection is dropped for a new one.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "door/guest.h"
#include "wire/listen_url.h"

#define DOOR_KNOCKING_MAX 64 /* connections that have not shown the token */
#define DOOR_HEAD_MS 10000   /* for sending the whole head of a request and reading a refusal. Then: closed */
#define DOOR_TOKEN_CHARS 64  /* 256 random bits, in hexadecimal */

/* A connection that has not shown the token yet. */
struct knock {
        int fd;
        uint64_t since_ms;
        struct buf in;
        bool is_refused; /* the answer is sent: what comes is dropped until the peer closes */
};

struct door {
        struct guests guests;
        int fd;
        char url[128];     /* with the token */
        size_t base_chars; /* the length of `url` without the token and the slash before the token */
        char token[DOOR_TOKEN_CHARS + 1];
        struct knock knocking[DOOR_KNOCKING_MAX]; /* the oldest first */
        size_t knocking_count;
};

/* Listens, and makes the token. `options` is what remote_apply has filled. Returns 0 or -errno with *err filled. The door is never
 * closed: it ends with the program, and so do its threads. */
NODISCARD int door_open(struct door *d, const struct remote *remote, const struct farhand_options *options,
                        const struct listen_url *where, struct err *err);
/* Lets connections in until `wake` is readable. */
void door_run(struct door *d, int wake);
