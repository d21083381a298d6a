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

/* User and system time of those still alive. */
double family_cpu_s(const struct family *f);
double own_cpu_s(void);

/* Proportional set size. Processes that share one memory (CLONE_VM) are counted once: asked of kcmp(2), or where that is
 * refused taken from equal mappings and equal resident size. */
NODISCARD int family_pss_bytes(const struct family *f, double *ret, struct err *err);

/* The highest resident size since the last reset, of all together (each one's own highest, added up). Reset sets it to
 * what is resident now. */
NODISCARD int family_peak_reset(const struct family *f, struct err *err);
NODISCARD int family_peak_bytes(const struct family *f, double *ret, struct err *err);
