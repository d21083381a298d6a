/* remembered: answers that hold for every later start of the same program with the same arguments in the same directory. */
#pragma once

#include "base/map.h"
#include "intercept/decide.h"

struct remembered {
        struct map answers;
        size_t bytes;
};

struct remembered_answer {
        enum intercept_action action;
        struct slice reason; /* p == NULL: none */
};

void remembered_init(struct remembered *r);
void remembered_release(struct remembered *r);

/* Finds the answer about an execution. It is valid until the next call of remembered_put. */
NODISCARD bool remembered_find(const struct remembered *r, const struct intercept_exec *exec,
                               struct remembered_answer *ret);
/* Copies. Does nothing when there is an answer already, or when a limit is reached (base/limits.h). */
void remembered_put(struct remembered *r, const struct intercept_exec *exec,
                    const struct remembered_answer *answer);
