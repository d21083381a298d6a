/* lend: descriptors that the spawner takes from the server without having them sent.
 *
 * The kernel passes no descriptors on while commands of this user keep too many in flight (proc/spawn_packet.c). Limits do not
 * prevent that: since Linux 6.10 the kernel counts descriptors later than it checks their number, so that many senders can
 * pass the check together. So the server says which descriptors it means, and the spawner opens them once more by their names in
 * /proc. That takes no privilege, but needs /proc. It works for pipes, terminals, /dev/null and memory, where a second opening
 * is as good as the first, and for programs that are to be executed. It does not work for files, whose position is shared, nor
 * for sockets, which have no name.
 */
#pragma once

#include "base/compat.h"

#include <sys/types.h>

/* A descriptor of the server, which keeps it open until the spawner has taken it. */
struct lent {
        int32_t fd;
        int32_t flags; /* for open(2) */
        uint64_t dev, ino;
};

enum lend_kind {
        LEND_STDIO,  /* stdin, stdout or stderr of a command: it may be a file that cannot be lent */
        LEND_MEMORY, /* a memfd that the server made */
        LEND_PROGRAM, /* opened with O_PATH, because the kernel does not execute a file that is open for writing */
};

/* Describes a descriptor for lend_take. Returns 0, or -errno: -EINVAL when the descriptor cannot be lent. */
NODISCARD int lend_describe(int fd, enum lend_kind kind, struct lent *ret);
/* Opens what `lender` has lent. Returns a descriptor of the caller's own, close-on-exec; or -errno. -ESTALE: the number now means
 * another file. */
NODISCARD int lend_take(pid_t lender, const struct lent *what);
