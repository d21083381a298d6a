/* network_test: what the client asks of a server about the network of a process, and how it answers the server's questions. */
#include "client/client_rig.h"

#include <errno.h>

static char log_text[2048];

static void note(const char *fmt, ...) PRINTF_LIKE(1, 2);
static void note(const char *fmt, ...)
{
        size_t n = strlen(log_text);
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(log_text + n, sizeof(log_text) - n, fmt, ap);
        va_end(ap);
}

static void on_network(UNUSED struct farhand_process *p, UNUSED void *arg,
                       const struct farhand_network_question *q)
{
        note("%s%d %s %s:%u\n", q->action == FARHAND_NETWORK_ASK ? "ask" : "withdrawn", (int)q->id,
             q->protocol, q->host, q->port);
}

static void on_decision(UNUSED struct farhand_process *p, UNUSED void *arg,
                        const struct farhand_network_decision *d)
{
        note("%s %s %s %s %s:%u %s %s%s x%d\n", d->action == FARHAND_NETWORK_ALLOW ? "allow" : "deny",
             d->source, d->reason, d->protocol, d->host, d->port, d->method ? d->method : "-",
             d->is_guard ? "guard " : "", d->is_overridden ? "override" : "plain", (int)d->count);
}

static void on_failed(UNUSED struct farhand_process *p, UNUSED void *arg, const struct farhand_error *error)
{
        note("failed%d ", error->code);
}

static const struct farhand_process_events events = { .on_failed = on_failed,
                                                      .on_network = on_network,
                                                      .on_network_decision = on_decision };

#define CAPABILITIES(list) "{\"environmentInfo\":{\"capabilities\":{" list "}}}"
#define LAUNCH "\"networkProxyLaunch\":true"
#define ALL LAUNCH ",\"networkProxyReviewDomains\":true,\"egressV1\":true"
#define REQUEST(id, host, port)                                                           \
        "{\"id\":" #id ",\"method\":\"network/policyRequest\",\"params\":{\"processId\":" \
        "\"p\",\"request\":{\"protocol\":\"http\",\"host\":\"" host "\",\"port\":" #port "}}}\n"

static struct farhand *client_with(const char *info, int *ret_server)
{
        struct farhand *f = played_client(ret_server);
        free(f->info);
        f->info = strdup(info);
        ok(f->info);
        log_text[0] = '\0';
        return f;
}

static struct farhand_process *start(struct farhand *f, const struct farhand_network *network,
                                     const struct farhand_process_events *with, struct farhand_error *error)
{
        static const char *const argv[] = { "x", NULL };
        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.process_id = "p";
        command.argv = argv;
        command.network = network;
        return farhand_start(f, &command, with, NULL, error);
}

/* Returns a running process about whose hosts the server may ask. */
static struct farhand_process *started(struct farhand *f, int server)
{
        struct farhand_network network = FARHAND_NETWORK_INIT;
        network.ask_timeout_ms = 60000;
        struct farhand_process *p = start(f, &network, &events, NULL);
        ok(p != NULL);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":1,\"result\":{}}\n");
        return p;
}

static int answer(struct farhand_process *p, uint64_t id, enum farhand_network_action action,
                  enum farhand_remember remember)
{
        struct farhand_network_answer a = FARHAND_NETWORK_ANSWER_INIT;
        a.action = action;
        a.remember = remember;
        a.ttl_ms = remember ? 500 : 0;
        a.reason = action == FARHAND_NETWORK_DENY ? "no \"thanks\"" : NULL;
        return farhand_process_answer_network(p, id, &a, NULL);
}

TEST(a_network_is_written_as_the_servers_know_it)
{
        static const char *const allow[] = { "a.test", "*.\"b\"", NULL }, *const deny[] = { "c.test", NULL },
                                 *const review[] = { "r.test", NULL };
        struct farhand_network network = FARHAND_NETWORK_INIT;
        network.allow = allow;
        network.deny = deny;
        network.review = review;
        network.ask_timeout_ms = 1000;
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        ok(start(f, &network, &events, NULL) != NULL);
        const char *sent = played_sent(f, server);
        ok(strstr(sent,
                  "\"networkProxy\":{\"proxy\":{\"enabled\":true,\"enableSocks5\":true,\"enableSocks5Udp\":"
                  "false,\"allowUpstreamProxy\":false,\"dangerouslyAllowAllUnixSockets\":false,"
                  "\"allowLocalBinding\":false,\"mode\":\"full\",\"domains\":{\"a.test\":\"allow\","
                  "\"*.\\\"b\\\"\":\"allow\",\"c.test\":\"deny\"},\"unixSockets\":null,"
                  "\"reviewDomains\":[\"r.test\"]},\"policyDecisionTimeoutMs\":1000},"
                  "\"enforceManagedNetwork\":true"));
        farhand_free(f);
        fd_close(server);
}

