/* spare: a user and a network namespace for the next sandbox, made before it is needed.
 *
 * A network namespace takes the kernel as long as all other parts of a sandbox together. So once a command has needed one, a
 * process makes the next while that command runs, and waits in it; the next keeper enters (box.c) and ends the process. A
 * pair is used once: nobody but that process, which runs nothing but what is below, was ever in it. It is what a sandbox
 * would make for itself, of the same ids, with nothing in it but `lo`, which is up.
 *
 * There is one at most. Who finds none, or one that is not ready, makes its own namespaces. One that nobody wants for a
 * while goes. The spawner's: not for keepers.
 */
#pragma once

#include "base/compat.h"

#include <stdatomic.h>
#include <sys/types.h>

#define SPARE_IDLE_MS 30000 /* then nobody is likely to want it, and its memory is better used otherwise */

struct spare {
        pid_t pid; /* 0: there is none */
        pid_t spawner;
        bool is_taken, is_dropped;
        atomic_bool is_ready; /* written by the process, whose memory is ours */
        uint64_t since_ms;
        char *stack;
};

/* Has one made, unless there is one. Failing is nothing to be told of: the next start tries for itself, and tells. */
void spare_want(struct spare *s);
/* A pidfd to enter by (setns), and to end the process by; or -1. */
NODISCARD int spare_take(struct spare *s);
/* Ends it, when there is one. */
void spare_drop(struct spare *s);
/* For how long it may still be kept; -1: there is none that waits. */
NODISCARD int spare_wait_ms(const struct spare *s);
/* After each child that was reaped: whether it was this. One that was used is made anew. */
NODISCARD bool spare_reaped(struct spare *s, pid_t pid);
