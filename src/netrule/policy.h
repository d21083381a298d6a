/* policy: what a managed network allows, as types. The other modules of this room say what it means (netrule.h).
 *
 * A policy is made once, from `networkProxy` of process/start, and not changed. Its slices and arrays belong to whoever made it; hosts in it
 * are normalized (pattern.h), so that comparing bytes is enough.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

/* How a connection comes to us. */
enum net_protocol {
        NET_HTTP,
        NET_HTTPS_CONNECT,
        NET_SOCKS5_TCP,
        NET_SOCKS5_UDP,
        NET_TCP, /* to a port that has a listener of its own, without any proxy protocol */
        NET_DNS, /* not a connection: somebody asks for the address of a name */
        NET_PROTOCOLS,
};

enum net_action { NET_ALLOW, NET_DENY, NET_ASK, NET_ACTIONS };

/* Why something was decided. Each has a word that clients know (reason.h). */
enum net_reason {
        NET_REASON_ALLOW,
        NET_NOT_ALLOWED,
        NET_DENIED,
        NET_NOT_ALLOWED_LOCAL,
        NET_METHOD_NOT_ALLOWED,
        NET_MITM_REQUIRED,
        NET_PROXY_DISABLED,
        NET_POLICY_DENIED,
        NET_UNIX_SOCKET_UNSUPPORTED,
        NET_SNI_MISMATCH,
        NET_DNS_FAILURE,
        NET_REASONS,
};

/* Who decided. */
enum net_source {
        NET_BASELINE,    /* the policy */
        NET_DECIDER,     /* the client, asked */
        NET_MODE_GUARD,  /* limited mode */
        NET_PROXY_STATE, /* the proxy cannot do it for anybody */
        NET_SOURCES,
};

struct net_ports {
        uint16_t from, to;
};

/* A range of addresses. An IPv4 range is kept as the range of its IPv4-mapped IPv6 addresses; bits behind `length` are zero. */
struct net_cidr {
        uint8_t address[16];
        uint8_t length; /* 0 to 128; an IPv4 range has 96 to 128 */
};

/* One entry of `domains`, or of `rules`. */
struct net_rule {
        enum net_action action;
        /* A normalized pattern: "x", "*.x", "**.x", "*". Empty: the rule is about addresses alone. */
        struct slice host;
        /* The rule is about these addresses. With a host: about connections to that host at these addresses. */
        bool has_cidr;
        struct net_cidr cidr;
        struct net_ports *ports; /* none: any port */
        size_t port_count;
        uint32_t protocols;    /* a bit (1u << net_protocol) for each; 0: any */
        struct slice *methods; /* of HTTP, exact case; none: any */
        size_t method_count;
};

struct net_policy {
        bool is_limited;    /* mode "limited" */
        bool is_observing;  /* mode "observe": what no rule is about is let through and told */
        bool allows_local;  /* allowLocalBinding */
        bool uses_upstream; /* allowUpstreamProxy */
        bool has_socks;     /* enableSocks5 */
        bool has_questions; /* policyDecisionTimeoutMs was given: a miss is asked about */
        bool is_strict; /* came as `rules`: 443 must be TLS with the right SNI, private addresses by cidr only */
        struct net_rule *rules;
        size_t rule_count;
        struct slice
                *reviews; /* reviewDomains: patterns; what they match is asked about although it is allowed */
        size_t review_count;
};

/* Where a connection is to go. */
struct net_target {
        enum net_protocol protocol;
        struct slice host; /* as net_host_normalize gives it */
        uint16_t port;
        struct slice method; /* of HTTP; empty where there is none */
};

#define NET_NO_RULE SIZE_MAX

struct net_verdict {
        enum net_action action; /* NET_ASK: ask the client */
        enum net_reason reason;
        enum net_source source;
        bool is_guard; /* scope non_domain: not the host is the reason, but how it is used */
        bool follows_allow; /* is_guard only: that the host is allowed is a decision of its own, and is told first */
        bool may_be_local; /* the address may be private: an exact entry for a literal or localhost, allows_local, or a cidr */
        size_t rule; /* the rule that decided; NET_NO_RULE: none did */
};
