/* collect_test: output that a program collects, snapshots, and the environment. The test itself plays the server. */
#include "client/client_rig.h"

#include "base/mem.h"

#include <errno.h>

#define OUTPUT(seq, stream, text)                                                      \
        "{\"method\":\"process/output\",\"params\":{\"processId\":\"p\",\"seq\":" #seq \
        ",\"stream\":\"" stream "\",\"chunk\":\"" text "\"}}\n"
#define EXITED(seq) \
        "{\"method\":\"process/exited\",\"params\":{\"processId\":\"p\",\"seq\":" #seq ",\"exitCode\":3}}\n"
#define CLOSED(seq) "{\"method\":\"process/closed\",\"params\":{\"processId\":\"p\",\"seq\":" #seq "}}\n"

/* Returns a process that runs, and whose output is collected. */
static struct farhand_process *running(struct farhand *f, int server, size_t cap)
{
        struct farhand_command command = FARHAND_COMMAND_INIT;
        const char *const argv[] = { "x", NULL };
        command.process_id = "p";
        command.argv = argv;
        command.prepared = true;
        struct farhand_process *p = farhand_start(f, &command, NULL, NULL, NULL);
        ok(p != NULL);
        eq_int(farhand_process_collect(p, cap, NULL), 0);
        eq_int(farhand_process_collect(p, cap, NULL), -EALREADY);
        ok(strstr(played_sent(f, server), "\"kind\":\"prepared\"") != NULL);
        played_say(f, server, "{\"id\":1,\"result\":{}}\n");
        return p;
}

/* Returns what farhand_process_yield gives without waiting, as text. */
static const char *yielded(struct farhand_process *p)
{
        static char text[128];
        struct farhand_taken taken;
        int r = farhand_process_yield(p, 0, &taken, NULL);
        if (r < 0) {
                (void)snprintf(text, sizeof(text), "%d", r);
                return text;
        }
        (void)snprintf(text, sizeof(text), "%d %s %d %d", r, taken.bytes, (int)taken.head_bytes,
                       (int)taken.omitted_bytes);
        free(taken.bytes);
        return text;
}

TEST(each_byte_is_yielded_once)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_process *p = running(f, server, 4);
        eq_str(yielded(p), "1  0 0");
        played_say(f, server, OUTPUT(1, "stdout", "YWI=") OUTPUT(2, "stderr", "Yw=="));
        eq_str(yielded(p), "1 abc 2 0");
        played_say(f, server, OUTPUT(3, "stdout", "YWJjZGVm"));
        eq_str(yielded(p), "1 abef 2 2");
        played_say(f, server, EXITED(4) OUTPUT(5, "stdout", "eA=="));
        eq_str(yielded(p),
               "0 x 1 0"); /* a child of the command may hold stdout open; its end is not awaited */
        played_say(f, server, CLOSED(6));
        eq_str(yielded(p), "0  0 0");
        farhand_free(f);
        fd_close(server);
}

TEST(a_yield_ends_with_the_process)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_process *p = running(f, server, 0);
        struct farhand_taken taken;
        struct farhand_exit exit;
        static const char said[] = OUTPUT(1, "stdout", "eA==") EXITED(2) CLOSED(3);
        eq_int(send(server, said, strlen(said), 0), (ssize_t)strlen(said));
        eq_int(farhand_process_yield(p, -1, &taken, NULL),
               0); /* returns at once, although the time limit is endless */
        eq_str(taken.bytes, "x");
        free(taken.bytes);
        ok(farhand_process_has_exited(p, &exit));
        eq_int(exit.code, 3);
        farhand_free(f);
        fd_close(server);
}

