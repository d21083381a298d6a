/* watch_test: what a watch tells the program when the server sends good and bad messages, and after a lost connection. */
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

static void on_started(UNUSED struct farhand_watch *w, UNUSED void *arg)
{
        note("started;");
}

static void on_change(struct farhand_watch *w, void *arg, enum farhand_change kind, const char *path,
                      const char *from)
{
        note("%d %s %s;", kind, path, from ? from : "-");
        if (arg)
                farhand_watch_free(w);
}

static void on_overflow(UNUSED struct farhand_watch *w, UNUSED void *arg)
{
        note("overflow;");
}

static void on_failed(UNUSED struct farhand_watch *w, UNUSED void *arg, const struct farhand_error *error)
{
        note("failed %d;", error->code);
}

static const struct farhand_watch_events events = { on_started, on_change, on_overflow, on_failed };

#define CHANGED(events) \
        "{\"method\":\"fs/changed\",\"params\":{\"watchId\":\"farhand-watch-1\"," events "}}\n"
#define ASKED(id, number)                                                                          \
        "{\"id\":" #id ",\"method\":\"fs/watch\",\"params\":{\"watchId\":\"farhand-watch-" #number \
        "\",\"path\":\"file:///d\",\"recursive\":true}}\n"

TEST(changes_are_told_and_what_is_not_understood_is_an_overflow)
{
        static const struct {
                const char *said, *want;
        } rows[] = {
                { CHANGED("\"events\":[{\"path\":\"file:///d/a%20b\",\"kind\":\"created\"},"
                          "{\"path\":\"file:///d/c\",\"kind\":\"renamed\",\"fromPath\":\"file:///d/"
                          "b\"}],\"overflow\":false"),
                  "0 /d/a b -;3 /d/c /d/b;" },
                { CHANGED("\"events\":[{\"path\":\"/d\",\"kind\":\"removed\"}],\"overflow\":true"),
                  "2 /d -;overflow;" },
                { CHANGED("\"events\":[]"), "" },
                { CHANGED("\"overflow\":false"), "overflow;" },
                { CHANGED("\"events\":7"), "overflow;" },
                { CHANGED("\"events\":[7,null,{},{\"kind\":\"created\"},{\"path\":\"/"
                          "d\",\"kind\":\"exploded\"},"
                          "{\"path\":\"d\",\"kind\":\"created\"},{\"path\":\"/"
                          "\\u0000\",\"kind\":\"created\"},"
                          "{\"path\":\"/d/x\",\"kind\":\"renamed\"},{\"path\":\"/d/"
                          "y\",\"kind\":\"modified\"}]"),
                  "1 /d/y -;overflow;" },
                { "{\"method\":\"fs/changed\",\"params\":{\"watchId\":\"farhand-watch-2\",\"events\":7}}\n"
                  "{\"method\":\"fs/changed\",\"params\":{\"watchId\":7}}\n{\"method\":\"fs/changed\"}\n",
                  "" },
        };
        int server;
        struct farhand *f = played_client(&server);
        log_text[0] = '\0';
        ok(farhand_watch_start(f, "/d", true, &events, NULL, NULL) != NULL);
        eq_str(played_sent(f, server), ASKED(1, 1));
        played_say(f, server, "{\"id\":1,\"result\":{}}\n");
        eq_str(log_text, "started;");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                log_text[0] = '\0';
                played_say(f, server, rows[i].said);
                eq_str(log_text, rows[i].want);
        }
        farhand_free(f);
        fd_close(server);
}

TEST(a_watch_that_cannot_be_made_fails_once)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        log_text[0] = '\0';
        ok(!farhand_watch_start(f, "d", true, &events, NULL, &error));
        eq_int(error.code, -EINVAL);
        struct farhand_watch *w = farhand_watch_start(f, "/d", true, &events, NULL, NULL);
        (void)played_sent(f, server);
        played_say(f, server,
                   "{\"error\":{\"code\":-32004,\"message\":\"no\"},\"id\":1}\n" CHANGED("\"events\":7"));
        eq_str(log_text, "failed -121;");
        farhand_watch_free(w); /* fs/unwatch is not sent, because there is no watch */
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
        eq_str(log_text, "failed -121;");
}

