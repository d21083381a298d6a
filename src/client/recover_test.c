/* recover_test: what the program is told of a process that another client has started, and of a process whose events the server no
 * longer keeps. */
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

static void on_output(UNUSED struct farhand_process *p, UNUSED void *arg, UNUSED enum farhand_stream stream,
                      const void *bytes, size_t n)
{
        note("%.*s ", (int)n, (const char *)bytes);
}

static void on_exited(UNUSED struct farhand_process *p, UNUSED void *arg, const struct farhand_exit *exit)
{
        note("exit%d ", exit->code);
}

static void on_closed(UNUSED struct farhand_process *p, UNUSED void *arg)
{
        note("closed ");
}

static void on_failed(UNUSED struct farhand_process *p, UNUSED void *arg, const struct farhand_error *error)
{
        note("failed%d ", error->code);
}

static void on_gap(UNUSED struct farhand_process *p, UNUSED void *arg, uint64_t first, uint64_t last,
                   uint64_t bytes)
{
        note("gap%d-%d:%d ", (int)first, (int)last, (int)bytes);
}

static const struct farhand_process_events events = { .on_output = on_output,
                                                      .on_exited = on_exited,
                                                      .on_closed = on_closed,
                                                      .on_failed = on_failed,
                                                      .on_gap = on_gap };

#define CHUNK(seq, text) "{\"seq\":" #seq ",\"stream\":\"stdout\",\"chunk\":\"" text "\"}"
#define READ(id, chunks, next, rest) \
        "{\"id\":" #id ",\"result\":{\"chunks\":[" chunks "],\"nextSeq\":" #next "," rest "}}\n"
#define RUNS "\"exited\":false,\"closed\":false"
#define EXITED "\"exited\":true,\"exitCode\":3,\"closed\":false"
#define CLOSED "\"exited\":true,\"exitCode\":3,\"closed\":true"
#define OUTPUT(seq, text)                                                              \
        "{\"method\":\"process/output\",\"params\":{\"processId\":\"p\",\"seq\":" #seq \
        ",\"stream\":\"stdout\",\"chunk\":\"" text "\"}}\n"
#define A "YQ=="
#define B "Yg=="

TEST(an_adopted_process_tells_what_is_kept_and_always_how_it_ended)
{
        static const struct {
                uint64_t after;
                const char *said, *want;
        } rows[] = {
                { 0, READ(1, CHUNK(1, A) "," CHUNK(2, B), 3, RUNS), "a b " },
                { 1, READ(1, CHUNK(2, B), 3, RUNS), "b " },
                { 0,
                  READ(1, CHUNK(7, A) "," CHUNK(8, B), 9,
                       RUNS ",\"gap\":{\"fromSeq\":1,\"toSeq\":6,\"bytes\":99}"),
                  "gap1-6:99 a b " },
                { 0, READ(1, CHUNK(7, A), 8, RUNS), "gap1-6:0 a " },
                { 0, READ(1, "", 8, RUNS), "gap1-7:0 " },
                { 0, READ(1, "", 1, RUNS), "" },
                /* The exit comes behind, between, before and among the chunks that are kept. */
                { 0, READ(1, CHUNK(7, A), 10, CLOSED), "gap1-6:0 a exit3 closed " },
                { 0, READ(1, CHUNK(1, A) "," CHUNK(3, B), 5, CLOSED), "a exit3 b closed " },
                { 0, READ(1, CHUNK(7, A), 9, CLOSED), "gap1-5:0 exit3 a closed " },
                { 0, READ(1, "", 9, CLOSED), "gap1-6:0 exit3 closed " },
                { 0, READ(1, "", 3, CLOSED), "exit3 closed " },
                { 0, READ(1, "", 2, EXITED), "exit3 " },
                { 4, READ(1, CHUNK(5, A), 6, EXITED), "exit3 a " },
                /* All events were told before. */
                { 8, READ(1, "", 9, CLOSED), "exit3 closed " },
                { 7, READ(1, "", 9, CLOSED), "exit3 closed " },
                { 8, READ(1, "", 9, RUNS), "" },
                /* Notifications come before the answer. */
                { 0, OUTPUT(2, B) READ(1, CHUNK(1, A) "," CHUNK(2, B), 3, RUNS), "a b " },
                { 0, OUTPUT(1, A) READ(1, CHUNK(1, A), 2, RUNS) OUTPUT(2, B), "a b " },
                { 0, OUTPUT(9, A) READ(1, CHUNK(5, B), 6, RUNS),
                  "gap1-4:0 b " }, /* events 6 to 8 may still come */
                { 0, OUTPUT(2, A) OUTPUT(3, A) READ(1, CHUNK(6, B), 7, RUNS), "gap1-1:0 a a gap4-5:0 b " },
                { 0, "{\"error\":{\"code\":-32600,\"message\":\"unknown process id p\"},\"id\":1}\n",
                  "failed-121 " },
                { 0, READ(1, "7", 3, RUNS), "failed-71 " },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int server;
                struct farhand *f = played_client(&server);
                log_text[0] = '\0';
                ok(farhand_adopt(f, "p", rows[i].after, &events, NULL, NULL) != NULL);
                (void)played_sent(f, server);
                played_say(f, server, rows[i].said);
                eq_str(log_text, rows[i].want);
                eq_str(strstr(played_sent(f, server), "terminate") ? "terminate" : "", "");
                farhand_free(f);
                fd_close(server);
        }
}

