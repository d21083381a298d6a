/* tested: finds out by trying whether the starts of programs can be intercepted on this machine. */
#pragma once

#include "base/err.h"

struct intercept_tested {
        const char *
                step; /* what does not work: "filter", "listener", "notification", "memory" or "ptrace"; NULL: all works */
        int os_errno;
        const char *remedy; /* a literal */
};

/* Returns the result of the first call that could tell. For any thread; forks a process, which ends within seconds. A failure for want of
 * memory, processes or descriptors is not kept: the next call tries again. */
NODISCARD struct intercept_tested intercept_test(void);
enum intercept_means {
        INTERCEPT_BY_KERNEL,  /* also when it is not known yet */
        INTERCEPT_BY_PRELOAD, /* only a library can do it (intercept/preloaded.h) */
        INTERCEPT_BY_NOTHING,
};
/* Returns what is known already of how programs can be intercepted. Never blocks. */
NODISCARD enum intercept_means intercept_means(void);

/* Sets the error for a command that cannot be intercepted. Returns its code. */
int intercept_refuse(const struct intercept_tested *t, struct err *err);
