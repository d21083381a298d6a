/* http_test: the events of an HTTP request, whatever the server sends. */
#include "client/client_rig.h"

#include <errno.h>

static char log_text[1024];

static void note(const char *fmt, ...) PRINTF_LIKE(1, 2);
static void note(const char *fmt, ...)
{
        size_t n = strlen(log_text);
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(log_text + n, sizeof(log_text) - n, fmt, ap);
        va_end(ap);
}

static void on_response(UNUSED struct farhand_http *h, UNUSED void *arg, int status,
                        const struct farhand_http_header *headers, size_t count)
{
        note("[%d", status);
        for (size_t i = 0; i < count; i++)
                note(" %s=%s", headers[i].name, headers[i].value);
        note("]");
}

static void on_body(UNUSED struct farhand_http *h, UNUSED void *arg, const void *bytes, size_t n)
{
        note("%.*s,", (int)n, (const char *)bytes);
}

static void on_done(UNUSED struct farhand_http *h, UNUSED void *arg)
{
        note("done");
}

static void on_failed(UNUSED struct farhand_http *h, UNUSED void *arg, const struct farhand_error *error)
{
        note("failed %d", error->code);
}

static const struct farhand_http_events events = { on_response, on_body, on_done, on_failed };

#define ANSWER                                                                                 \
        "{\"id\":1,\"result\":{\"status\":200,\"headers\":[{\"name\":\"a\",\"value\":\"b\"}]," \
        "\"bodyBase64\":\"\"}}\n"
#define PIECE_OF(id, seq, text, rest)                                                               \
        "{\"method\":\"http/request/bodyDelta\",\"params\":{\"requestId\":\"" id "\",\"seq\":" #seq \
        ",\"deltaBase64\":\"" text "\"" rest "}}\n"
#define PIECE(seq, text, rest) PIECE_OF("farhand-http-1", seq, text, rest)
#define MORE ",\"done\":false,\"error\":null"
#define LAST ",\"done\":true,\"error\":null"

static struct farhand_http *begin(struct farhand *f)
{
        struct farhand_http_request request = FARHAND_HTTP_REQUEST_INIT;
        request.url = "http://h/";
        log_text[0] = '\0';
        return farhand_http_start(f, &request, &events, NULL, NULL);
}

/* Returns what the program is told when the server sends `said`. */
static const char *told(const char *said)
{
        int server;
        struct farhand *f = played_client(&server);
        ok(begin(f) != NULL);
        (void)played_sent(f, server);
        played_say(f, server, said);
        farhand_free(f);
        fd_close(server);
        return log_text;
}

TEST(a_request_says_all_that_was_asked_for)
{
        int server;
        struct farhand *f = played_client(&server);
        const struct farhand_http_header headers[] = { { .name = "X-A", .value = "1" }, { .name = "X-B" } };
        struct farhand_http_request request = FARHAND_HTTP_REQUEST_INIT;
        request.method = "POST";
        request.url = "http://h/\n";
        request.headers = headers;
        request.header_count = 2;
        request.body = "{}";
        request.body_bytes = 2;
        request.timeout_ms = 1500;
        request.stop_at_redirect = true;
        ok(farhand_http_start(f, &request, NULL, NULL, NULL) != NULL);
        eq_str(played_sent(f, server),
               "{\"id\":1,\"method\":\"http/request\",\"params\":{\"method\":\"POST\",\"url\":\"http://h/"
               "\\n\","
               "\"headers\":[{\"name\":\"X-A\",\"value\":\"1\"},{\"name\":\"X-B\",\"value\":\"\"}],"
               "\"bodyBase64\":\"e30=\",\"timeoutMs\":1500,\"redirectPolicy\":\"stop\","
               "\"requestId\":\"farhand-http-1\",\"streamResponse\":true}}\n");
        farhand_free(f);
        fd_close(server);
}

TEST(a_request_that_makes_no_sense_or_cannot_be_done_is_refused)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        struct farhand_http_header header = { .name = "A", .value_env = "V" };
        struct farhand_http_request request = FARHAND_HTTP_REQUEST_INIT;
        ok(!farhand_http_start(f, &request, NULL, NULL, &error));
        eq_int(error.code, -EINVAL);
        request.url = "http://h/";
        request.headers = &header;
        request.header_count = 1;
        ok(!farhand_http_start(f, &request, NULL, NULL, &error));
        eq_int(error.code, -EOPNOTSUPP); /* this server has no httpHeaderEnvVars */
        header = (struct farhand_http_header){ .value = "b" };
        ok(!farhand_http_start(f, &request, NULL, NULL, &error));
        eq_int(error.code, -EINVAL);
        request.header_count = 0;
        request.body = "";
        request.body_bytes = WHOLE_FILE_MAX + 1;
        ok(!farhand_http_start(f, &request, NULL, NULL, &error));
        eq_int(error.code, -EFBIG);
        eq_u64(f->call_count, 0);
        farhand_free(f);
        fd_close(server);
}

