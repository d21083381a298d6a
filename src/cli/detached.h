/* detached: commands that run on without us, by the ids that `farhand ps` shows.
 *
 * Every such command has a session of its own. Its id is that of the session without the part that all sessions of a server share:
 * it begins behind the first dash. A server shows others' ids shortened, so whole ones are kept in files of the user's:
 * $XDG_RUNTIME_DIR/farhand/sessions/, one empty file each; `farhand attach` needs them.
 */
#pragma once

#include "cli/answer.h"

/* Where the id of a session begins that tells it from others of its server. */
NODISCARD const char *detached_id(const char *session_id);

/* Returns whether a session of this server outlives its connection. On the stdio of a program it does not. */
NODISCARD bool detached_is_possible(const struct remote *r, const struct farhand *f);

/* Keeps a whole id, and forgets those that are older than a day. What goes wrong is only told: the command runs. */
void detached_keep(const struct remote *r, const char *session_id);
/* Finds the whole id that begins with `id` (as detached_id gives it, or whole). NULL: unknown, or several; stderr was told. */
NODISCARD const char *detached_find(struct remote *r, const char *id);

struct detached {
        const char *session_id; /* as the server shows it, in the arena of the answer */
        const char *process_id;
        bool is_running;
};
/* Returns the params of a request on that process, in the arena. `more` is JSON: further members, each with a comma in front. */
NODISCARD const char *detached_params(struct arena *a, const struct detached *d, const char *more);
/* Finds the process of the session whose id begins so: the one that runs, else the newest. Returns 0, or -errno; then stderr was
 * told why. */
NODISCARD int detached_process(struct answer *a, const struct remote *r, struct farhand *f, const char *id,
                               struct detached *ret);
