/* landlock: raw, as sandbox/enter.h is. Two uses:
 *
 * A second lock on everything that must not be written. Mounts decide what is writable; should the machine detach one of
 * them meanwhile, what comes to light beneath it is still not writable. It cannot say "this directory, but not that one in
 * it", so it replaces no mask.
 *
 * The only lock on files, where there can be no mounts (sandbox/enter_rules.c): then reading counts, too.
 */
#pragma once

#include "base/compat.h"

/* What the kernel has; 0: none that is of use. The first ABI is not: it refuses to move any file into another directory,
 * also where everything may be written, and honest programs do that. For the self-test and the image. */
NODISCARD int landlock_abi(void);
/* The same as the kernel says it: from 1, or -errno. */
NODISCARD int landlock_probe(void);

/* ---- the second lock ---- */

/* A ruleset that forbids every kind of writing, signals and abstract sockets to the outside included where the kernel
 * knows how; a descriptor or -errno. */
NODISCARD int landlock_begin(uint32_t abi);
/* … but not beneath this directory, or not in this file. */
NODISCARD int landlock_allow(int ruleset, uint32_t abi, int fd, bool is_directory);

/* ---- the only lock ---- */

#define LANDLOCK_ALONE_ABI 6 /* the first that keeps signals and abstract sockets inside */

enum landlock_right {
        LANDLOCK_LIST,   /* directories, and nothing in them */
        LANDLOCK_READ,   /* and execute */
        LANDLOCK_WRITE,  /* and read */
        LANDLOCK_DEVICE, /* all that one does with a harmless device */
};

/* A ruleset that forbids everything that Landlock knows; a descriptor or -errno. */
NODISCARD int landlock_alone_begin(uint32_t abi);
NODISCARD int landlock_alone_allow(int ruleset, uint32_t abi, int fd, bool is_directory,
                                   enum landlock_right right);
/* One that forbids nothing with files: processes outside can still not be traced, nor looked into by /proc. */
NODISCARD int landlock_domain_begin(void);