TEST(an_answer_is_told_piece_by_piece)
{
        static const struct {
                const char *said, *want;
        } rows[] = {
                { ANSWER PIECE(1, "eA==", MORE) PIECE(2, "eXo=", MORE) PIECE(3, "", LAST),
                  "[200 a=b]x,yz,done" },
                { ANSWER PIECE(1, "eA==", LAST) PIECE(2, "eA==", LAST), "[200 a=b]x,done" },
                { ANSWER PIECE(1, "eA==", ",\"done\":true,\"error\":\"broken\""), "[200 a=b]x,failed -121" },
                { ANSWER PIECE(1, "eA==", ",\"done\":false,\"error\":\"broken\""), "[200 a=b]x,failed -121" },
                { ANSWER PIECE(1, "eA==", MORE), "[200 a=b]x," },
                /* The body overtakes the answer. */
                { PIECE(1, "eA==", MORE) PIECE(2, "eXo=", LAST) ANSWER, "[200 a=b]xyz,done" },
                { PIECE(1, "eA==", ",\"done\":true,\"error\":\"b\"") ANSWER, "[200 a=b]x,failed -121" },
                /* These pieces belong to other bodies. */
                { ANSWER PIECE_OF("farhand-http-2", 1, "eA==", LAST) PIECE_OF("other", 1, "eA==", LAST),
                  "[200 a=b]" },
                { ANSWER "{\"method\":\"http/request/bodyDelta\",\"params\":null}\n", "[200 a=b]" },
                { ANSWER PIECE(2, "eA==", MORE), "[200 a=b]failed -71" },
                { ANSWER PIECE(1, "eA==", MORE) PIECE(1, "eA==", MORE), "[200 a=b]x,failed -71" },
                { ANSWER PIECE(1, "eA=", MORE) PIECE(2, "", LAST), "[200 a=b]failed -71" },
                { ANSWER PIECE(-1, "eA==", MORE), "[200 a=b]failed -71" },
                { ANSWER
                  "{\"method\":\"http/request/bodyDelta\",\"params\":{\"requestId\":\"farhand-http-1\"}}\n",
                  "[200 a=b]failed -71" },
                /* These results are no answers of http/request. */
                { "{\"id\":1,\"result\":{}}\n", "failed -71" },
                { "{\"id\":1,\"result\":null}\n", "failed -71" },
                { "{\"id\":1,\"result\":{\"status\":1e3}}\n", "failed -71" },
                { "{\"id\":1,\"result\":{\"status\":99}}\n", "failed -71" },
                { "{\"id\":1,\"result\":{\"status\":204,\"headers\":7}}\n", "[204]" },
                { "{\"id\":1,\"result\":{\"status\":204,\"headers\":[7,{},{\"name\":\"x\"},{\"name\":"
                  "\"a\\u0000b\",\"value\":\"\"},"
                  "{\"name\":\"c\",\"value\":\"\"}]}}\n",
                  "[204 c=]" },
                { "{\"error\":{\"code\":-32603,\"message\":\"no\"},\"id\":1}\n" PIECE(1, "eA==", LAST),
                  "failed -121" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                eq_str(told(rows[i].said), rows[i].want);
}

TEST(a_body_that_overtakes_its_answer_has_a_bound)
{
        int server;
        struct farhand *f = played_client(&server);
        ok(begin(f) != NULL);
        (void)played_sent(f, server);
        static char piece[65536], text[40000];
        memset(text, 'A', sizeof(text) - 1);
        for (int i = 1; i < 60 && !log_text[0]; i++) {
                (void)snprintf(
                        piece, sizeof(piece),
                        "{\"method\":\"http/request/bodyDelta\",\"params\":{\"requestId\":\"farhand-http-1\","
                        "\"seq\":%d,\"deltaBase64\":\"%.*s\",\"done\":false}}\n",
                        i, 39996, text);
                played_say(f, server, piece);
                (void)farhand_step(f, NULL);
        }
        eq_str(log_text, "failed -105");
        farhand_free(f);
        fd_close(server);
}

TEST(a_lost_connection_fails_requests_and_never_repeats_them)
{
        int server;
        struct farhand *f = played_client(&server);
        ok(begin(f) != NULL); /* this request gets no answer */
        (void)played_sent(f, server);
        played_cut(f, &server);
        eq_str(log_text, "failed -104");
        struct farhand_http *waiting =
                begin(f); /* there is no connection now: the request is sent when it is back */
        ok(waiting != NULL);
        eq_str(log_text, "");
        played_resume(f, server);
        ok(strstr(played_sent(f, server), "farhand-http-2") != NULL);
        played_say(f, server,
                   "{\"id\":2,\"result\":{\"status\":200}}\n" PIECE_OF("farhand-http-2", 1, "eA==", MORE));
        eq_str(log_text, "[200]x,");
        played_cut(f, &server); /* while the body is incomplete */
        eq_str(log_text, "[200]x,failed -104");
        played_resume(f, server);
        eq_str(strstr(played_sent(f, server), "http") ? "http" : "", "");
        farhand_free(f);
        fd_close(server);
}

static void free_on_response(struct farhand_http *h, UNUSED void *arg, UNUSED int status,
                             UNUSED const struct farhand_http_header *headers, UNUSED size_t count)
{
        note("freed");
        farhand_http_free(h);
}

TEST(a_request_can_be_freed_at_any_time)
{
        int server;
        struct farhand *f = played_client(&server);
        const struct farhand_http_events freeing = { free_on_response, on_body, on_done, on_failed };
        struct farhand_http_request request = FARHAND_HTTP_REQUEST_INIT;
        request.url = "http://h/";
        log_text[0] = '\0';
        ok(farhand_http_start(f, &request, &freeing, NULL, NULL) != NULL);
        (void)played_sent(f, server);
        played_say(f, server, PIECE(1, "eA==", MORE) ANSWER PIECE(2, "eA==", LAST));
        eq_str(log_text, "freed");
        struct farhand_http *h = begin(f);
        (void)played_sent(f, server);
        farhand_http_free(h);
        farhand_http_free(NULL);
        played_say(f, server,
                   "{\"id\":2,\"result\":{\"status\":200}}\n" PIECE_OF("farhand-http-2", 1, "eA==", LAST));
        eq_str(log_text, "");
        ok(list_is_empty(&f->http_requests));
        farhand_free(f);
        fd_close(server);
}
