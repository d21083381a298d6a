/* calls_test: calls of a client. The test itself plays the server, on a connection whose messages are lines. */
#include "client/client_rig.h"

#include "unit.h"

#include <errno.h>

static struct {
        unsigned answers, failures;
        int code;
        char result[64];
} seen;

static void on_answer(UNUSED struct farhand *f, UNUSED void *arg, const char *result,
                      const struct farhand_error *error)
{
        seen.answers += result != NULL;
        seen.failures += error != NULL;
        seen.code = error ? error->code : 0;
        (void)snprintf(seen.result, sizeof(seen.result), "%s", result ? result : "");
}

TEST(a_call_is_one_line_and_is_answered_once)
{
        int server;
        memset(&seen, 0, sizeof(seen));
        struct farhand *f = played_client(&server);
        eq_int(farhand_call(f, "m", "{\n\"a\":\n1}", 0, on_answer, NULL, NULL), 0);
        eq_str(played_sent(f, server), "{\"id\":1,\"method\":\"m\",\"params\":{ \"a\": 1}}\n");
        played_say(f, server,
                   "{\"id\":1025,\"result\":1}\n{\"id\":\"1\",\"result\":1}\n{\"id\":-1,\"result\":1}\n");
        eq_u64(seen.answers, 0);
        played_say(f, server, "{\"id\":1,\"result\":\"x\\n\"}\n{\"id\":1,\"result\":2}\n");
        eq_u64(seen.answers, 1);
        eq_str(seen.result, "\"x\\n\"");
        farhand_free(f);
        fd_close(server);
}

TEST(too_many_calls_are_refused)
{
        int server;
        memset(&seen, 0, sizeof(seen));
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        for (int i = 0; i < CALLS_MAX; i++)
                eq_int(farhand_call(f, "m", NULL, 0, on_answer, NULL, NULL), 0);
        eq_int(farhand_call(f, "m", NULL, 0, on_answer, NULL, &error), -EAGAIN);
        ok(!farhand_adopt(f, "p", 0, NULL, NULL, &error));
        eq_int(error.code, -EAGAIN);
        played_say(f, server, "{\"id\":7,\"result\":1}\n");
        eq_int(farhand_call(f, "m", NULL, 0, on_answer, NULL, NULL), 0);
        farhand_free(f);
        fd_close(server);
        eq_u64(seen.answers + seen.failures, 1);
}

TEST(a_lost_connection_fails_what_may_not_be_done_twice)
{
        int server;
        memset(&seen, 0, sizeof(seen));
        struct farhand *f = played_client(&server);
        eq_int(farhand_call(f, "once", NULL, 0, on_answer, NULL, NULL), 0);
        eq_int(farhand_call(f, "often", NULL, FARHAND_REPEAT, on_answer, NULL, NULL), 0);
        eq_int(farhand_step(f, NULL), 0);
        fd_close(server);
        eq_int(farhand_step(f, NULL), 0);
        eq_int(farhand_get_state(f), FARHAND_RECOVERING);
        eq_u64(seen.failures, 1);
        eq_int(seen.code, -ECONNRESET);
        eq_u64(f->call_count, 1);
        farhand_free(f);
}

TEST(processes_are_asked_once_after_each_loss)
{
        int server;
        memset(&seen, 0, sizeof(seen));
        struct farhand *f = played_client(&server);
        struct farhand_process *p = farhand_adopt(f, "p", 0, NULL, NULL, NULL);
        ok(p != NULL);
        for (int i = 0; i < 3; i++) {
                eq_u64(f->call_count, 1);
                eq_int(farhand_step(f, NULL), 0);
                struct err err = ERR_INIT;
                (void)err_set(&err, 0, -ECONNRESET, "lost");
                f->depth++; /* as if a farhand_step were under way */
                client_lost(f, &err);
                eq_u64(f->call_count, 0);
                f->state = FARHAND_READY;
                f->retry_at_ms = 0;
                client_processes_recover(f);
                f->depth--;
        }
        farhand_free(f);
        fd_close(server);
}

static void on_status(UNUSED struct farhand *f, UNUSED void *arg, const char *status,
                      UNUSED const struct farhand_error *error)
{
        seen.answers += status != NULL;
}

