/* answers_test: refusals and errors, as the reference's recordings have them. */
#include "egress/answers.h"

#include "unit.h"

/* Cuts the date out, which is the last field. */
static const char *shown(struct buf *b)
{
        char *date = strstr(b->p, "date: ");
        ok(date != NULL);
        char *end = strstr(date, "\r\n");
        eq_int(end - date, sizeof("date: Mon, 16 Nov 2026 04:19:09 GMT") - 1);
        memmove(date, end + 2, strlen(end + 2) + 1);
        return b->p;
}

static const struct answers_refusal refusal = { .host = S("other.test"),
                                                .reason = S("not_allowed"),
                                                .decision = S("deny"),
                                                .source = S("baseline_policy"),
                                                .protocol = S("http"),
                                                .port = 80 };

TEST(a_refused_request_gets_json)
{
        _buf_ struct buf b = BUF_INIT(4096);
        eq_int(answers_refuse_http(&b, &refusal), 0);
        eq_str(shown(&b), "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nx-proxy-error: "
                          "blocked-by-allowlist\r\n"
                          "connection: close\r\ncontent-length: 173\r\n\r\n"
                          "{\"status\":\"blocked\",\"host\":\"other.test\",\"reason\":\"not_allowed\","
                          "\"decision\":\"deny\","
                          "\"source\":\"baseline_policy\",\"protocol\":\"http\",\"port\":80,\"message\":"
                          "\"Domain not in allowlist.\"}");
}

TEST(a_refused_tunnel_gets_text_and_may_go_on)
{
        _buf_ struct buf b = BUF_INIT(4096);
        struct answers_refusal r = refusal;
        r.reason = S("please wait");
        eq_int(answers_refuse_connect(&b, &r), 0);
        eq_str(shown(&b),
               "HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\nx-proxy-error: blocked-by-policy\r\n"
               "content-length: 34\r\n\r\nRequest blocked by network policy.");
}

TEST(errors_close_the_connection)
{
        _buf_ struct buf b = BUF_INIT(4096);
        eq_int(answers_error(&b, 502, S("upstream failure")), 0);
        eq_str(shown(&b), "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/plain\r\nconnection: "
                          "close\r\ncontent-length: 16\r\n\r\n"
                          "upstream failure");
        buf_release(&b);
        eq_int(answers_error(&b, 431, S("")), 0);
        eq_str(shown(&b), "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: "
                          "close\r\ncontent-length: 0\r\n\r\n");
}