TEST(rules_are_written_with_their_ports_and_addresses)
{
        static const struct farhand_ports ports[] = { { 22, 22 }, { 8000, 8010 } };
        static const char *const methods[] = { "GET", NULL }, *const protocols[] = { "tcp", NULL };
        struct farhand_network_rule rules[] = { FARHAND_NETWORK_RULE_INIT, FARHAND_NETWORK_RULE_INIT,
                                                FARHAND_NETWORK_RULE_INIT };
        struct farhand_network network = FARHAND_NETWORK_INIT;
        rules[0].host = "a.test";
        rules[0].ports = ports;
        rules[0].port_count = 2;
        rules[0].protocols = protocols;
        rules[1].cidr = "10.0.0.0/8";
        rules[1].action = FARHAND_NETWORK_DENY;
        rules[2].host = "*.b";
        rules[2].methods = methods;
        rules[2].action = FARHAND_NETWORK_ASK;
        network.rules = rules;
        network.rule_count = 3;
        network.mode = "observe";
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        ok(start(f, &network, &events, NULL) != NULL);
        const char *sent = played_sent(f, server);
        ok(strstr(sent,
                  "\"mode\":\"observe\",\"domains\":{},\"unixSockets\":null,\"rules\":[{\"host\":\"a.test\","
                  "\"ports\":[22,\"8000-8010\"],\"protocols\":[\"tcp\"],\"action\":\"allow\"},"
                  "{\"cidr\":\"10.0.0.0/8\",\"action\":\"deny\"},{\"host\":\"*.b\",\"methods\":[\"GET\"],"
                  "\"action\":\"ask\"}]}}"));
        farhand_free(f);
        fd_close(server);
}

TEST(what_a_server_would_not_know_is_not_sent)
{
        static const char *const some[] = { "a", NULL };
        struct farhand_network_rule rule = FARHAND_NETWORK_RULE_INIT, bad = FARHAND_NETWORK_RULE_INIT;
        rule.host = "a";
        const struct {
                const char *info;
                struct farhand_network network;
                int code;
        } rows[] = {
                { "{}", FARHAND_NETWORK_INIT, -EOPNOTSUPP },
                { CAPABILITIES(LAUNCH), { 0 }, -EINVAL },
                { CAPABILITIES(LAUNCH),
                  { .size = sizeof(struct farhand_network), .review = some },
                  -EOPNOTSUPP },
                { CAPABILITIES(LAUNCH),
                  { .size = sizeof(struct farhand_network), .mode = "observe" },
                  -EOPNOTSUPP },
                { CAPABILITIES(LAUNCH),
                  { .size = sizeof(struct farhand_network), .rules = &rule, .rule_count = 1 },
                  -EOPNOTSUPP },
                { CAPABILITIES(ALL),
                  { .size = sizeof(struct farhand_network), .rules = &bad, .rule_count = 1 },
                  -EINVAL },
                { CAPABILITIES(ALL),
                  { .size = sizeof(struct farhand_network), .rules = &rule, .rule_count = 1, .allow = some },
                  -EINVAL },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int server;
                struct farhand_error error = { 0 };
                struct farhand *f = client_with(rows[i].info, &server);
                ok(!start(f, &rows[i].network, &events, &error));
                eq_int(error.code, rows[i].code);
                eq_str(played_sent(f, server), "");
                farhand_free(f);
                fd_close(server);
        }
}

TEST(a_question_is_answered_once_and_as_it_was_meant)
{
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        struct farhand_process *p = started(f, server);
        played_say(f, server, REQUEST(7, "a.test", 80) REQUEST(8, "b.test", 443));
        eq_str(log_text, "ask1 http a.test:80\nask2 http b.test:443\n");
        eq_int(answer(p, 2, FARHAND_NETWORK_ALLOW, FARHAND_REMEMBER_PROCESS), 0);
        eq_str(played_sent(f, server), "{\"id\":8,\"result\":{\"decision\":{\"type\":\"allow\"},"
                                       "\"remember\":\"process\",\"ttlMs\":500}}\n");
        eq_int(answer(p, 1, FARHAND_NETWORK_DENY, FARHAND_REMEMBER_NOTHING), 0);
        eq_str(played_sent(f, server),
               "{\"id\":7,\"result\":{\"decision\":{\"type\":\"deny\",\"reason\":\"no "
               "\\\"thanks\\\"\"}}}\n");
        eq_int(answer(p, 1, FARHAND_NETWORK_ALLOW, FARHAND_REMEMBER_NOTHING), -ESRCH);
        farhand_free(f);
        fd_close(server);
}

