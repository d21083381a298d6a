/* network_memory: what clients have decided about connections for a whole session. Another process of the session that asks for the same host,
 * port and protocol gets the same answer, and the client is not asked. */
#pragma once

#include "base/list.h"
#include "base/slice.h"

struct network_memory {
        struct list list; /* remembered::link, oldest first */
        size_t count;
};

/* What is asked for. */
struct network_question_target {
        uint8_t protocol;
        uint16_t port;
        struct slice host;
};

struct network_answer {
        bool is_allowed;
        struct slice reason;
        uint64_t until_ms; /* monotonic; 0: for ever */
};

void network_memory_init(struct network_memory *m);
void network_memory_release(struct network_memory *m);
/* Returns whether there is an answer. Its reason is valid until the memory changes. */
NODISCARD bool network_memory_find(struct network_memory *m, const struct network_question_target *t,
                                   struct network_answer *ret);
/* Copies. Replaces an answer about the same target. */
void network_memory_put(struct network_memory *m, const struct network_question_target *t,
                        const struct network_answer *a);
