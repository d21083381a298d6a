/* questions: what the server is asked about for a network, and what it has answered.
 *
 * One question is open for a host, port and protocol; whoever needs the same answer waits for it too.
 */
#pragma once

#include "egress/network.h"

struct answer {
        enum net_action action;
        struct slice reason;
};

/* Somebody who waits. `fn` is called once, or never after question_leave. The answer is valid during the call. */
struct waiter {
        struct list link; /* question::waiters */
        struct question *question;
        void (*fn)(struct waiter *w, const struct answer *a);
};

/* Finds an answer that is remembered. */
NODISCARD bool questions_recall(struct network *n, const struct net_target *t, struct answer *ret);
/* Asks, or joins those who wait. -ENOBUFS: too many questions are open. */
NODISCARD int questions_ask(struct network *n, const struct net_target *t, struct waiter *w);
void question_leave(struct network *n, struct waiter *w); /* when it does not wait: does nothing */
/* An answer from the server. One to a question that nobody waits for any more is ignored. */
void questions_answer(struct network *n, uint32_t id, const struct answer *a, bool is_remembered,
                      uint32_t ttl_ms);
void questions_release(struct network *n); /* nobody waits any more */
