/* landlock: restricts what a process and its descendants may do to files, by a ruleset that cannot be removed. Raw system
 * calls, as sandbox/enter.h.
 *
 * Where there are mounts, Landlock is a second barrier: for everything that must not be written and, where a profile does
 * not read everything, for everything that must not be read. So a mistake in the mounts alone opens nothing. Landlock cannot
 * exclude a path inside of an allowed directory, so it replaces no mask. Rights belong to a file, not to its path: they hold
 * through every mount.
 *
 * Where there can be no mounts, Landlock is the only barrier (sandbox/enter_rules.c).
 */
#pragma once

#include "base/compat.h"

/* Returns the ABI of Landlock that sandboxes use; 0: none. ABI 1 is not used: it refuses to move any file to another
 * directory, also where everything is writable, and ordinary programs do that. */
NODISCARD int landlock_abi(void);
/* Returns the ABI that the kernel reports, from 1, or -errno. */
NODISCARD int landlock_probe(void);

#define LANDLOCK_ALONE_ABI 6 /* the first ABI that confines signals and abstract sockets */

/* What a ruleset forbids unless landlock_allow allows it. Every mode also forbids signals and abstract sockets to the
 * outside, where the kernel supports that, and always tracing processes outside or reading their /proc. */
enum landlock_mode {
        LANDLOCK_NOTHING, /* no restriction of files */
        LANDLOCK_WRITING, /* restricts writing */
        LANDLOCK_READING, /* restricts reading and writing */
        LANDLOCK_ALONE,   /* restricts reading, writing and ioctls of devices */
};

enum landlock_right {
        LANDLOCK_LIST,   /* list directories, but read no file in them */
        LANDLOCK_READ,   /* read and execute */
        LANDLOCK_WRITE,  /* write, read and execute */
        LANDLOCK_DEVICE, /* every use of a harmless device */
        LANDLOCK_INPUT,  /* read the contents of a file */
        LANDLOCK_OUTPUT, /* write the contents of a file */
};

struct landlock {
        int ruleset; /* -1: none */
        uint64_t forbidden;
};
#define LANDLOCK_NONE ((struct landlock){ .ruleset = -1 })

/* Makes a ruleset that forbids what `mode` says, and allows nothing of that yet. Returns 0 or -errno. The caller owns
 * ret->ruleset. */
NODISCARD int landlock_begin(struct landlock *ret, enum landlock_mode mode, uint32_t abi);
/* Allows a right below this directory, or for this file. Rights that the mode does not forbid need no call. Without a
 * ruleset it does nothing and returns 0. */
NODISCARD int landlock_allow(const struct landlock *l, int fd, bool is_directory, enum landlock_right right);
