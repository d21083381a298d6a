/* state: the directory for the files of a server that must outlive it: its journal, and the counts of users of placeholders.
 *
 * The first choice is $XDG_STATE_HOME/farhand, else ~/.local/state/farhand; for root it is /var/lib/farhand. Where that cannot be
 * used (neither XDG_STATE_HOME nor HOME is set, or the system is read-only) the second choice is /dev/shm/farhand-UID, which lasts
 * until the machine restarts; UID is our user as seen from outside of our user namespace. Commands in a sandbox reach neither:
 * each sandbox has a /dev of its own.
 */
#pragma once

#include "base/err.h"

#define STATE_DIRECTORIES 2 /* how many choices there are; the server takes the first that it can use */

/* Writes the path of choice `n`, from 0, to `ret`, which has PATH_MAX bytes. Returns 0, or -errno with err: -ENOENT when neither
 * XDG_STATE_HOME nor HOME is set, -ERANGE when there is no choice `n`. */
NODISCARD int state_directory(unsigned n, char *ret, struct err *err);

/* Writes the path of the directory that variables name, also for root: commands like apply-patch keep their files there. For every other
 * user it is choice 0 of state_directory. Returns as state_directory does. */
NODISCARD int state_directory_of_user(char *ret, struct err *err);

/* Opens the directory, and makes it when it is missing. Returns an O_PATH descriptor of a directory that no other user can write,
 * or -errno with err. */
NODISCARD int state_open(const char *path, struct err *err);