TEST(a_lost_watch_is_made_again_and_told_as_an_overflow)
{
        int server;
        struct farhand *f = played_client(&server);
        log_text[0] = '\0';
        ok(farhand_watch_start(f, "/d", true, &events, NULL, NULL) != NULL);
        (void)played_sent(f, server);
        played_cut(f, &server); /* the connection is lost before the answer, so no overflow is told */
        played_resume(f, server);
        ok(strstr(played_sent(f, server), ASKED(2, 2)) != NULL);
        played_say(f, server, "{\"id\":2,\"result\":{}}\n");
        eq_str(log_text, "started;");
        played_cut(f, &server);
        eq_str(log_text, "started;");
        played_resume(f, server);
        ok(strstr(played_sent(f, server), ASKED(3, 3)) != NULL);
        played_say(f, server, "{\"id\":3,\"result\":{}}\n");
        eq_str(log_text, "started;overflow;");
        played_cut(f, &server);
        played_resume(f, server);
        (void)played_sent(f, server);
        played_say(f, server, "{\"error\":{\"code\":-32004,\"message\":\"gone\"},\"id\":4}\n");
        eq_str(log_text, "started;overflow;failed -121;");
        played_cut(f, &server);
        played_resume(f, server);
        ok(!strstr(played_sent(f, server), "fs/watch"));
        farhand_free(f);
        fd_close(server);
}

TEST(a_watch_ends_at_the_server_too)
{
        int server;
        struct farhand *f = played_client(&server);
        log_text[0] = '\0';
        ok(farhand_watch_start(f, "/d", true, &events, &server, NULL) !=
           NULL); /* the callback frees the watch at its first change */
        (void)played_sent(f, server);
        played_say(f, server,
                   "{\"id\":1,\"result\":{}}\n" CHANGED(
                           "\"events\":[{\"path\":\"/d/x\",\"kind\":\"created\"},"
                           "{\"path\":\"/d/y\",\"kind\":\"created\"}],\"overflow\":true")
                           CHANGED("\"events\":7"));
        eq_str(log_text, "started;0 /d/x -;");
        eq_str(played_sent(f, server),
               "{\"id\":2,\"method\":\"fs/unwatch\",\"params\":{\"watchId\":\"farhand-watch-1\"}}\n");
        ok(list_is_empty(&f->watches));
        /* A watch that is made and freed while there is no connection is made and ended later in this order. */
        played_cut(f, &server);
        farhand_watch_free(farhand_watch_start(f, "/d", true, &events, NULL, NULL));
        played_resume(f, server);
        const char *sent = played_sent(f, server), *watch = strstr(sent, "fs/watch"),
                   *unwatch = strstr(sent, "fs/unwatch");
        ok(watch && unwatch && watch < unwatch);
        played_say(f, server, "{\"id\":3,\"result\":{}}\n{\"id\":4,\"result\":{}}\n");
        eq_str(log_text, "started;0 /d/x -;");
        farhand_free(f);
        fd_close(server);
}

TEST(a_client_that_fails_fails_its_watches)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error = { .code = -EPIPE };
        log_text[0] = '\0';
        ok(farhand_watch_start(f, "/d", true, &events, NULL, NULL) != NULL);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":1,\"result\":{}}\n");
        ok(farhand_watch_start(f, "/d", true, &events, NULL, NULL) != NULL); /* this watch gets no answer */
        f->depth++;
        client_fail(f, &error);
        f->depth--;
        eq_str(log_text, "started;failed -32;failed -32;");
        farhand_free(f);
        fd_close(server);
}
