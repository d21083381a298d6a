/* asking: asks the broker of the command about one start, from inside of the program that wants to make it (intercept/escalate_socket.h).
 *
 * It may be called in a child of vfork, in a thread and in a handler of signals: it has some kilobytes on the stack and no other memory,
 * is no point of cancellation, and raises no signal. */
#pragma once

#include "base/compat.h"

struct asking {
        int shared; /* the socket that the command has inherited */
        const char *file;
        char *const *argv, *const *env; /* either may be NULL */
        const char *library; /* what is left out of LD_PRELOAD in the question, if it stands there first */
};

enum asked {
        ASKED_NOBODY, /* the broker has not decided, and the wrapper may ask again */
        ASKED_RUN,    /* the program may execute it */
        /* The answer is still to be read from the stream: */
        ASKED_ESCALATE, /* "escalate", from a server of ours */
        ASKED_OTHER,    /* another one */
};

/* Asks, and waits for the answer. *ret_stream is set for the last two only: it is close-on-exec, and the caller's to close. */
NODISCARD enum asked asking_ask(const struct asking *a, int *ret_stream);

/* Returns what follows `NAME=` in an entry of an environment, or NULL when it is another variable. */
NODISCARD const char *asking_value(const char *entry, const char *name);
/* Returns what a list of libraries has behind `library`: "" or the rest; or NULL when it does not begin with it. */
NODISCARD const char *asking_behind(const char *list, const char *library);
