/* network_test: networkProxy and managedNetwork of process/start: what is accepted, what is refused and in which words, and the policy that
 * comes out. The texts are those of the reference server. */
#include "proto/network.h"

#include "netrule/policy_pack.h"
#include "proto/process.h"
#include "proto/test_internal.h"
#include "unit.h"

struct row {
        const char *text;
        const char *message; /* NULL: accepted */
};

#define START(more) "{'processId':'p','argv':['a'],'cwd':'/w','env':{},'tty':false" more "}"
#define FLAGS                                                                     \
        "'enableSocks5':true,'enableSocks5Udp':true,'allowUpstreamProxy':false,'" \
        "dangerouslyAllowAllUnixSockets':false"
#define PROXY(more) "{'enabled':true," FLAGS ",'mode':'full','allowLocalBinding':false" more "}"
#define NETWORK(more) START(",'networkProxy':{'proxy':" PROXY(more) "}")
#define LAUNCH(more) START(",'networkProxy':{'proxy':" PROXY("") more "}")
#define CONFIG "invalid network proxy config: "
#define MASKING "credential masking is not available on this executor"
#define SANDBOX(network) \
        ",'sandbox':{'permissions':{'type':'disabled'" network "},'windowsSandboxLevel':'disabled'}"

static void check(const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_start in = { 0 };
                struct err err = ERR_INIT;
                int r = test_decode(&a, process_start_decode, rows[i].text, &in, &err);

                eq_str(err.text, rows[i].message ? rows[i].message : "");
                eq_int(r, rows[i].message ? -EINVAL : 0);
                eq_int(err.client_code, rows[i].message ? RPC_INVALID_PARAMS : 0);
        }
}