TEST(what_a_lost_process_has_written_is_yielded_before_its_failure)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_process *p = running(f, server, 0);
        struct farhand_error error = { .code = -EIO };
        struct farhand_taken taken;
        played_say(f, server, OUTPUT(1, "stdout", "eA=="));
        client_process_fail(p, &error);
        eq_str(yielded(p), "0 x 1 0");
        eq_str(yielded(p), "-5");
        struct farhand_process *other = farhand_adopt(f, "q", 0, NULL, NULL, NULL);
        eq_int(farhand_process_yield(other, 0, &taken, NULL),
               -EINVAL); /* output of this process is not collected */
        eq_int(farhand_process_take(other, &taken, NULL), -EINVAL);
        farhand_free(f);
        fd_close(server);
}

/* ---- snapshots ---- */

static char shown[256];

static void on_snapshot(UNUSED struct farhand *f, UNUSED void *arg, struct farhand_snapshot *s,
                        const struct farhand_error *error)
{
        if (error)
                (void)snprintf(shown, sizeof(shown), "%d", error->code);
        else
                (void)snprintf(shown, sizeof(shown), "%s:%d %s:%d %d %d%d %d %d", s->out,
                               (int)s->out_omitted_bytes, s->err, (int)s->err_omitted_bytes, s->is_truncated,
                               s->has_exited, s->is_closed, s->exit.code, (int)s->next_seq);
}

/* Returns what the program is told when a server with or without processControlV1 answers with `result`. */
static const char *snapshot(bool has_control, const char *result, const char *want_sent)
{
        int server;
        char text[1024];
        struct farhand *f = played_client(&server);
        f->has_process_control = has_control;
        (void)snprintf(shown, sizeof(shown), "nothing");
        eq_int(farhand_snapshot_begin(f, "p", 4, on_snapshot, NULL, NULL), 0);
        ok(strstr(played_sent(f, server), want_sent) != NULL);
        (void)snprintf(text, sizeof(text), "{\"id\":1,\"result\":%s}\n", result);
        played_say(f, server, text);
        farhand_free(f);
        fd_close(server);
        return shown;
}

