/* placeholder_mark: the mode that tells a placeholder (sandbox/placeholder.h) from files and directories of users.
 *
 * A placeholder has this mode from the moment it is made: it is sticky and nobody may write it. No user makes such a file.
 */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

#define PLACEHOLDER_DIRECTORY_MODE (S_ISVTX | 0555)
#define PLACEHOLDER_FILE_MODE (S_ISVTX | 0444)

/* Does this file have the mode and the size of a placeholder? Plans treat a placeholder as if nothing were there. */
NODISCARD static inline bool placeholder_has_mark(const struct stat *st)
{
        /* The umask, or an access control list of the directory, may take permissions away but adds none. */
        if ((st->st_mode & (S_ISVTX | 0222)) != S_ISVTX)
                return false;
        return S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && st->st_size == 0);
}
