/* redirect: what is asked next after a response that points elsewhere. Pure. */
#pragma once

#include "base/arena.h"
#include "wire/netmsg.h"
#include "wire/weburl.h"

/* One request of a chain. Names are in lower case. */
struct hop {
        struct slice method;
        struct weburl url;
        bool has_body; /* the body of the first request goes along */
        struct http_header *headers;
        size_t header_count;
        struct slice private_names; /* of headers that go to no other origin; a comma between two */
};

enum redirect {
        REDIRECT_NONE,    /* an answer like any other */
        REDIRECT_FOLLOW,  /* *ret_next is filled */
        REDIRECT_REFUSED, /* *ret_why says why; a text in the arena */
};

NODISCARD enum redirect redirect_next(struct arena *a, const struct hop *now, const struct netmsg_head *head,
                                      struct hop *ret_next, const char **ret_why);
