/* target_test: what the functions on processes by their ids send and read, and how a process is signalled, ended and started in a
 * scope. */
#include "client/client_rig.h"

#include "base/mem.h"

#include <errno.h>
#include <signal.h>

#define ASKED(id, method, more) \
        "{\"id\":" #id ",\"method\":\"process/" method "\",\"params\":{\"processId\":\"p\"" more "}}\n"
#define OTHER ",\"sessionId\":\"s2\""

static const struct farhand_target own = { .size = sizeof(own), .process_id = "p" };
static const struct farhand_target other = { .size = sizeof(other), .process_id = "p", .session_id = "s2" };

TEST(signals_and_ends_of_named_processes)
{
        int server;
        struct farhand *f = played_client(&server);
        played_queue(server, "{\"id\":1,\"result\":{}}\n");
        eq_int(farhand_target_signal(f, &own, SIGINT, FARHAND_SCOPE_GROUP, NULL), 0);
        eq_str(played_sent(f, server), ASKED(1, "signal", ",\"signal\":\"interrupt\""));
        played_queue(server, "{\"id\":2,\"result\":{}}\n");
        eq_int(farhand_target_signal(f, &other, SIGUSR1, FARHAND_SCOPE_TREE, NULL), 0);
        eq_str(played_sent(f, server), ASKED(2, "signal", OTHER ",\"signal\":10,\"scope\":\"tree\""));
        played_queue(server, "{\"id\":3,\"result\":{\"running\":true}}\n");
        eq_int(farhand_target_terminate(f, &own, -1, NULL), 1);
        eq_str(played_sent(f, server), ASKED(3, "terminate", ""));
        played_queue(server, "{\"id\":4,\"result\":{\"running\":false}}\n");
        eq_int(farhand_target_terminate(f, &other, 0, NULL), 0);
        eq_str(played_sent(f, server),
               ASKED(4, "terminate", OTHER ",\"mode\":{\"type\":\"graceful\",\"timeoutMs\":0}"));
        farhand_free(f);
        fd_close(server);
}

TEST(what_a_target_cannot_be_asked_is_not_sent)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        struct farhand_snapshot snapshot;
        struct farhand_target none = FARHAND_TARGET_INIT, without_size = { .process_id = "p" };
        eq_int(farhand_target_signal(f, &none, SIGINT, FARHAND_SCOPE_GROUP, &error), -EINVAL);
        eq_int(farhand_target_signal(f, &without_size, SIGINT, FARHAND_SCOPE_GROUP, &error), -EINVAL);
        eq_int(farhand_target_signal(f, &own, SIGINT, (enum farhand_scope)3, &error), -EINVAL);
        eq_int(farhand_target_terminate(f, &own, FARHAND_GRACE_MAX_MS + 1, &error), -EINVAL);
        eq_int(farhand_target_wait(f, &own, (enum farhand_until)2, 0, NULL, &error), -EINVAL);
        eq_int(farhand_target_snapshot(f, &none, 100, -1, &snapshot, &error), -EINVAL);
        played_lose_capabilities(f, false);
        eq_int(farhand_target_signal(f, &own, SIGTERM, FARHAND_SCOPE_GROUP, &error), -EOPNOTSUPP);
        eq_int(farhand_target_signal(f, &own, SIGINT, FARHAND_SCOPE_TREE, &error), -EOPNOTSUPP);
        eq_int(farhand_target_signal(f, &other, SIGINT, FARHAND_SCOPE_GROUP, &error), -EOPNOTSUPP);
        eq_int(farhand_target_terminate(f, &own, 0, &error), -EOPNOTSUPP);
        eq_int(farhand_target_terminate(f, &other, -1, &error), -EOPNOTSUPP);
        eq_int(farhand_target_wait(f, &own, FARHAND_UNTIL_EXITED, 0, NULL, &error), -EOPNOTSUPP);
        eq_int(farhand_target_snapshot(f, &other, 100, -1, &snapshot, &error), -EOPNOTSUPP);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

