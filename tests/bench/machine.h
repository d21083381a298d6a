/* machine: measures what the machine can do without any server in between; servers are compared with that limit. */
#pragma once

#include "bench.h"

#define MACHINE_IN_FLIGHT 16

NODISCARD int machine_true(struct err *err);                  /* posix_spawn of /bin/true and wait, once */
NODISCARD int machine_spawn(struct turn *t, struct err *err); /* posix_spawn of /bin/true and wait, us */
NODISCARD int machine_spawn_many(struct turn *t, struct err *err); /* 16 in flight, per s */
NODISCARD int machine_tcp(struct turn *t, struct err *err);        /* small messages there and back, us */
NODISCARD int machine_pty_byte(struct turn *t,
                               struct err *err); /* one byte through `cat` on a raw terminal, us */

/* Reads what a producer writes: MB/s, and our CPU seconds per GB. */
NODISCARD int machine_pipe(struct turn *t, struct err *err);
NODISCARD int machine_pty(struct turn *t, struct err *err);

/* Returns how many bytes of output a turn moves. */
uint64_t bulk_bytes(const struct turn *t, bool tty);
