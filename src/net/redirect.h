/* redirect: decides whether an HTTP response is a redirect to follow, and makes the next request. Pure. */
#pragma once

#include "base/arena.h"
#include "wire/netmsg.h"
#include "wire/weburl.h"

/* One request of a chain. Names are in lower case. */
struct hop {
        struct slice method;
        struct weburl url;
        bool has_body; /* the body of the first request is sent again */
        struct http_header *headers;
        size_t header_count;
        struct slice private_names; /* names of headers that go to no other origin, separated by commas */
};

enum redirect {
        REDIRECT_NONE,    /* the response is not a redirect */
        REDIRECT_FOLLOW,  /* *ret_next is the next request */
        REDIRECT_REFUSED, /* the redirect must not be followed: *ret_why says why, in the arena */
};

NODISCARD enum redirect redirect_next(struct arena *a, const struct hop *now, const struct netmsg_head *head,
                                      struct hop *ret_next, const char **ret_why);
