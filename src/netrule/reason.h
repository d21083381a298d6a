/* reason: the words and texts in which clients and commands learn what was decided. They are the reference server's. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"
#include "netrule/policy.h"

/* Literals: "not_allowed", "baseline_policy", "https_connect", "deny". */
NODISCARD const char *net_reason_word(enum net_reason reason);
NODISCARD const char *net_source_word(enum net_source source);
NODISCARD const char *net_protocol_word(enum net_protocol protocol);
NODISCARD const char *net_action_word(enum net_action action);
/* Return false when there is no such word. */
NODISCARD bool net_reason_find(struct slice word, enum net_reason *ret);
NODISCARD bool net_protocol_find(struct slice word, enum net_protocol *ret);
NODISCARD bool net_action_find(struct slice word, enum net_action *ret);

/* May this be a reason that a client gives? Otherwise its whole answer counts as broken. At most NET_REASON_MAX bytes, no control
 * characters; an empty one is allowed, and stands for "policy_denied". */
#define NET_REASON_MAX 1024
NODISCARD bool net_reason_is_valid(struct slice reason);

/* How a refused command is answered. */
struct net_answer {
        int status;         /* of HTTP and CONNECT */
        const char *text;   /* `message` in JSON; the body for CONNECT */
        const char *header; /* x-proxy-error; NULL: none */
        uint8_t socks;      /* REP of SOCKS5 */
};

/* By the word: a client may give a reason that is one of ours, and gets the text of that one. */
NODISCARD struct net_answer net_answer_for(struct slice reason);
