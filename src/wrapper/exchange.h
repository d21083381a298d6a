/* session: one question of the wrapper to the server, and what follows it: a stream of its own (intercept/escalate_socket.h). */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "intercept/escalate_socket.h"

struct session {
        int shared; /* the inherited socket; not ours to close */
        int stream;
        struct buf in;
        struct arena arena;
};

#define SESSION_INIT                                                        \
        ((struct session){ .shared = -1,                                    \
                           .stream = -1,                                    \
                           .in = BUF_INIT(LIMIT_ESCALATE_ANSWER_BYTES + 4), \
                           .arena = ARENA_INIT })

/* Finds the inherited socket and makes the stream. Returns 0 or -errno. */
NODISCARD int session_begin(struct session *s);
/* Asks. The answer lives as long as the session. Returns 0 or -errno. */
NODISCARD int session_ask(struct session *s, const char *file, char **argv, char **env,
                          struct escalate_answer *ret);
/* After ESCALATE_ESCALATE: hands over every descriptor that the program would have, and waits for its end; signals are passed on to a
 * server that takes them (is_ours). Returns 0 or -errno; -E2BIG: there are too many descriptors, and nothing has run. */
NODISCARD int session_escalate(struct session *s, bool is_ours, struct escalate_result *ret);
/* Before the wrapper executes the program itself: the program does not get the stream. */
void session_end(struct session *s);
