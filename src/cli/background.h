/* background: the background server of the user on this machine, which is started on demand. Its commands outlive the `farhand`
 * that started them.
 *
 * The directory of the server is $XDG_RUNTIME_DIR/farhand, or /tmp/farhand-UID. It belongs to the user alone, and holds the socket,
 * a lock for starting and the server's log. A directory or socket of another user is refused, because that user could be listening.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"

/* Opens the directory `name` in the directory of the background server, and makes it when it does not exist. Returns a descriptor,
 * or -errno. */
NODISCARD int background_directory(struct arena *a, const char *name, struct err *err);
/* Returns the URL of the running server, in the arena. With `may_start`, starts a server when none runs. Returns NULL with *err
 * filled on failure; the code is -ENOENT when no server runs. */
NODISCARD const char *background_url(struct arena *a, bool may_start, struct err *err);

/* Reaps the servers that this process has started and that have ended. A program that lives long calls it after SIGCHLD; background_url()
 * does it before it notes another one. Threads may call it at the same time. */
void background_reap(void);

/* When to try again after the background server has ended before it answered. A server that was killed has its socket until the last of
 * its threads has ended, and one that ends by itself closes what it has not answered: both take connections that come to nothing. */
#define BACKGROUND_DYING_MS 10000 /* for how long a client tries */
struct background_retry {
        uint64_t end_ms;
        unsigned wait_ms;
};
void background_retry_begin(struct background_retry *retry);
/* Called when a connection to the background server has failed with `code`. When another attempt may succeed, waits a moment and returns
 * true: background_url() then finds the server or starts another one. */
NODISCARD bool background_may_retry(struct background_retry *retry, int code);
