/* exchange: what the wrapper and the server say to each other about one program, over a stream of its own (intercept/escalate_socket.h). */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "intercept/escalate_socket.h"

struct exchange {
        int shared; /* the inherited socket; not ours to close */
        int stream;
        bool has_given; /* the descriptors were handed over already */
        struct buf in;
        struct arena arena;
};

#define EXCHANGE_INIT                                                        \
        ((struct exchange){ .shared = -1,                                    \
                            .stream = -1,                                    \
                            .in = BUF_INIT(LIMIT_ESCALATE_ANSWER_BYTES + 4), \
                            .arena = ARENA_INIT })

/* Finds the inherited socket and makes the stream. Returns 0 or -errno. */
NODISCARD int exchange_begin(struct exchange *x);
/* In place of exchange_begin: goes on with a stream on which the question was asked already. The exchange owns the stream from then
 * on. `has_given`: the descriptors were handed over, too. */
NODISCARD int exchange_take_over(struct exchange *x, int stream, bool has_given);
/* Asks what is to happen with a program. Returns 0 or -errno. */
NODISCARD int exchange_ask(struct exchange *x, const char *file, char **argv, char **env);
/* Waits for the answer, which lives as long as the exchange. Returns 0 or -errno. */
NODISCARD int exchange_answer(struct exchange *x, struct escalate_answer *ret);
/* After ESCALATE_ESCALATE: hands over every descriptor that the program would have, and waits for its end; signals are passed on to a
 * server that takes them (is_ours). Returns 0 or -errno; -E2BIG: there are too many descriptors, and nothing has run. */
NODISCARD int exchange_escalate(struct exchange *x, bool is_ours, struct escalate_result *ret);
/* Closes the stream and frees everything. Called before the wrapper executes the program itself. */
void exchange_end(struct exchange *x);
