/* detached: finds commands that run on without `farhand`, by the ids that `farhand ps` shows.
 *
 * Every such command has a session of its own. The id of the command is the id of the session behind its first dash, because all
 * sessions of a server share the part before the dash. A server shows the ids of other clients' sessions shortened, but `farhand
 * attach` needs the whole id. So each whole id is the name of an empty file of the user in $XDG_RUNTIME_DIR/farhand/sessions/.
 */
#pragma once

#include "cli/answer.h"

/* Returns the part of a session id behind its first dash. */
NODISCARD const char *detached_id(const char *session_id);

/* Returns whether a session of this server outlives its connection. A session on the stdio of a program does not. */
NODISCARD bool detached_is_possible(const struct remote *r, const struct farhand *f);

/* Keeps a whole session id, and removes ids that are older than a day. A failure is only printed, because the command runs. */
void detached_keep(const struct remote *r, const char *session_id);
/* Finds the whole session id that begins with `id`, or whose part behind its first dash does. Returns NULL, after a message on stderr,
 * when no id or several ids match. */
NODISCARD const char *detached_find(struct remote *r, const char *id);

struct detached {
        const char *session_id; /* as the server shows the id, in the arena of the answer */
        const char *process_id;
        bool is_running;
};
/* Returns the params of a request on the process, in the arena. `more` is JSON: further members, each with a comma in front. */
NODISCARD const char *detached_params(struct arena *a, const struct detached *d, const char *more);
/* Finds the process of the session that `id` names: the one that runs, else the newest. Returns 0, or -errno after it has printed
 * why on stderr. */
NODISCARD int detached_process(struct answer *a, const struct remote *r, struct farhand *f, const char *id,
                               struct detached *ret);