TEST(a_late_listener_is_told_what_is_kept_and_then_the_same_as_the_others)
{
        int server;
        struct farhand *f = played_client(&server);
        log_text[0] = '\0';
        struct farhand_process *first = farhand_adopt(f, "p", 0, &events, NULL, NULL);
        (void)played_sent(f, server);
        played_say(f, server, READ(1, CHUNK(1, A), 2, RUNS));
        eq_u64(farhand_process_last_seq(first), 1);
        struct farhand_process *second = farhand_adopt(f, "p", 0, &events, NULL, NULL);
        (void)played_sent(f, server);
        played_say(f, server, OUTPUT(2, B) READ(2, CHUNK(1, A) "," CHUNK(2, B), 3, RUNS));
        eq_str(log_text, "a b a b ");
        played_say(f, server, OUTPUT(3, A));
        eq_str(log_text, "a b a b a a ");
        eq_u64(farhand_process_last_seq(second), 3);
        farhand_process_free(first);
        played_say(f, server, OUTPUT(4, B));
        eq_str(log_text, "a b a b a a b ");
        farhand_free(f);
        fd_close(server);
}

TEST(events_that_flood_an_adoption_are_asked_for)
{
        int server;
        struct farhand *f = played_client(&server);
        log_text[0] = '\0';
        struct farhand_process *p = farhand_adopt(f, "p", 0, &events, NULL, NULL);
        (void)played_sent(f, server);
        for (int seq = 2; seq < 400; seq++) {
                char text[200];
                (void)snprintf(text, sizeof(text),
                               "{\"method\":\"process/output\",\"params\":{\"processId\":\"p\",\"seq\":%d,"
                               "\"stream\":\"stdout\",\"chunk\":\"\"}}\n",
                               seq);
                played_say(f, server, text);
        }
        eq_str(log_text, "");
        played_say(f, server,
                   READ(1, CHUNK(1, A), 2, RUNS)); /* the answer is older than the events told already */
        eq_u64(farhand_process_last_seq(p), 257);
        ok(strstr(played_sent(f, server), "\"afterSeq\":257") != NULL);
        played_say(f, server, READ(2, CHUNK(400, B), 401, RUNS));
        eq_str(log_text, "a gap258-399:0 b ");
        farhand_free(f);
        fd_close(server);
}

/* Starts a process, gets event 1, loses the connection, and gets an answer in which the events 2 to 4 are missing. Returns what the
 * program was told. */
static const char *recovered(const struct farhand_process_events *with, const char **ret_sent)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_command command = FARHAND_COMMAND_INIT;
        const char *const argv[] = { "x", NULL };
        command.process_id = "p";
        command.argv = argv;
        log_text[0] = '\0';
        ok(farhand_start(f, &command, with, NULL, NULL) != NULL);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":1,\"result\":{}}\n" OUTPUT(1, A));
        played_cut(f, &server);
        played_resume(f, server);
        (void)played_sent(f, server);
        played_say(f, server, READ(2, CHUNK(5, B), 6, RUNS));
        *ret_sent = played_sent(f, server);
        farhand_free(f);
        fd_close(server);
        return log_text;
}

TEST(a_gap_ends_only_a_process_whose_program_does_not_want_to_hear_of_it)
{
        const char *sent;
        struct farhand_process_events without = events;
        without.on_gap = NULL;
        eq_str(recovered(&events, &sent), "a gap2-4:0 b ");
        eq_str(sent, "");
        eq_str(recovered(&without, &sent), "a failed-61 ");
        ok(strstr(sent, "process/terminate") != NULL);
        /* A gap never ends a process that another client has started. */
        int server;
        struct farhand *f = played_client(&server);
        log_text[0] = '\0';
        ok(farhand_adopt(f, "p", 0, &without, NULL, NULL) != NULL);
        (void)played_sent(f, server);
        played_say(f, server, READ(1, CHUNK(5, B), 6, RUNS));
        eq_str(log_text, "failed-61 ");
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}
