/* stub: empty files and directories that exist while a command runs, so that nothing of their name can be made.
 *
 * A mount needs something to lie on. A stub is made by the command's keeper just before the start and removed when the
 * whole tree has gone; by the spawner, when somebody killed the keeper. Commands that need the same one share it: each
 * holds a shared lock on it (flock), and who ends tries for the exclusive one, so that exactly the last removes it. That
 * works between servers, too, and the kernel lets go of the locks of the dead.
 *
 * A stub tells itself from what a user made from its first moment: nobody may write it, and it is sticky, which nobody's
 * is. What has come to be written to, filled or replaced is no stub any more and stays. Raw system calls only: for keepers.
 */
#pragma once

#include "sandbox/enter.h"

/* All stubs of the image, opened and locked. 0, and whoever waits for them in enter_view (image::stubs_due) goes on; or
 * -errno with *ret: then none is left, and who waits goes on waiting. */
NODISCARD int stubs_make(struct image *i, struct enter_failure *ret);
/* `has_fds`: the caller is who made them. Then what was removed has no name any more, but stays open until stubs_forget
 * (or the end of the process): freeing an inode takes most file systems ten times as long as taking its name away, and
 * whoever waits to hear of the end need not wait for that. */
void stubs_remove(struct image *i, bool has_fds);
void stubs_forget(struct image *i);
/* Is there still one, of whomever? Looks at paths of the machine. */
NODISCARD bool stubs_exist(const struct image *i);
/* Has nobody done so who should have? */
NODISCARD bool stubs_are_left(const struct image *i);

/* Is this one, by its looks? For plans, which treat one as if it were missing, and for the sweep of what a crash left. */
struct stat;
NODISCARD bool stub_looks_so(const struct stat *st);
/* Removes one that nobody holds a lock on. */
void stub_sweep(const char *path);
