/* access: finds out whether a file may be read, written or removed, without doing it.
 *
 * Nothing is made, and no file is opened for reading or writing. The answer is that of the rules and of the permissions now: it promises
 * nothing for later, and says nothing of what only the real operation meets (no room on the disk, a program that runs, what is
 * in a directory).
 */
#pragma once

#include "fsop/fsop.h"

enum access_wish {
        ACCESS_TO_READ,  /* a file, or the names in a directory; links are followed */
        ACCESS_TO_WRITE, /* as fs/writeFile with createParents: links are followed, also to a missing file */
        ACCESS_TO_REMOVE /* the name itself, which may be a link or a directory */
};

/* Returns 0 when it may be, else -errno with err filled, as the operation itself would fail. */
NODISCARD int fsop_check_access(const char *path, enum access_wish wish, struct err *err);