TEST(a_wait_goes_on_until_the_process_is_so_far)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_exit exit;
        struct farhand_error error;
        struct played_script script = {
                .server = server,
                .answers = { "{\"id\":1,\"result\":{\"exited\":true,\"closed\":false,\"exitCode\":3}}\n",
                             "{\"id\":2,\"result\":{\"exited\":true,\"closed\":true,\"exitCode\":3,"
                             "\"signal\":null,\"reason\":\"exited\"}}\n" }
        };
        played_script_begin(&script);
        eq_int(farhand_target_wait(f, &other, FARHAND_UNTIL_CLOSED, -1, &exit, &error), 0);
        eq_int(exit.code, 3);
        eq_str(exit.reason, "exited");
        played_script_end(&script);
        eq_str(script.sent, ASKED(1, "wait", OTHER ",\"until\":\"closed\",\"waitMs\":600000")
                                    ASKED(2, "wait", OTHER ",\"until\":\"closed\",\"waitMs\":600000"));
        played_queue(server, "{\"id\":3,\"result\":{\"exited\":true,\"closed\":false,\"exitCode\":4}}\n");
        eq_int(farhand_target_wait(f, &own, FARHAND_UNTIL_EXITED, 0, &exit, &error), 0);
        eq_int(exit.code, 4);
        played_queue(server, "{\"id\":4,\"result\":{\"exited\":false,\"closed\":false}}\n");
        eq_int(farhand_target_wait(f, &own, FARHAND_UNTIL_EXITED, 0, NULL, &error), -ETIMEDOUT);
        farhand_free(f);
        fd_close(server);
}

static char read_text[256];

static void note_output(UNUSED void *arg, uint64_t seq, enum farhand_stream stream, const void *bytes,
                        size_t n)
{
        size_t at = strlen(read_text);
        (void)snprintf(read_text + at, sizeof(read_text) - at, "%d %d %.*s;", (int)seq, stream, (int)n,
                       (const char *)bytes);
}

TEST(output_is_read_with_its_numbers_and_gaps)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_progress progress = FARHAND_PROGRESS_INIT;
        read_text[0] = '\0';
        played_queue(server,
                     "{\"id\":1,\"result\":{\"chunks\":[{\"seq\":4,\"stream\":\"stdout\",\"chunk\":"
                     "\"eA==\"},{\"seq\":5,\"stream\":\"stderr\",\"chunk\":\"eQ==\"}],\"nextSeq\":7,"
                     "\"exited\":true,\"exitCode\":1,\"closed\":false,\"gap\":{\"fromSeq\":1,\"toSeq\":"
                     "3,\"bytes\":99}}}\n");
        eq_int(farhand_target_read(f, &other, 0, 0, 50, note_output, NULL, &progress, NULL), 0);
        eq_str(played_sent(f, server),
               ASKED(1, "read", OTHER ",\"afterSeq\":0,\"maxBytes\":1048576,\"waitMs\":50"));
        eq_str(read_text, "4 0 x;5 1 y;");
        ok(progress.next_seq == 7 && progress.has_exited && !progress.is_closed && progress.exit.code == 1);
        ok(progress.gap_first_seq == 1 && progress.gap_last_seq == 3 && progress.gap_bytes == 99);
        ok(progress.size == sizeof(progress));
        farhand_free(f);
        fd_close(server);
}

