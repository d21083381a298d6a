/* git_access: the option `--git`: opens the repository of a workspace for writing, except what git would execute later.
 *
 * A commit writes objects, references, logs, the index and lock files, so the directory as a whole is writable. Read-only
 * are the files from which git takes commands: `hooks`, `config`, `config.worktree`, and the repositories of other
 * worktrees and of submodules. `.git` may be a file that names the repository. Then the repository must be one that git
 * made for this directory, otherwise a workspace could open any directory for writing by naming it.
 *
 * One name cannot be masked: a file `commondir` makes git take hooks and config from another place, and with an empty
 * `commondir` git does not work. So the name is watched instead: when the file appears, the command is ended and the file removed.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "policy/profile.h"

#define GIT_ACCESS_MAX 64 /* the most repositories */

struct git_access {
        struct profile_entry *entries; /* in the arena */
        size_t count, room;
        size_t found; /* workspaces that have a repository */
        int watch;    /* an inotify descriptor to poll; -1 while there is nothing to watch */
        size_t watched_count;
        struct slice watched[GIT_ACCESS_MAX];
};

#define GIT_ACCESS_INIT ((struct git_access){ .watch = -1 })

/* Adds the repository of the workspace `root`, a path without links. A workspace without a `.git` adds nothing. Returns
 * -errno with err filled when `.git` is not the repository of this workspace. */
NODISCARD int git_access_add(struct git_access *g, struct arena *a, struct slice root, struct err *err);
/* Is there a `commondir` now where there must be none? To be called when `watch` can be read, and at the end. */
NODISCARD bool git_access_is_broken(struct git_access *g);
/* Removes each `commondir`. Returns the path of one that could not be removed, or NULL. */
NODISCARD const char *git_access_repair(struct git_access *g);
void git_access_release(struct git_access *g);