TEST(members_of_the_proxy_are_required_and_have_types)
{
#define WHOLE START(",'networkProxy':{'proxy':{" FLAGS "}}")
        static const struct row rows[] = {
                { START(",'networkProxy':null"), NULL },
                { START(",'networkProxy':5"),
                  "invalid type: number, expected struct RemoteNetworkProxyLaunchConfig" },
                { START(",'networkProxy':'x'"),
                  "invalid type: string \"x\", expected struct RemoteNetworkProxyLaunchConfig" },
                { START(",'networkProxy':{}"), "missing field `proxy`" },
                { START(",'networkProxy':{'proxy':null}"),
                  "invalid type: null, expected struct RemoteNetworkProxyConfig" },
                { START(",'networkProxy':{'proxy':{}}"), "missing field `enabled`" },
                { START(",'networkProxy':{'proxy':{'enabled':true}}"), "missing field `enableSocks5`" },
                { START(",'networkProxy':{'proxy':{'enabled':true,'enableSocks5':true}}"),
                  "missing field `enableSocks5Udp`" },
                { START(",'networkProxy':{'proxy':{'enabled':true,'enableSocks5':true,'enableSocks5Udp':true}"
                        "}"),
                  "missing field `allowUpstreamProxy`" },
                { START(",'networkProxy':{'proxy':{'enabled':true,'enableSocks5':true,'enableSocks5Udp':true,"
                        "'allowUpstreamProxy':true}}"),
                  "missing field `dangerouslyAllowAllUnixSockets`" },
                { START(",'networkProxy':{'proxy':{'enabled':true," FLAGS "}}"), "missing field `mode`" },
                { START(",'networkProxy':{'proxy':{'enabled':true," FLAGS ",'mode':'full'}}"),
                  "missing field `allowLocalBinding`" },
                { START(",'networkProxy':{'proxy':{'enabled':true," FLAGS ",'mode':'bogus'}}"),
                  "unknown variant `bogus`, expected `limited` or `full`" },
                { START(",'networkProxy':{'proxy':{'enabled':true," FLAGS ",'mode':5}}"),
                  "invalid type: number, expected string or map" },
                { START(",'networkProxy':{'proxy':{'enabled':null}}"),
                  "invalid type: null, expected a boolean" },
                { NETWORK(""), NULL },
                { NETWORK(",'domains':null,'unixSockets':null,'mitm':true,'later':5"), NULL },
                { NETWORK(",'domains':['x']"), "invalid type: sequence, expected a map" },
                { NETWORK(",'domains':5"), "invalid type: number, expected a map" },
                { NETWORK(",'domains':{'x':5}"), "invalid type: number, expected string or map" },
                { NETWORK(",'domains':{'x.test':'maybe'}"),
                  "unknown variant `maybe`, expected one of `none`, `allow`, `deny`" },
                { NETWORK(",'unixSockets':['/a']"),
                  "invalid type: sequence, expected struct NetworkUnixSocketPermissions" },
                { NETWORK(",'unixSockets':{'/a':'none'}"),
                  "unknown variant `none`, expected `allow` or `deny`" },
                { NETWORK(",'reviewDomains':5"), "invalid type: number, expected a sequence" },
                { NETWORK(",'reviewDomains':{'r.test':'allow'}"), "invalid type: map, expected a sequence" },
                { NETWORK(",'reviewDomains':null"), "invalid type: null, expected a sequence" },
                { NETWORK(",'reviewDomains':[5]"), "invalid type: number, expected a string" },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(members_beside_the_proxy_have_types)
{
        static const struct row rows[] = {
                { LAUNCH(",'auditMetadata':null,'environmentId':null,'executionId':null,'"
                         "policyDecisionTimeoutMs':null"),
                  NULL },
                { LAUNCH(",'auditMetadata':{'conversationId':'c','foo':1},'environmentId':'e','executionId':'"
                         "x'"),
                  NULL },
                { LAUNCH(",'auditMetadata':5"),
                  "invalid type: number, expected struct NetworkProxyAuditMetadata" },
                { LAUNCH(",'auditMetadata':{'conversationId':7}"),
                  "invalid type: number, expected a string" },
                { LAUNCH(",'auditMetadata':{'slug':[]}"), "invalid type: sequence, expected a string" },
                { LAUNCH(",'environmentId':5"), "invalid type: number, expected a string" },
                { LAUNCH(",'policyDecisionTimeoutMs':-1"), "invalid number" },
                { LAUNCH(",'policyDecisionTimeoutMs':1.5"), "invalid number" },
                { LAUNCH(",'policyDecisionTimeoutMs':'5'"), "invalid type: string \"5\", expected u64" },
                { LAUNCH(",'policyDecisionTimeoutMs':18446744073709551615"), NULL },
                { LAUNCH(",'policyDecisionTimeoutMs':0"),
                  "network policy decision callback timeout must be nonzero" },
                /* What the reference ignores beside `proxy` is ignored here, too: masking is asked for inside of it. */
                { LAUNCH(",'credentialMasking':5,'credentialProviders':5"), NULL },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(a_client_that_is_asked_needs_a_process_id_of_a_fair_length)
{
#define WITH_ID(id, more)   \
        "{'processId':'" id \
        "','argv':['a'],'cwd':'/w','env':{},'tty':false,'networkProxy':{'proxy':" PROXY("") more "}}"
#define X32 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X256 X32 X32 X32 X32 X32 X32 X32 X32
        static const struct row rows[] = {
                { WITH_ID("", ""), NULL },
                { WITH_ID("", ",'policyDecisionTimeoutMs':1"),
                  "callback-enabled process ID must be non-empty and at most 256 bytes" },
                { WITH_ID(X256, ",'policyDecisionTimeoutMs':1"), NULL },
                { WITH_ID(X256 "x", ",'policyDecisionTimeoutMs':1"),
                  "callback-enabled process ID must be non-empty and at most 256 bytes" },
                { WITH_ID(X256 "x", ""), NULL },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(rules_are_refused_in_the_order_of_the_reference)
{
        static const struct row rows[] = {
                { START(",'networkProxy':{'proxy':{'enabled':false," FLAGS
                        ",'mode':'full','allowLocalBinding':false,'domains':{'[':'allow'}}}"),
                  CONFIG "executor-local network proxy launch requires an enabled proxy" },
                { START(",'networkProxy':{'proxy':{'enabled':false," FLAGS
                        ",'mode':'full','allowLocalBinding':false},'policyDecisionTimeoutMs':0}"),
                  "network policy decision callback timeout must be nonzero" },
                { NETWORK(",'domains':{'x.test':'none'}"), NULL },
                { NETWORK(",'domains':{'*':'allow'}"), NULL },
                { NETWORK(",'domains':{'*':'deny'}"), CONFIG
                  "invalid value for network.denied_domains: * (allowed exact hosts or scoped wildcards like "
                  "*.example.com or **.example.com)" },
                { NETWORK(",'domains':{'[':'allow'}"),
                  CONFIG "brackets are only supported for IPv6 literals or [*]: [" },
                { NETWORK(",'unixSockets':{'x.sock':'allow'}"), CONFIG
                  "invalid network.allow_unix_sockets[0]: expected a NUL-free absolute path for Linux, got "
                  "\"x.sock\"" },
                { NETWORK(",'unixSockets':{'/run/x.sock':'allow','x':'deny'}"), NULL },
                { NETWORK(",'unixSockets':{'x':'allow'},'domains':{'*':'deny'}"), CONFIG
                  "invalid network.allow_unix_sockets[0]: expected a NUL-free absolute path for Linux, got "
                  "\"x\"" },
                { NETWORK(",'domains':{'[':'allow','*':'deny'}"), CONFIG
                  "invalid value for network.denied_domains: * (allowed exact hosts or scoped wildcards like "
                  "*.example.com or **.example.com)" },
                { NETWORK(",'reviewDomains':['r.test','*']"), NULL },
                { NETWORK(",'reviewDomains':['[']"),
                  CONFIG "brackets are only supported for IPv6 literals or [*]: [" },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(credential_masking_is_refused_and_never_ignored)
{
        static const struct row rows[] = {
                { NETWORK(",'credentialMasking':false"), NULL },
                { NETWORK(",'credentialMasking':true"), MASKING },
                { NETWORK(",'credentialMasking':false,'credentialProviders':{'a':{}}"), MASKING },
                { NETWORK(",'credentialProviders':{}"), NULL },
                { NETWORK(",'credentialMasking':5"), "invalid type: integer `5`, expected a boolean" },
                { NETWORK(",'credentialMasking':{}"), "invalid type: map, expected a boolean" },
                { NETWORK(",'credentialMasking':null"), "invalid type: null, expected a boolean" },
                { NETWORK(",'credentialMasking':'on'"), "invalid type: string \"on\", expected a boolean" },
                { NETWORK(",'credentialProviders':5"), "invalid type: integer `5`, expected a map" },
                { NETWORK(",'credentialProviders':true"), "invalid type: boolean `true`, expected a map" },
                { NETWORK(",'credentialProviders':null"), "invalid type: null, expected a map" },
                { NETWORK(",'credentialProviders':[5]"), "invalid type: sequence, expected a map" },
                { NETWORK(",'credentialProviders':{'a':{'env':['zz'],'patterns':[],'url_prefixes':['zz'],'"
                          "header':'zz'}}"),
                  MASKING },
                { NETWORK(",'credentialProviders':{'a':{'env':5}}"),
                  "invalid type: integer `5`, expected a sequence" },
                { NETWORK(",'credentialProviders':{'a':{'env':'zz'}}"),
                  "invalid type: string \"zz\", expected a sequence" },
                { NETWORK(",'credentialProviders':{'a':{'auth':['zz']}}"),
                  "unknown variant `zz`, expected one of `bearer`, `token`, `basic`, `header`" },
                { NETWORK(",'credentialProviders':{'a':{'auth':['bearer','header']}}"), MASKING },
                { NETWORK(",'credentialProviders':{'a':{'prefix':[]}}"),
                  "invalid type: sequence, expected a string" },
                { NETWORK(",'credentialProviders':{'a':{'hosts':5}}"),
                  "unknown field `hosts`, expected one of `env`, `patterns`, `url_prefixes`, "
                  "`url_prefix_from_env`, `auth`, "
                  "`header`, `prefix`" },
                { NETWORK(",'credentialProviders':{'a':5}"),
                  "invalid type: integer `5`, expected struct CredentialProviderConfig" },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(what_no_sandbox_here_enforces_is_refused)
{
#define ENFORCED SANDBOX("") ",'enforceManagedNetwork':true"
#define UNIX                                                                                     \
        "{'enabled':true,'enableSocks5':true,'enableSocks5Udp':true,'allowUpstreamProxy':false," \
        "'dangerouslyAllowAllUnixSockets':true,'mode':'full','allowLocalBinding':false}"
        static const struct row rows[] = {
                { START(ENFORCED), "managed network enforcement is not available on this executor" },
                { START(ENFORCED ",'networkProxy':{'proxy':" PROXY("") "}"), NULL },
                { START(",'networkProxy':{'proxy':" UNIX "}"), NULL },
                { START(ENFORCED ",'networkProxy':{'proxy':" UNIX "}"),
                  "dangerouslyAllowAllUnixSockets is not available on this executor" },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(managed_network_is_checked_and_has_no_effect)
{
        static const struct row rows[] = {
                { START(",'managedNetwork':null"), NULL },
                { START(",'managedNetwork':{}"), NULL },
                { START(",'managedNetwork':{'loopbackPorts':[0,65535],'allowLocalBinding':true}"), NULL },
                { START(",'managedNetwork':{'allowUnixSockets':['/"
                        "a'],'dangerouslyAllowAllUnixSockets':true}"),
                  NULL },
                { START(",'managedNetwork':5"),
                  "invalid type: number, expected struct ManagedNetworkSandboxContext" },
                { START(",'managedNetwork':{'loopbackPorts':[65536]}"), "invalid number" },
                { START(",'managedNetwork':{'loopbackPorts':['a']}"),
                  "invalid type: string \"a\", expected u16" },
                { START(",'managedNetwork':{'loopbackPorts':null}"),
                  "invalid type: null, expected a sequence" },
                { START(",'managedNetwork':{'allowLocalBinding':1}"),
                  "invalid type: number, expected a boolean" },
                { START(",'managedNetwork':{'allowUnixSockets':[5]}"),
                  "invalid type: number, expected a string" },
                { START(",'managedNetwork':{'dangerouslyAllowAllUnixSockets':5}"),
                  "invalid type: number, expected a boolean" },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(the_network_of_a_sandbox_is_the_managed_one_alone_when_that_is_asked_for_or_there_is_no_other)
{
        static const struct {
                const char *text;
                bool is_enforced, has_network;
        } rows[] = {
                { NETWORK(""), false, false },
                { START(SANDBOX("") ",'networkProxy':{'proxy':" PROXY("") "}"), false, true },
                { START(SANDBOX("") ",'enforceManagedNetwork':true,'networkProxy':{'proxy':" PROXY("") "}"),
                  true, false },
                { START(",'sandbox':{'permissions':{'type':'external','network':'restricted'},"
                        "'windowsSandboxLevel':'disabled'},'networkProxy':{'proxy':" PROXY("") "}"),
                  true, false },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_start in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_start_decode, rows[i].text, &in, &err), 0);
                ok(in.has_network);
                eq_int(in.network.is_enforced, rows[i].is_enforced);
                eq_int(in.sandbox.profile.has_network, rows[i].has_network);
                eq_int(in.has_sandbox && profile_must_enforce(&in.sandbox.profile), rows[i].is_enforced);
        }
}

TEST(the_policy_arrives_whole)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_start in = { 0 };
        struct err err = ERR_INIT;
        eq_int(test_decode(&a, process_start_decode,
                           LAUNCH(",'policyDecisionTimeoutMs':1500,'executionId':'e1','environmentId':'env',"
                                  "'auditMetadata':{'conversationId':'c'}"),
                           &in, &err),
               0);
        eq_u64(in.network.question_ms, 1500);
        eq_slice(in.network.execution_id, S("e1"));
        eq_slice(in.network.environment_id, S("env"));
        eq_slice(in.network.conversation_id, S("c"));
        ok(in.network.policy.has_questions && in.network.policy.has_socks && !in.network.policy.is_limited);

        in = (struct process_start){ 0 };
        eq_int(test_decode(&a, process_start_decode,
                           NETWORK(",'domains':{'B.test.':'allow','a.test':'none','c.test':'deny'},"
                                   "'reviewDomains':['**.R.test']"),
                           &in, &err),
               0);
        struct net_policy read = { 0 };
        eq_int(net_policy_read(&a, in.network.packed, &read), 0);
        eq_u64(read.rule_count, 2);
        eq_int(read.rules[0].action, NET_DENY);
        eq_slice(read.rules[0].host, S("c.test"));
        eq_int(read.rules[1].action, NET_ALLOW);
        eq_slice(read.rules[1].host, S("b.test"));
        eq_u64(read.review_count, 1);
        eq_slice(read.reviews[0], S("**.r.test"));
        ok(!read.has_questions && !read.is_strict && !read.is_observing);
}