TEST(answers_that_cannot_be_read_are_errors)
{
        static const char *const rows[] = {
                "{}",
                "{\"chunks\":[]}",
                "{\"chunks\":7,\"nextSeq\":1}",
                "{\"chunks\":[7],\"nextSeq\":1}",
                "{\"chunks\":[{\"seq\":1,\"stream\":\"stdout\",\"chunk\":\"=\"}],\"nextSeq\":1}",
                "{\"chunks\":[{\"seq\":1,\"stream\":\"other\",\"chunk\":\"\"}],\"nextSeq\":1}",
                "7",
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int server;
                struct farhand *f = played_client(&server);
                struct farhand_progress progress = FARHAND_PROGRESS_INIT;
                char answer[256];
                (void)snprintf(answer, sizeof(answer), "{\"id\":1,\"result\":%s}\n", rows[i]);
                played_queue(server, answer);
                eq_int(farhand_target_read(f, &own, 1, 10, 0, note_output, NULL, &progress, NULL), -EPROTO);
                farhand_free(f);
                fd_close(server);
        }
}

TEST(a_snapshot_of_another_session)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_snapshot snapshot;
        played_queue(server, "{\"id\":1,\"result\":{\"stdout\":\"eA==\",\"stderr\":\"\",\"terminal\":\"\","
                             "\"running\":true,\"nextSeq\":2}}\n");
        eq_int(farhand_target_snapshot(f, &other, 100, -1, &snapshot, NULL), 0);
        eq_str(played_sent(f, server), ASKED(1, "snapshot", OTHER ",\"maxBytes\":100"));
        eq_str(snapshot.out, "x");
        farhand_snapshot_release(&snapshot);
        farhand_free(f);
        fd_close(server);
}

TEST(a_process_is_signalled_in_a_scope_and_ended_gracefully)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.process_id = "p";
        command.argv = (const char *const[]){ "x", NULL };
        struct farhand_process *p = farhand_start(f, &command, NULL, NULL, NULL);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":1,\"result\":{}}\n");
        eq_int(farhand_process_signal_to(p, SIGTERM, FARHAND_SCOPE_PROCESS), 0);
        eq_int(farhand_process_stop(p, 500), 0);
        eq_str(played_sent(f, server),
               ASKED(2, "signal", ",\"signal\":15,\"scope\":\"process\"")
                       ASKED(3, "terminate", ",\"mode\":{\"type\":\"graceful\",\"timeoutMs\":500}"));
        eq_int(farhand_process_signal_to(p, SIGTERM, (enum farhand_scope)7), -EINVAL);
        eq_int(farhand_process_stop(p, FARHAND_GRACE_MAX_MS + 1), -EINVAL);
        played_lose_capabilities(f, false);
        eq_int(farhand_process_signal_to(p, SIGINT, FARHAND_SCOPE_TREE), -EOPNOTSUPP);
        eq_int(farhand_process_stop(p, 500), -EOPNOTSUPP);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

TEST(a_scope_of_a_shell_is_sent_where_it_has_an_effect)
{
        static const struct {
                const char *argv[4];
                bool has_capability;
                const char *want;
        } rows[] = {
                { { "/bin/bash", "-lc", "x" },
                  true,
                  "\"shellSnapshot\":{\"scopeId\":\"scope\",\"shell\":{\"name\":\"bash\",\"path\":\"/bin/"
                  "bash\"}}}}" },
                { { "/bin/bash", "-lc", "x" }, false, NULL },
                { { "/bin/fish", "-lc", "x" }, true, NULL },
                { { "/bin/bash", "-c", "x" }, true, NULL },
                { { "bash", "-lc", "x" }, true, NULL },
                { { "/bin/bash" }, true, NULL },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int server;
                struct farhand *f = played_client(&server);
                struct farhand_command command = FARHAND_COMMAND_INIT;
                command.argv = rows[i].argv;
                command.snapshot_scope = "scope";
                if (!rows[i].has_capability)
                        played_lose_capabilities(f, true);
                ok(farhand_start(f, &command, NULL, NULL, NULL) != NULL);
                const char *sent = played_sent(f, server);
                eq_int(strstr(sent, "shellSnapshot") != NULL, rows[i].want != NULL);
                ok(!rows[i].want || strstr(sent, rows[i].want));
                farhand_free(f);
                fd_close(server);
        }
}
