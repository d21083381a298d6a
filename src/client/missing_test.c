/* missing_test: what a wait for missing paths tells the program: good and bad answers, a lost connection, and how often. */
#include "client/client_rig.h"

#include <errno.h>

static char log_text[256];

static void note(const char *text, int number)
{
        size_t n = strlen(log_text);
        (void)snprintf(log_text + n, sizeof(log_text) - n, "%s %d;", text, number);
}

static void on_started(UNUSED struct farhand_missing *m, UNUSED void *arg, bool is_watching)
{
        note("started", is_watching);
}

static void on_changed(struct farhand_missing *m, void *arg)
{
        note("changed", 0);
        if (arg)
                farhand_missing_free(m);
}

static void on_failed(UNUSED struct farhand_missing *m, UNUSED void *arg, const struct farhand_error *error)
{
        note("failed", error->code);
}

static const struct farhand_missing_events events = { on_started, on_changed, on_failed };
static const char *const paths[] = { "/a", "/b", NULL };

#define HELLO "{\"environmentInfo\":{\"capabilities\":{\"fsWatchMissing\":true}}}"
#define CHANGED(id) "{\"method\":\"fs/missingChanged\",\"params\":{\"watchId\":" id "}}\n"

static struct farhand *client(int *server)
{
        struct farhand *f = played_client(server);
        free(f->info);
        f->info = strdup(HELLO);
        log_text[0] = '\0';
        return f;
}

TEST(a_change_is_told_once)
{
        int server;
        struct farhand *f = client(&server);
        ok(farhand_missing_start(f, paths, "/c", &events, NULL, NULL) != NULL);
        eq_str(played_sent(f, server), "{\"id\":1,\"method\":\"fs/"
                                       "watchMissing\",\"params\":{\"watchId\":1,\"missing\":[\"file:///a\","
                                       "\"file:///b\"],\"present\":\"file:///c\"}}\n");
        played_say(f, server, "{\"id\":1,\"result\":{\"watching\":true}}\n");
        played_say(f, server, CHANGED("2") CHANGED("\"1\"") "{\"method\":\"fs/missingChanged\"}\n");
        eq_str(log_text, "started 1;");
        played_say(f, server, CHANGED("1") CHANGED("1"));
        eq_str(log_text, "started 1;changed 0;");
        farhand_free(f);
        fd_close(server);
}

TEST(one_that_is_freed_in_its_callback_makes_room_for_the_next)
{
        int server;
        struct farhand_error error;
        struct farhand *f = client(&server);
        ok(farhand_missing_start(f, paths, NULL, &events, &server, NULL) != NULL);
        ok(!farhand_missing_start(f, paths, NULL, &events, NULL, &error) && error.code == -EBUSY);
        played_say(f, server, "{\"id\":1,\"result\":{\"watching\":true}}\n" CHANGED("1") CHANGED("1"));
        eq_str(log_text, "started 1;changed 0;");
        struct farhand_missing *m = farhand_missing_start(f, paths, NULL, &events, NULL, NULL);
        farhand_missing_free(m); /* the answer to its request finds no object any more */
        played_say(f, server, "{\"id\":2,\"result\":{\"watching\":true}}\n" CHANGED("2"));
        eq_str(log_text, "started 1;changed 0;");
        farhand_free(f);
        fd_close(server);
}

TEST(what_the_server_does_not_do_is_told_and_nothing_follows)
{
        static const struct {
                const char *answer, *want;
        } rows[] = {
                { "{\"id\":1,\"result\":{\"watching\":false}}\n", "started 0;" },
                { "{\"id\":1,\"result\":7}\n", "started 0;" },
                { "{\"id\":1,\"error\":{\"code\":-32600,\"message\":\"no\"}}\n", "failed -121;" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int server;
                struct farhand *f = client(&server);
                ok(farhand_missing_start(f, paths, NULL, &events, NULL, NULL) != NULL);
                played_say(f, server, rows[i].answer);
                played_say(f, server, CHANGED("1"));
                eq_str(log_text, rows[i].want);
                farhand_free(f);
                fd_close(server);
        }
}

TEST(a_lost_connection_counts_as_a_change)
{
        for (int is_answered = 0; is_answered < 2; is_answered++) {
                int server;
                struct farhand *f = client(&server);
                ok(farhand_missing_start(f, paths, NULL, &events, NULL, NULL) != NULL);
                if (is_answered)
                        played_say(f, server, "{\"id\":1,\"result\":{\"watching\":true}}\n");
                played_cut(f, &server);
                eq_str(log_text, is_answered ? "started 1;" : "");
                played_resume(f, server);
                eq_str(log_text, is_answered ? "started 1;changed 0;" : "changed 0;");
                farhand_free(f);
                fd_close(server);
        }
}

TEST(what_cannot_be_waited_for_is_not_asked)
{
        static const char *const none[] = { NULL }, *const relative[] = { "/a", "b", NULL };
        int server;
        struct farhand_error error;
        struct farhand *f = client(&server);
        ok(!farhand_missing_start(f, none, NULL, &events, NULL, &error) && error.code == -EINVAL);
        ok(!farhand_missing_start(f, relative, NULL, &events, NULL, &error) && error.code == -EINVAL);
        ok(!farhand_missing_start(f, paths, "c", &events, NULL, &error) && error.code == -EINVAL);
        played_lose_capabilities(f, true);
        ok(!farhand_missing_start(f, paths, NULL, &events, NULL, &error) && error.code == -EOPNOTSUPP);
        farhand_missing_free(NULL);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}
