/* journal: the names of temporary files that are not finished, kept where a crash does not reach.
 *
 * One file per server in the state directory ($XDG_STATE_HOME/farhand, else ~/.local/state/farhand; as root
 * /var/lib/farhand), locked for its life. The next start removes what journals without an owner name, and then them.
 * Only names of our own making are ever removed, and only regular files.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

struct journal;

/* Every temporary file is named JOURNAL_TEMP_PREFIX and a random part. */
#define JOURNAL_TEMP_PREFIX ".farhand-"
#define JOURNAL_TEMP_SUFFIX ".tmp"

/* `state_dir` NULL: the place above. Sweeps what dead servers left, then opens an own one. When no journal can be kept
 * *ret is NULL and the return value says why: writes then go on without. */
NODISCARD int journal_open(const char *state_dir, struct journal **ret, struct err *err);
struct journal *journal_close(struct journal *j); /* removes the file when nothing is pending; NULL is fine */

/* From any thread. A slot number, or -errno (the caller goes on without). */
NODISCARD int journal_add(struct journal *j, const char *directory, const char *name);
void journal_remove(struct journal *j, int slot);
