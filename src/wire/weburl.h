/* weburl: http and https URLs as browsers read them (the URL Standard of the WHATWG), in the parts that matter here.
 *
 * The parser accepts what browsers accept (blanks, backslashes, odd IPv4 spellings, unencoded characters). The result has one
 * spelling, which no other parser can understand differently. A host name that is not ASCII stays UTF-8; libcurl maps it by
 * IDNA. Fragments are dropped, because they are never sent. Pure functions; results live in the arena.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

enum weburl_result {
        WEBURL_OK = 0,
        WEBURL_RELATIVE, /* no scheme, and no base */
        WEBURL_SCHEME,   /* neither http nor https */
        WEBURL_NO_HOST,
        WEBURL_BAD_PORT,
        WEBURL_BAD_IPV4,
        WEBURL_BAD_IPV6,
        WEBURL_BAD_DOMAIN,
};

struct weburl {
        bool is_https;
        struct slice user, password; /* percent-decoded; user.p == NULL when there is neither */
        struct slice host;           /* lower case; an IPv6 address in brackets */
        uint16_t port;               /* 0: the default port of the scheme */
        struct slice path;           /* begins with '/' */
        struct slice query;          /* behind '?'; p == NULL when there is none */
};

/* Parses a URL, which may be relative when `base` is not NULL. *ret_scheme (may be NULL) is set for WEBURL_SCHEME. */
NODISCARD enum weburl_result weburl_parse(struct arena *a, struct slice text, const struct weburl *base,
                                          struct weburl *ret, struct slice *ret_scheme);

/* Returns the text that clients see for a refused URL: "relative URL without a base", …; a literal. */
const char *weburl_result_text(enum weburl_result r);

/* Returns "http://host:port/path?query", without user and password. */
NODISCARD struct slice weburl_text(struct arena *a, const struct weburl *u);
/* Returns "http://host:port/". */
NODISCARD struct slice weburl_origin_text(struct arena *a, const struct weburl *u);
/* Returns whether scheme, host and port are the same. */
NODISCARD bool weburl_same_origin(const struct weburl *a, const struct weburl *b);
