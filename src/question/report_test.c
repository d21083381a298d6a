/* report_test: what is asked and read for a report of a process, and how a question of its broker is answered from elsewhere. */
#include "client/client_rig.h"

#include <errno.h>

static char told[1024];
static const struct farhand_target other = { .size = sizeof(other), .process_id = "p", .session_id = "s2" };

#define ASKED(id, method, more)                                                              \
        "{\"id\":" #id ",\"method\":\"process/" method "\",\"params\":{\"processId\":\"p\"," \
        "\"sessionId\":\"s2\"," more "}}\n"

static void note(UNUSED void *arg, const struct farhand_report *r)
{
        size_t n = strlen(told);
        n += (size_t)snprintf(told + n, sizeof(told) - n, "%d %d %d %d %s", r->has_exited, r->is_closed,
                              (int)r->next_seq, r->exit.code, r->exit.reason);
        if (r->has_usage)
                n += (size_t)snprintf(told + n, sizeof(told) - n, " used %d %d %d", (int)r->user_ms,
                                      (int)r->system_ms, (int)r->max_rss_bytes);
        if (r->is_intercepted)
                n += (size_t)snprintf(told + n, sizeof(told) - n, " starts %d %d %d", (int)r->run,
                                      (int)r->escalated, (int)r->denied);
        for (size_t i = 0; i < r->refused_count; i++)
                n += (size_t)snprintf(told + n, sizeof(told) - n, " %s %s %s %s", r->refused[i].operation,
                                      r->refused[i].path ? r->refused[i].path : "-",
                                      r->refused[i].address ? r->refused[i].address : "-",
                                      r->refused[i].source);
        (void)snprintf(told + n, sizeof(told) - n, ";");
}

TEST(a_report_tells_what_the_answer_has_and_nothing_else)
{
        static const struct {
                const char *answer, *want;
        } rows[] = {
                { "\"exited\":false,\"closed\":false,\"nextSeq\":3,\"exitCode\":7,\"timedOut\":true",
                  "0 0 3 0 ;" },
                { "\"exited\":true,\"exitCode\":7,\"closed\":true,\"nextSeq\":4,\"reason\":\"exited\","
                  "\"usage\":{"
                  "\"userMs\":1,\"systemMs\":2,\"maxRssBytes\":3},\"intercepted\":{\"run\":4,\"escalated\":5,"
                  "\"denied\":6},\"denials\":[{\"operation\":\"write\",\"path\":\"file:///a\",\"source\":"
                  "\"output\"},7,{},{\"operation\":\"connect\",\"address\":\"h:1\",\"source\":\"output\"}]",
                  "1 1 4 7 exited used 1 2 3 starts 4 5 6 write /a - output connect - h:1 output;" },
                { "\"exited\":true,\"exitCode\":0,\"usage\":{\"userMs\":1},\"intercepted\":7,\"denials\":{}",
                  "1 0 0 0 ;" },
        };
        int server;
        struct farhand *f = played_client(&server);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char answer[1024];
                (void)snprintf(answer, sizeof(answer), "{\"id\":%zu,\"result\":{%s}}\n", i + 1,
                               rows[i].answer);
                told[0] = '\0';
                played_queue(server, answer);
                eq_int(farhand_target_report(f, &other, NULL, note, NULL, NULL), 0);
                eq_str(told, rows[i].want);
        }
        farhand_free(f);
        fd_close(server);
}

TEST(a_report_waits_for_what_its_options_say)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_report_options options = FARHAND_REPORT_OPTIONS_INIT;
        struct played_script script = {
                .server = server,
                .answers = { "{\"id\":1,\"result\":{\"exited\":false,\"timedOut\":true}}\n",
                             "{\"id\":2,\"result\":{\"exited\":true,\"exitCode\":0,\"timedOut\":false}}\n",
                             "{\"id\":3,\"result\":{\"exited\":true,\"exitCode\":0,\"timedOut\":true}}\n" },
        };
        played_script_begin(&script);
        options.until = FARHAND_UNTIL_EXITED;
        options.timeout_ms = -1;
        told[0] = '\0';
        eq_int(farhand_target_report(f, &other, &options, note, NULL, NULL), 0);
        eq_str(told, "1 0 0 0 ;");
        options.until = FARHAND_UNTIL_CLOSED;
        options.drain_ms = 5;
        eq_int(farhand_target_report(f, &other, &options, note, NULL, NULL), 0);
        played_script_end(&script);
        eq_str(script.sent,
               ASKED(1, "wait", "\"until\":\"exited\",\"waitMs\":600000")
                       ASKED(2, "wait", "\"until\":\"exited\",\"waitMs\":600000")
                               ASKED(3, "wait", "\"until\":\"closed\",\"waitMs\":600000,\"drainMs\":5"));
        options.until = (enum farhand_until)2;
        eq_int(farhand_target_report(f, &other, &options, note, NULL, NULL), -EINVAL);
        options.size = 0;
        eq_int(farhand_target_report(f, &other, &options, note, NULL, NULL), -EINVAL);
        farhand_free(f);
        fd_close(server);
}

TEST(a_question_of_another_session_is_answered)
{
        int server;
        struct farhand *f = played_client(&server);
        played_queue(server, "{\"id\":1,\"result\":{}}\n");
        eq_int(farhand_target_decide(f, &other, "q", FARHAND_EXEC_DENY, "no", true, NULL), 0);
        eq_str(played_sent(f, server), ASKED(1, "execDecide",
                                             "\"requestId\":\"q\",\"decision\":\"deny\",\"reason\":\"no\","
                                             "\"remember\":\"process\""));
        eq_int(farhand_target_decide(f, &other, "q", FARHAND_EXEC_ASK, NULL, false, NULL), -EINVAL);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}
