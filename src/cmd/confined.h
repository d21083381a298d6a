/* confined: the sandbox of the one command that `farhand sandbox` or `farhand doctor` runs. */
#pragma once

#include "confine/confine.h"
#include "policy/rules.h"
#include "sandbox/backend.h"

struct confined {
        struct confine confine;
        bool has_confine; /* false: the profile needs no sandbox */
        struct guarded sandbox;
        struct plan plan; /* the plan of the sandbox; its memory is in the arena */
        bool is_broken;   /* a mask was taken away: the command must be ended */
};

#define CONFINED_INIT ((struct confined){ .sandbox = GUARDED_NONE })

/* Makes the sandbox; returns 0, or -errno with err filled. The caller must release *c in any case, and must not move it in
 * memory before that. */
NODISCARD int confined_make(struct confined *c, struct arena *a, const struct profile *profile,
                            const struct place *place, enum backend wish, struct err *err);
/* Returns the descriptor that becomes readable with events of the guard, or -1 when nothing is guarded. */
int confined_fd(const struct confined *c);
/* To be called when the descriptor of confined_fd is readable. Handles the events of the guard, which may set is_broken. */
void confined_look(struct confined *c);
/* To be called when the command has started. Handles the events of the guard from before the start: they may set is_broken. */
void confined_started(struct confined *c);
/* Ends the sandbox. To be called only when no process is left in it. */
void confined_release(struct confined *c);
