/* request_test: which requests the transport allows, and how the others are answered. */
#include "base/buf.h"
#include "mcphttp/request.h"
#include "unit.h"

static bool knows_version(struct slice name)
{
        return slice_eq(name, S("2025-06-18"));
}

static const char *const hosts[] = { "mcp.example.com" };
static const struct request_rules rules = {
        .path = "/mcp", .hosts = hosts, .host_count = 1, .knows_version = knows_version
};

/* Returns the status with which a request is refused; 0: it is allowed. `text` has LF as line ends, and no empty line at its end. */
static int status_of(const char *text, struct mcp_request *ret)
{
        static char head[8192];
        struct http_request r;
        struct refusal_answer bad;
        int n = snprintf(head, sizeof(head), "%s\n\n", text);
        ok(http_parse(slice_from(head, (size_t)n), &r) == n);
        *ret = (struct mcp_request){ 0 };
        return mcp_request_is_for_us(&r, &rules, &bad) && mcp_request_read(&r, &rules, ret, &bad)
                       ? 0
                       : bad.status;
}

#define POST "POST /mcp HTTP/1.1\nHost: 127.0.0.1:1\n"
#define JSON "Content-Type: application/json\n"
#define BOTH "Accept: application/json, text/event-stream\n"
#define GET "GET /mcp HTTP/1.1\nHost: [::1]:1\n"

TEST(a_good_request_is_allowed)
{
        static const char *const good[] = {
                POST JSON "Accept: application/json, text/event-stream",
                POST BOTH "Content-Type: Application/JSON; charset=utf-8",
                POST JSON "Accept: */*",
                POST JSON "Accept: text/*;q=0.5\nAccept: application/*",
                POST JSON BOTH "Mcp-Session-Id: x\nMCP-Protocol-Version: 2025-06-18",
                POST JSON BOTH "MCP-Protocol-Version: unknown", /* the first request tells it in its body */
                GET "Accept: text/event-stream\nMcp-Session-Id: x\nLast-Event-ID: 1-2",
                "DELETE /mcp HTTP/1.1\nHost: localhost\nMcp-Session-Id: x",
                ("DELETE /mcp?a=b HTTP/1.1\nHost: MCP.example.com:443\n" /* one text: clang warns of two */
                 "Origin: https://mcp.example.com:443\nMcp-Session-Id: x"),
        };
        struct mcp_request m;
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                eq_int(status_of(good[i], &m), 0);
        eq_int(status_of(good[6], &m), 0);
        ok(m.kind == REQUEST_GET && slice_eq(m.session, S("x")) && slice_eq(m.last_event, S("1-2")));
}

TEST(each_fault_has_its_status)
{
        static const struct {
                int status;
                const char *text;
        } bad[] = {
                { 400, "POST /mcp HTTP/1.1\n" JSON BOTH "A: b" },
                { 403, "POST /mcp HTTP/1.1\nHost: evil.example.com\n" JSON BOTH "A: b" },
                { 403, "POST /mcp HTTP/1.1\nHost: 127.0.0.1.evil.example.com\n" JSON BOTH "A: b" },
                { 403, "POST /mcp HTTP/1.1\nHost: localhost.\n" JSON BOTH "A: b" },
                { 403, "POST /mcp HTTP/1.1\nHost: u@localhost\n" JSON BOTH "A: b" },
                { 403, "POST /mcp HTTP/1.1\nHost:\n" JSON BOTH "A: b" },
                { 403, POST JSON BOTH "Origin: http://evil.example.com" },
                { 403, POST JSON BOTH "Origin: http://127.0.0.1:2" },
                { 403, POST JSON BOTH "Origin: null" },
                { 403, POST JSON BOTH "Origin: http://127.0.0.1:1\nOrigin: http://127.0.0.1:1" },
                { 404, "POST / HTTP/1.1\nHost: localhost\n" JSON BOTH "A: b" },
                { 404, "POST /mcp/ HTTP/1.1\nHost: localhost\n" JSON BOTH "A: b" },
                { 405, "PUT /mcp HTTP/1.1\nHost: localhost\n" JSON BOTH "A: b" },
                { 405, "OPTIONS /mcp HTTP/1.1\nHost: localhost" },
                { 406, POST JSON "Accept: application/json" },
                { 406, POST JSON "Accept: text/event-stream" },
                { 406, POST JSON "Accept: application/json, text/event-stream;q=0.0" },
                { 406, POST JSON "A: b" },
                { 406, GET "Accept: application/json\nMcp-Session-Id: x" },
                { 415, POST BOTH "Content-Type: text/plain" },
                { 415, POST BOTH "Content-Type: application/jsonx" },
                { 415, POST BOTH JSON "Content-Type: application/json" },
                { 415, POST BOTH "A: b" },
                { 400, POST JSON BOTH "Mcp-Session-Id: x\nMCP-Protocol-Version: 1999-01-01" },
                { 400, POST JSON BOTH "Mcp-Session-Id: x\nMcp-Session-Id: x" },
                { 400, GET "Accept: text/event-stream" },
                { 400, "DELETE /mcp HTTP/1.1\nHost: localhost" },
        };
        struct mcp_request m;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                if (status_of(bad[i].text, &m) != bad[i].status)
                        fail_msg("%zu: %s", i, bad[i].text);
}

TEST(ids_of_events)
{
        uint64_t stream, number;
        ok(event_id_read(S("12-345"), &stream, &number) && stream == 12 && number == 345);
        ok(!event_id_read(S(""), &stream, &number) && !event_id_read(S("1"), &stream, &number));
        ok(!event_id_read(S("-1"), &stream, &number) && !event_id_read(S("1-"), &stream, &number));
        ok(!event_id_read(S("1-2-3"), &stream, &number) &&
           !event_id_read(S("18446744073709551615-1"), &stream, &number));
}
