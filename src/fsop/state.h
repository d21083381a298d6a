/* state: the directory for the files of a server that must outlive it: its journal, and the counts of users of placeholders.
 *
 * The first place is $XDG_STATE_HOME/farhand, else ~/.local/state/farhand; for root it is /var/lib/farhand. Where that cannot be
 * used (neither XDG_STATE_HOME nor HOME is set, or the system is read-only) the second place is /dev/shm/farhand-UID, which lasts
 * until the machine restarts; UID is our user as seen from outside of our user namespace. Commands in a sandbox reach neither:
 * each sandbox has a /dev of its own.
 */
#pragma once

#include "base/err.h"

#define STATE_PLACES 2 /* the first usable place is taken */

/* Writes the path of place `n`, from 0, to `ret`, which has PATH_MAX bytes. Returns 0, or -errno with err: -ENOENT when neither
 * XDG_STATE_HOME nor HOME is set, -ERANGE when there is no place `n`. */
NODISCARD int state_place(unsigned n, char *ret, struct err *err);

/* Writes the path of the directory of our user, as above for all but root, whoever we are: commands like apply-patch keep files of theirs
 * in it, as root too. Returns as state_place. */
NODISCARD int state_place_of_user(char *ret, struct err *err);

/* Opens the directory, and makes it when it is missing. Returns an O_PATH descriptor of a directory that no other user can write,
 * or -errno with err. */
NODISCARD int state_open(const char *path, struct err *err);