TEST(a_snapshot_is_read_from_either_kind_of_server)
{
#define STREAMS(out, err, terminal) \
        "\"stdout\":\"" out "\",\"stderr\":\"" err "\",\"terminal\":\"" terminal "\""
        static const struct {
                bool has_control;
                const char *result, *want;
        } rows[] = {
                { true,
                  "{" STREAMS("YQ==", "Yg==",
                              "") ",\"truncated\":true,\"omittedBytes\":{\"stdout\":5,\"stderr\":6,"
                                  "\"terminal\":0},\"running\":true,\"exitCode\":null,\"closed\":false,"
                                  "\"nextSeq\":9}",
                  "a:5 b:6 1 00 -1 9" },
                { true,
                  "{" STREAMS(
                          "", "",
                          "YQ==") ",\"truncated\":false,\"omittedBytes\":{\"terminal\":7},\"running\":false,"
                                  "\"exitCode\":3,\"closed\":true,\"nextSeq\":9}",
                  "a:7 :0 0 11 3 9" },
                { true, "{" STREAMS("YQ", "", "") ",\"nextSeq\":9}", "-71" },
                { true, "{" STREAMS("", "", "") "}", "-71" },
                { true, "{\"nextSeq\":1}", "-71" },
                { true, "{" STREAMS("YWFhYWE=", "", "") ",\"nextSeq\":9}",
                  "-71" }, /* the server sends more than was asked for */
                { true, "7", "-71" },
                { false,
                  "{\"chunks\":[{\"seq\":1,\"stream\":\"stdout\",\"chunk\":\"YWI=\"},{\"seq\":2,\"stream\":"
                  "\"stderr\",\"chunk\":\"eA==\"},"
                  "{\"seq\":3,\"stream\":\"stdout\",\"chunk\":\"Y2RlZmc=\"}],\"nextSeq\":4,\"exited\":false,"
                  "\"closed\":false}",
                  "abfg:3 x:0 1 00 -1 4" },
                { false,
                  "{\"chunks\":[{\"seq\":2,\"stream\":\"pty\",\"chunk\":\"YWI=\"}],\"nextSeq\":5,\"exited\":"
                  "true,\"exitCode\":3,"
                  "\"closed\":true}",
                  "ab:0 :0 1 11 3 5" },
                { false, "{\"chunks\":[],\"nextSeq\":1}", ":0 :0 0 00 -1 1" },
                { false, "{\"chunks\":[7],\"nextSeq\":1}", "-71" },
                { false, "{\"chunks\":[{\"seq\":2,\"stream\":\"pty\",\"chunk\":\"Y\"}],\"nextSeq\":1}",
                  "-71" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                eq_str(snapshot(rows[i].has_control, rows[i].result,
                                rows[i].has_control
                                        ? "\"process/"
                                          "snapshot\",\"params\":{\"processId\":\"p\",\"maxBytes\":4}"
                                        : "\"process/read\",\"params\":{\"processId\":\"p\",\"waitMs\":0}"),
                       rows[i].want);
        eq_str(snapshot(true, "{},\"x\":1", "process/snapshot"), "-71");
}

TEST(a_snapshot_that_nobody_waits_for_any_more_takes_no_place)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_snapshot s;
        struct farhand_error error;
        eq_int(farhand_snapshot(f, "p", 4, 0, &s, &error), -ETIMEDOUT);
        eq_u64(f->call_count, 0);
        eq_int(farhand_snapshot(f, "p", 0, 0, &s, &error), -EINVAL);
        eq_int(farhand_snapshot(f, "p", SIZE_MAX, 0, &s, &error), -EINVAL);
        farhand_free(f);
        fd_close(server);
}

/* ---- the environment ---- */

static void on_environment(UNUSED struct farhand *f, UNUSED void *arg, struct farhand_environment *e,
                           const struct farhand_error *error)
{
        if (error)
                (void)snprintf(shown, sizeof(shown), "%d", error->code);
        else
                (void)snprintf(shown, sizeof(shown), "%s %s %s %s %s", e->shell_name ? e->shell_name : "-",
                               e->shell_path ? e->shell_path : "-", e->cwd ? e->cwd : "-",
                               e->sandbox_backend ? e->sandbox_backend : "-", e->json);
        farhand_environment_free(e);
}

static void on_status(UNUSED struct farhand *f, UNUSED void *arg, const char *status,
                      const struct farhand_error *error)
{
        (void)snprintf(shown, sizeof(shown), "%s %d", status ? status : "-", error ? error->code : 0);
}

TEST(an_environment_is_read_as_far_as_it_is_told)
{
        int server;
        struct farhand *f = played_client(&server);
        eq_int(farhand_environment_info_begin(f, on_environment, NULL, NULL), 0);
        eq_str(played_sent(f, server), "{\"id\":1,\"method\":\"environment/info\",\"params\":null}\n");
        played_say(f, server,
                   "{\"id\":1,\"result\":{\"shell\":{\"name\":\"sh\",\"path\":\"/bin/sh\"},\"cwd\":\"file:///"
                   "a%20b\","
                   "\"sandboxBackend\":7}}\n");
        eq_str(shown, "sh /bin/sh /a b - "
                      "{\"shell\":{\"name\":\"sh\",\"path\":\"/bin/sh\"},\"cwd\":\"file:///a%20b\","
                      "\"sandboxBackend\":7}");
        eq_int(farhand_environment_info_begin(f, on_environment, NULL, NULL), 0);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":2,\"result\":{}}\n");
        eq_str(shown, "- - - - {}");
        eq_int(farhand_environment_info_begin(f, on_environment, NULL, NULL), 0);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":3,\"result\":\"x\"}\n");
        eq_str(shown, "-71");
        eq_int(farhand_environment_status_begin(f, on_status, NULL, NULL), 0);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":4,\"result\":{\"status\":\"ready\"}}\n");
        eq_str(shown, "ready 0");
        eq_int(farhand_environment_status_begin(f, on_status, NULL, NULL), 0);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":5,\"result\":{\"status\":7}}\n");
        eq_str(shown, "- -71");
        farhand_free(f);
        fd_close(server);
}
