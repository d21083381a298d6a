/* git_access: what `--git` opens: the repository of a workspace, but nothing in it that git would run later.
 *
 * Honest commits write objects, references, logs, the index and lock files, so the directory as a whole is writable. What
 * git takes commands from is not: `hooks`, `config`, `config.worktree`, and the repositories of other worktrees and of
 * submodules. `.git` may be a file that names the repository: then it must be one that git made for this directory, or a
 * workspace could open any directory for writing by naming it.
 *
 * One name cannot be covered: a file `commondir` makes git take hooks and config from elsewhere, and an empty one makes it
 * give up. It is watched instead: when it appears the command is ended and the file removed.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "policy/profile.h"

#define GIT_ACCESS_MAX 64 /* repositories */

struct git_access {
        struct profile_entry *entries; /* in the arena */
        size_t count, room;
        size_t found; /* workspaces that have a repository */
        int watch;    /* of inotify, for poll; -1 while there is nothing to watch */
        size_t watched_count;
        struct slice watched[GIT_ACCESS_MAX];
};

#define GIT_ACCESS_INIT ((struct git_access){ .watch = -1 })

/* `root` is a real path. A workspace without a `.git` adds nothing. -errno with err for what is no repository of its own. */
NODISCARD int git_access_add(struct git_access *g, struct arena *a, struct slice root, struct err *err);
/* Is there a `commondir` now where there must be none? Call it when `watch` can be read, and at the end. */
NODISCARD bool git_access_is_broken(struct git_access *g);
/* Removes each; the path of one that is left, or NULL. */
NODISCARD const char *git_access_repair(struct git_access *g);
void git_access_release(struct git_access *g);
