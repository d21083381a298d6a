/* procinfo: what the kernel says about a server's processes: CPU time and memory.
 *
 * A server is its own process and those descendants that run the same executable (spawner, keepers): the commands that
 * it runs for others are not counted.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"

#include <sys/types.h>

#define FAMILY_MAX 4096

struct family {
        size_t n;
        pid_t pids[FAMILY_MAX]; /* the server first */
};

NODISCARD int family_find(pid_t server, struct family *ret, struct err *err);

/* Returns the user and system time of the processes that are still alive. */
double family_cpu_s(const struct family *f);
double own_cpu_s(void);

/* Gets the proportional set size. Processes that share one memory (CLONE_VM) are counted once: kcmp(2) tells which do, or, where it
 * is refused, equal mappings and an equal resident size. */
NODISCARD int family_pss_bytes(const struct family *f, double *ret, struct err *err);

/* family_peak_bytes gets the highest resident size of each process since the last reset, added up. family_peak_reset sets it to
 * what is resident now. */
NODISCARD int family_peak_reset(const struct family *f, struct err *err);
NODISCARD int family_peak_bytes(const struct family *f, double *ret, struct err *err);
