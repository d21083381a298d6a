/* reason: one table of reasons, with the word of each and what a command is told. */
#include "netrule/reason.h"

#include "base/fatal.h"

#define BLOCKED "Request blocked by network policy."

static const struct {
        const char *word;
        struct net_answer answer;
} reasons[NET_REASONS] = {
        [NET_REASON_ALLOW] = { "allow", { 403, BLOCKED, "blocked-by-policy", 2 } },
        [NET_NOT_ALLOWED] = { "not_allowed", { 403, "Domain not in allowlist.", "blocked-by-allowlist", 2 } },
        [NET_DENIED] = { "denied",
                         { 403, "Domain denied by the sandbox policy.", "blocked-by-denylist", 2 } },
        [NET_NOT_ALLOWED_LOCAL] = { "not_allowed_local",
                                    { 403, "Sandbox policy blocks local/private network addresses.",
                                      "blocked-by-allowlist", 2 } },
        [NET_METHOD_NOT_ALLOWED] = { "method_not_allowed",
                                     { 403, "Method not allowed in limited mode.", "blocked-by-method-policy",
                                       2 } },
        [NET_MITM_REQUIRED] = { "mitm_required",
                                { 403, "MITM required for limited HTTPS.", "blocked-by-mitm-required", 2 } },
        [NET_PROXY_DISABLED] = { "proxy_disabled", { 403, BLOCKED, "blocked-by-policy", 2 } },
        [NET_POLICY_DENIED] = { "policy_denied", { 403, BLOCKED, "blocked-by-policy", 2 } },
        [NET_UNIX_SOCKET_UNSUPPORTED] = { "unix_socket_unsupported",
                                          { 501, "unix sockets unsupported", NULL, 7 } },
        [NET_SNI_MISMATCH] = { "sni_mismatch", { 403, BLOCKED, "blocked-by-policy", 2 } },
        [NET_DNS_FAILURE] = { "dns_failure", { 502, "The name could not be resolved.", NULL, 4 } },
};

static const char *const sources[NET_SOURCES] = {
        [NET_BASELINE] = "baseline_policy",
        [NET_DECIDER] = "decider",
        [NET_MODE_GUARD] = "mode_guard",
        [NET_PROXY_STATE] = "proxy_state",
};

static const char *const protocols[NET_PROTOCOLS] = {
        [NET_HTTP] = "http",
        [NET_HTTPS_CONNECT] = "https_connect",
        [NET_SOCKS5_TCP] = "socks5_tcp",
        [NET_SOCKS5_UDP] = "socks5_udp",
        [NET_TCP] = "tcp",
        [NET_DNS] = "dns",
};

static const char *const actions[NET_ACTIONS] = {
        [NET_ALLOW] = "allow", [NET_DENY] = "deny", [NET_ASK] = "ask"
};

const char *net_reason_word(enum net_reason reason)
{
        must((unsigned)reason < NET_REASONS);
        return reasons[reason].word;
}

const char *net_source_word(enum net_source source)
{
        must((unsigned)source < NET_SOURCES);
        return sources[source];
}

const char *net_protocol_word(enum net_protocol protocol)
{
        must((unsigned)protocol < NET_PROTOCOLS);
        return protocols[protocol];
}

const char *net_action_word(enum net_action action)
{
        must((unsigned)action < NET_ACTIONS);
        return actions[action];
}

bool net_reason_find(struct slice word, enum net_reason *ret)
{
        for (unsigned i = 0; i < NET_REASONS; i++) {
                if (!slice_eq(word, slice_from_str(reasons[i].word)))
                        continue;
                *ret = (enum net_reason)i;
                return true;
        }
        return false;
}

bool net_protocol_find(struct slice word, enum net_protocol *ret)
{
        size_t i = slice_find(word, protocols, NET_PROTOCOLS);
        if (i == NET_PROTOCOLS)
                return false;
        *ret = (enum net_protocol)i;
        return true;
}

bool net_action_find(struct slice word, enum net_action *ret)
{
        size_t i = slice_find(word, actions, NET_ACTIONS);
        if (i == NET_ACTIONS)
                return false;
        *ret = (enum net_action)i;
        return true;
}

bool net_reason_is_valid(struct slice reason)
{
        for (size_t i = 0; i < reason.n; i++)
                if ((unsigned char)reason.p[i] < ' ' || reason.p[i] == 0x7f)
                        return false;
        return reason.n <= NET_REASON_MAX;
}

struct net_answer net_answer_for(struct slice reason)
{
        enum net_reason known;
        return reasons[net_reason_find(reason, &known) ? known : NET_POLICY_DENIED].answer;
}
