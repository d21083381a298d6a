/* background: the user's own server on this machine, for what must outlive the command that started it. Started on demand.
 *
 * Its directory is $XDG_RUNTIME_DIR/farhand, or /tmp/farhand-UID, belongs to the user alone, and holds the socket, a lock for
 * starting and the server's log. Whatever is there and is not ours is refused: somebody else could be listening.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"

/* Opens a directory of that name in the user's directory, and makes it when it is not there. Returns a descriptor, or -errno. */
NODISCARD int background_directory(struct arena *a, const char *name, struct err *err);
/* Returns the URL of the running server, in the arena; starts one when there is none and `may_start`. NULL with *err filled:
 * -ENOENT when there is none. */
NODISCARD const char *background_url(struct arena *a, bool may_start, struct err *err);