TEST(a_server_that_remembers_nothing_is_not_told_to)
{
        int server;
        struct farhand *f = client_with(CAPABILITIES(LAUNCH), &server);
        struct farhand_process *p = started(f, server);
        played_say(f, server, REQUEST(7, "a.test", 80));
        eq_int(answer(p, 1, FARHAND_NETWORK_ALLOW, FARHAND_REMEMBER_SESSION), 0);
        eq_str(played_sent(f, server), "{\"id\":7,\"result\":{\"decision\":{\"type\":\"allow\"}}}\n");
        farhand_free(f);
        fd_close(server);
}

TEST(answers_that_say_nothing_are_refused)
{
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        struct farhand_process *p = started(f, server);
        struct farhand_network_answer a = FARHAND_NETWORK_ANSWER_INIT;
        played_say(f, server, REQUEST(7, "a.test", 80));
        a.action = FARHAND_NETWORK_ASK;
        eq_int(farhand_process_answer_network(p, 1, &a, NULL), -EINVAL);
        a.action = FARHAND_NETWORK_DENY;
        a.reason = "two\nlines";
        eq_int(farhand_process_answer_network(p, 1, &a, NULL), -EINVAL);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

#define NOBODY(id)                                                                                \
        "{\"id\":" #id ",\"result\":{\"decision\":{\"type\":\"deny\",\"reason\":\"nobody can be " \
        "asked\"}}}\n"

TEST(questions_that_nobody_takes_are_answered_with_no)
{
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        played_say(f, server, REQUEST(7, "a.test", 80));
        eq_str(played_sent(f, server), NOBODY(7));
        static const struct farhand_process_events deaf = { .on_failed = on_failed };
        struct farhand_network network = FARHAND_NETWORK_INIT;
        struct farhand_process *p = start(f, &network, &deaf, NULL);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":1,\"result\":{}}\n" REQUEST(8, "a.test", 80));
        eq_str(played_sent(f, server), NOBODY(8));
        farhand_process_free(p);
        p = started(f, server);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":2,\"result\":{}}\n" REQUEST(9, "a.test", 80));
        farhand_process_free(p); /* the question of a process that is given back */
        eq_str(played_sent(f, server), NOBODY(9));
        farhand_free(f);
        fd_close(server);
}

TEST(too_many_questions_are_not_kept)
{
        int server;
        char text[256];
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        (void)started(f, server);
        for (int i = 0; i <= NETWORK_QUESTIONS_MAX; i++) {
                (void)snprintf(
                        text, sizeof(text),
                        "{\"id\":%d,\"method\":\"network/policyRequest\",\"params\":{\"processId\":\"p\","
                        "\"request\":{\"protocol\":\"http\",\"host\":\"h\",\"port\":%d}}}\n",
                        i, i);
                log_text[0] = '\0';
                played_say(f, server, text);
        }
        eq_str(log_text, "");
        eq_str(played_sent(f, server), NOBODY(1024));
        farhand_free(f);
        fd_close(server);
}

TEST(what_is_no_question_is_refused)
{
        static const struct {
                const char *said, *want;
        } rows[] = {
                { "{\"id\":\"x\",\"method\":\"workspace/blink\"}\n",
                  "{\"error\":{\"code\":-32601,\"message\":\"unknown method "
                  "`workspace/blink`\"},\"id\":\"x\"}\n" },
                { "{\"id\":4,\"method\":\"network/policyRequest\",\"params\":{\"processId\":\"p\"}}\n",
                  "{\"error\":{\"code\":-32602,\"message\":\"a question needs a protocol, a host and a "
                  "port\"},\"id\":4}\n" },
                { REQUEST(5, "h", 65536),
                  "{\"error\":{\"code\":-32602,\"message\":\"a question needs a protocol, "
                  "a host and a port\"},\"id\":5}\n" },
        };
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        (void)started(f, server);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                played_say(f, server, rows[i].said);
                eq_str(played_sent(f, server), rows[i].want);
        }
        eq_str(log_text, "");
        farhand_free(f);
        fd_close(server);
}

