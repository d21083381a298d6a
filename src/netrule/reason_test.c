/* reason_test: what commands and clients are told, as recorded. */
#include "netrule/reason.h"
#include "unit.h"

TEST(refusals_have_the_texts_of_the_reference)
{
        static const struct {
                const char *reason;
                int status;
                const char *text, *header;
                uint8_t socks;
        } rows[] = {
                { "not_allowed", 403, "Domain not in allowlist.", "blocked-by-allowlist", 2 },
                { "denied", 403, "Domain denied by the sandbox policy.", "blocked-by-denylist", 2 },
                { "not_allowed_local", 403, "Sandbox policy blocks local/private network addresses.",
                  "blocked-by-allowlist", 2 },
                { "method_not_allowed", 403, "Method not allowed in limited mode.",
                  "blocked-by-method-policy", 2 },
                { "mitm_required", 403, "MITM required for limited HTTPS.", "blocked-by-mitm-required", 2 },
                { "policy_denied", 403, "Request blocked by network policy.", "blocked-by-policy", 2 },
                { "both", 403, "Request blocked by network policy.", "blocked-by-policy", 2 },
                { "", 403, "Request blocked by network policy.", "blocked-by-policy", 2 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct net_answer answer = net_answer_for(slice_from_str(rows[i].reason));
                eq_int(answer.status, rows[i].status);
                eq_str(answer.text, rows[i].text);
                eq_str(answer.header, rows[i].header);
                eq_int(answer.socks, rows[i].socks);
        }
        eq_int(net_answer_for(S("unix_socket_unsupported")).status, 501);
        eq_int(net_answer_for(S("dns_failure")).socks, 4);
}

TEST(every_word_is_found_again)
{
        for (unsigned i = 0; i < NET_REASONS; i++) {
                enum net_reason reason;
                ok(net_reason_find(slice_from_str(net_reason_word((enum net_reason)i)), &reason));
                eq_int(reason, i);
        }
        for (unsigned i = 0; i < NET_PROTOCOLS; i++) {
                enum net_protocol protocol;
                ok(net_protocol_find(slice_from_str(net_protocol_word((enum net_protocol)i)), &protocol));
                eq_int(protocol, i);
        }
        for (unsigned i = 0; i < NET_ACTIONS; i++) {
                enum net_action action;
                ok(net_action_find(slice_from_str(net_action_word((enum net_action)i)), &action));
                eq_int(action, i);
        }
        enum net_reason none;
        ok(!net_reason_find(S("Denied"), &none));
        eq_str(net_source_word(NET_MODE_GUARD), "mode_guard");
}

TEST(a_reason_of_a_client_is_short_and_has_no_control_characters)
{
        static char text[NET_REASON_MAX + 1];
        memset(text, 'x', sizeof(text));
        ok(net_reason_is_valid(slice_from(text, NET_REASON_MAX)));
        ok(!net_reason_is_valid(slice_from(text, NET_REASON_MAX + 1)));
        ok(net_reason_is_valid(S("")));
        ok(net_reason_is_valid(S("please wait, \xc3\xa4")));
        ok(!net_reason_is_valid(S("a\nb")));
        ok(!net_reason_is_valid(S("a\0b")));
        ok(!net_reason_is_valid(S("\x7f")));
}
