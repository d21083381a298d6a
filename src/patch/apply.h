/* apply: applies a patch to the files of a server, takes it back, and shows what it would do.
 *
 * Everything is read, placed and checked before anything is changed; then all is changed, or nothing, unless the options say `is_partial`.
 * A patch that was interrupted is repaired by the next call for the same environment. These functions wait for the server; they use nothing
 * but the client that they are given, so that a program can call them on a thread with a client of its own.
 */
#pragma once

#include "hunk/edits.h"
#include "hunk/parse.h"
#include "patch/result.h"

/* Applies a patch. `f` may be NULL when the options have `near`. Returns 0 when the patch was applied, else -EIO; *ret is filled in any
 * case and must be released. */
int patch_apply(struct farhand *f, const struct patch *p, const struct patch_options *o,
                struct patch_result *ret);
/* Finds out which files a patch reads and changes: ret->real_paths gets their real paths, sorted by the order of the hunks, each once.
 * Links and metadata are read, no content, and nothing is changed. A hunk that cannot be applied ends the list. Returns 0; or -EIO when
 * the server is lost. */
int patch_look(struct farhand *f, const struct patch *p, const struct patch_options *o,
               struct patch_result *ret);
/* Takes the last patch of this environment and working directory back, if nothing was changed since. */
int patch_undo(struct farhand *f, const struct patch_options *o, struct patch_result *ret);
/* Writes a unified diff of what the patch would change, in the order of its hunks; nothing is changed. */
int patch_preview(struct farhand *f, const struct patch *p, const struct patch_options *o,
                  const struct edits_sink *sink, struct patch_result *ret);

/* Returns the absolute paths that a patch changes, ending with NULL, for questions to people: without asking the server. */
NODISCARD const char *const *patch_paths(struct arena *a, const struct patch *p, const char *cwd);