TEST(freeing_a_process_keeps_the_answers_to_calls_of_the_program)
{
        int server;
        memset(&seen, 0, sizeof(seen));
        struct farhand *f = played_client(&server);
        struct farhand_process *p = farhand_adopt(f, "p", 0, NULL, NULL, NULL);
        eq_int(farhand_call(f, "m", NULL, 0, on_answer, p, NULL), 0);
        eq_int(farhand_environment_status_begin(f, on_status, p, NULL), 0);
        farhand_process_free(p);
        (void)played_sent(f, server);
        played_say(f, server,
                   "{\"id\":1,\"result\":{}}\n{\"id\":2,\"result\":{}}\n{\"id\":3,\"result\":{\"status\":"
                   "\"ready\"}}\n");
        eq_u64(seen.answers, 2);
        farhand_free(f);
        fd_close(server);
}

TEST(a_hole_that_stays_is_asked_for)
{
        int server;
        memset(&seen, 0, sizeof(seen));
        struct farhand *f = played_client(&server);
        struct farhand_process *p = farhand_adopt(f, "p", 0, NULL, NULL, NULL);
        (void)played_sent(f, server);
        played_say(f, server,
                   "{\"id\":1,\"result\":{\"chunks\":[],\"nextSeq\":1,\"exited\":false,\"closed\":false}}\n"
                   "{\"method\":\"process/closed\",\"params\":{\"processId\":\"p\",\"seq\":3}}\n");
        ok(!p->is_reading && p->hole_since_ms > 0);
        ok(farhand_timeout_ms(f) >= 0 && farhand_timeout_ms(f) <= HOLE_MS);
        eq_str(played_sent(f, server), "");
        p->hole_since_ms -= HOLE_MS;
        eq_str(played_sent(f, server),
               "{\"id\":2,\"method\":\"process/read\",\"params\":{\"processId\":\"p\",\"afterSeq\":0,"
               "\"waitMs\":0}}\n");
        played_say(f, server,
                   "{\"id\":2,\"result\":{\"chunks\":[{\"seq\":1,\"stream\":\"stdout\",\"chunk\":\"eA==\"}],"
                   "\"nextSeq\":4,"
                   "\"exited\":true,\"exitCode\":4294967299,\"closed\":true}}\n");
        struct farhand_exit exit;
        ok(farhand_process_is_closed(p) && farhand_process_has_exited(p, &exit));
        eq_int(exit.code, -1); /* an exit code that does not fit counts as not told */
        farhand_free(f);
        fd_close(server);
}

TEST(a_paused_client_does_not_spin_when_the_server_goes)
{
        int server;
        memset(&seen, 0, sizeof(seen));
        struct farhand *f = played_client(&server);
        farhand_pause(f, true);
        eq_int(farhand_step(f, NULL), 0);
        fd_close(server);
        eq_int(farhand_step(f, NULL), 0);
        eq_int(farhand_get_state(f), FARHAND_READY);
        eq_int(farhand_wait(f, 0, NULL), 0);
        ok(farhand_timeout_ms(f) != 0);
        eq_int(f->watched, -1);
        farhand_pause(f, false);
        eq_int(farhand_timeout_ms(f), 0);
        eq_int(farhand_step(f, NULL), 0);
        eq_int(farhand_step(f, NULL), 0);
        eq_int(farhand_get_state(f), FARHAND_RECOVERING);
        farhand_free(f);
}

static void on_failed(UNUSED struct farhand_process *p, UNUSED void *arg,
                      UNUSED const struct farhand_error *error)
{
        seen.failures++;
}

static void on_started(UNUSED struct farhand_process *p, UNUSED void *arg, UNUSED int64_t pid)
{
        seen.answers++;
}

TEST(a_process_that_failed_before_the_answer_to_its_start_stays_failed)
{
        int server;
        memset(&seen, 0, sizeof(seen));
        struct farhand *f = played_client(&server);
        struct farhand_process_events events = { .on_started = on_started, .on_failed = on_failed };
        struct farhand_command command = FARHAND_COMMAND_INIT;
        const char *const argv[] = { "x", NULL };
        command.process_id = "p";
        command.argv = argv;
        struct farhand_process *p = farhand_start(f, &command, &events, NULL, NULL);
        (void)played_sent(f, server);
        played_say(f, server,
                   "{\"method\":\"process/"
                   "output\",\"params\":{\"processId\":\"p\",\"seq\":1}}\n{\"id\":1,\"result\":{}}\n");
        eq_u64(seen.failures, 1);
        eq_u64(seen.answers, 0);
        ok(farhand_process_is_closed(p));
        farhand_free(f);
        fd_close(server);
}