/* Loses the connection and resumes the session; answers the question of the library about the process. */
static void reconnect(struct farhand *f, int *server)
{
        played_cut(f, server);
        played_resume(f, *server);
        (void)played_sent(f, *server);
        played_say(f, *server,
                   "{\"id\":2,\"result\":{\"chunks\":[],\"nextSeq\":1,\"exited\":false,\"closed\":false}}\n");
}

TEST(a_question_outlives_its_connection_and_is_not_told_twice)
{
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        struct farhand_process *p = started(f, server);
        played_say(f, server, REQUEST(7, "a.test", 80));
        reconnect(f, &server);
        (void)played_sent(f, server);
        played_say(f, server, REQUEST(1, "a.test", 80) REQUEST(2, "a.test", 81));
        eq_str(log_text, "ask1 http a.test:80\nask2 http a.test:81\n");
        eq_int(answer(p, 1, FARHAND_NETWORK_ALLOW, FARHAND_REMEMBER_NOTHING), 0);
        eq_str(played_sent(f, server), "{\"id\":1,\"result\":{\"decision\":{\"type\":\"allow\"}}}\n");
        farhand_free(f);
        fd_close(server);
}

TEST(an_answer_between_two_connections_is_sent_when_the_server_asks_again)
{
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        struct farhand_process *p = started(f, server);
        played_say(f, server, REQUEST(7, "a.test", 80));
        played_cut(f, &server);
        eq_int(answer(p, 1, FARHAND_NETWORK_ALLOW, FARHAND_REMEMBER_NOTHING), 0);
        eq_int(answer(p, 1, FARHAND_NETWORK_ALLOW, FARHAND_REMEMBER_NOTHING), -ESRCH);
        played_resume(f, server);
        (void)played_sent(f, server);
        played_say(f, server, REQUEST(1, "a.test", 80));
        eq_str(played_sent(f, server), "{\"id\":1,\"result\":{\"decision\":{\"type\":\"allow\"}}}\n");
        /* Asked once more, it is a new question. */
        played_say(f, server, REQUEST(2, "a.test", 80));
        eq_str(log_text, "ask1 http a.test:80\nask2 http a.test:80\n");
        farhand_free(f);
        fd_close(server);
}

TEST(a_question_that_nobody_answers_in_time_is_withdrawn)
{
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        struct farhand_process *p = started(f, server);
        played_say(f, server, REQUEST(7, "a.test", 80));
        ok(farhand_timeout_ms(f) <= 60000);
        client_network_questions_on_time(f, UINT64_MAX - 1);
        eq_str(log_text, "ask1 http a.test:80\nwithdrawn1 http a.test:80\n");
        eq_int(answer(p, 1, FARHAND_NETWORK_ALLOW, FARHAND_REMEMBER_NOTHING), -ESRCH);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

#define DECISION(more)                                                                                    \
        "{\"method\":\"network/policyDecision\",\"params\":{\"processId\":\"p\",\"timestamp\":\"2026-11-" \
        "16T04:20:36.259Z\",\"source\":\"decider\",\"protocol\":\"http\",\"host\":\"h\"," more "}}\n"

TEST(decisions_are_told_as_far_as_they_make_sense)
{
        int server;
        struct farhand *f = client_with(CAPABILITIES(ALL), &server);
        (void)started(f, server);
        played_say(
                f, server,
                DECISION("\"scope\":\"domain\",\"decision\":\"allow\",\"reason\":\"not_allowed\",\"port\":80,"
                         "\"method\":\"GET\",\"policyOverride\":true"));
        played_say(f, server,
                   DECISION(
                           "\"scope\":\"non_domain\",\"decision\":\"deny\",\"reason\":\"method_not_allowed\","
                           "\"port\":80,\"policyOverride\":false,\"count\":9"));
        played_say(f, server, DECISION("\"decision\":\"perhaps\",\"reason\":\"x\",\"port\":80"));
        played_say(f, server, DECISION("\"decision\":\"deny\",\"reason\":\"x\",\"port\":80000"));
        played_say(f, server, DECISION("\"decision\":\"deny\",\"port\":80"));
        eq_str(log_text, "allow decider not_allowed http h:80 GET override x1\n"
                         "deny decider method_not_allowed http h:80 - guard plain x9\n");
        farhand_free(f);
        fd_close(server);
}
