/* file_sandbox_test: which requests carry the sandbox of a client, and for how long. */
#include "client/client_rig.h"

#include "base/mem.h"

#include <errno.h>

#define BOX ",\"sandbox\":{\"a\": 1}"
#define SANDBOX "{\"a\": 1}"

TEST(only_one_json_object_is_a_sandbox)
{
        static const char *const bad[] = {
                "", "1", "null", "[]", "\"{}\"", "{", "{}{}", "{\"a\":1,\"a\":2}", "{\"\xff\":1}"
        };
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        eq_int(farhand_use_sandbox(f, SANDBOX, &error), 0);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                eq_int(farhand_use_sandbox(f, bad[i], &error), -EINVAL);
                eq_int(error.code, -EINVAL);
                eq_str(f->sandbox, SANDBOX);
        }
        char *large = mem_alloc(SANDBOX_MAX + 2);
        memset(large, ' ', SANDBOX_MAX + 1);
        memcpy(large, "{}", 2);
        large[SANDBOX_MAX + 1] = '\0';
        eq_int(farhand_use_sandbox(f, large, &error), -E2BIG);
        large[SANDBOX_MAX] = '\0';
        eq_int(farhand_use_sandbox(f, large, &error), 0);
        free(large);
        eq_int(farhand_use_sandbox(f, NULL, NULL), 0);
        ok(!f->sandbox);
        farhand_free(f);
        fd_close(server);
}

/* Calls each blocking function. Each gets an error as its answer, because the test looks only at what the functions send. */
TEST(every_function_on_files_carries_the_sandbox)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_metadata metadata;
        struct farhand_walk walk = FARHAND_WALK_INIT;
        char *text = NULL;
        for (int i = 1; i <= 24; i++) {
                char answer[128];
                bool has_sandbox = i <= 12;
                eq_int(farhand_use_sandbox(f, has_sandbox ? SANDBOX : NULL, NULL), 0);
                (void)snprintf(answer, sizeof(answer),
                               "{\"error\":{\"code\":-1,\"message\":\"no\"},\"id\":%d}\n", i);
                played_queue(server, answer);
                int r = 0;
                switch ((i - 1) % 12) {
                case 0:
                        r = farhand_stat(f, "/a", &metadata, NULL);
                        break;
                case 1:
                        r = farhand_list(f, "/a", NULL, NULL, NULL);
                        break;
                case 2:
                        r = farhand_walk(f, "/a", &walk, NULL);
                        break;
                case 3:
                        r = farhand_read_link(f, "/a", &text, NULL);
                        break;
                case 4:
                        r = farhand_canonicalize(f, "/a", &text, NULL);
                        break;
                case 5:
                        r = farhand_make_directory(f, "/a", true, NULL);
                        break;
                case 6:
                        r = farhand_remove(f, "/a", true, true, NULL);
                        break;
                case 7:
                        r = farhand_rename(f, "/a", "/b", NULL);
                        break;
                case 8:
                        r = farhand_copy(f, "/a", "/b", true, NULL);
                        break;
                case 9:
                        r = farhand_symlink(f, "/a", "/b", NULL);
                        break;
                case 10:
                        r = farhand_set_metadata(f, "/a", 0644, -1, NULL);
                        break;
                default:
                        r = farhand_write_file(f, "/a", "x", 1, -1, NULL);
                        break;
                }
                eq_int(r, -EREMOTEIO);
                const char *sent = played_sent(f, server);
                ok(strstr(sent, "\"method\":\"fs/") != NULL);
                eq_int(strstr(sent, BOX "}}\n") != NULL, has_sandbox);
        }
        farhand_free(f);
        fd_close(server);
}

static void ignore_stat(UNUSED struct farhand *f, UNUSED void *arg,
                        UNUSED const struct farhand_metadata *metadata,
                        UNUSED const struct farhand_error *error)
{
}

TEST(a_stat_that_does_not_wait_carries_it_and_a_call_does_not)
{
        int server;
        struct farhand *f = played_client(&server);
        eq_int(farhand_use_sandbox(f, SANDBOX, NULL), 0);
        eq_int(farhand_stat_begin(f, "/a", ignore_stat, NULL, NULL), 0);
        eq_str(played_sent(f, server),
               "{\"id\":1,\"method\":\"fs/getMetadata\",\"params\":{\"path\":\"file:///"
               "a\"" BOX "}}\n");
        eq_int(farhand_call(f, "fs/remove", "{\"path\":\"/a\"}", 0, NULL, NULL, NULL), 0);
        eq_str(played_sent(f, server), "{\"id\":2,\"method\":\"fs/remove\",\"params\":{\"path\":\"/a\"}}\n");
        farhand_free(f);
        fd_close(server);
}

TEST(a_line_end_in_the_sandbox_does_not_end_the_message)
{
        int server;
        struct farhand *f = played_client(&server);
        eq_int(farhand_use_sandbox(f, "{\n\"a\":\n1}\n", NULL), 0);
        eq_int(farhand_stat_begin(f, "/a", ignore_stat, NULL, NULL), 0);
        const char *sent = played_sent(f, server);
        ok(strchr(sent, '\n') == sent + strlen(sent) - 1);
        ok(strstr(sent, "\"sandbox\":{ \"a\": 1} }}\n") != NULL);
        farhand_free(f);
        fd_close(server);
}

TEST(a_stream_keeps_the_sandbox_with_which_it_was_begun)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        eq_int(farhand_use_sandbox(f, SANDBOX, NULL), 0);
        struct farhand_file *file = farhand_file_open(f, "/a", &options, NULL);
        eq_int(farhand_use_sandbox(f, "{\"b\":2}", NULL), 0);
        eq_str(played_sent(f, server),
               "{\"id\":1,\"method\":\"fs/open\",\"params\":{\"handleId\":\"f1\",\"path\":\"file:///a\"" BOX
               "}}\n"
               "{\"id\":2,\"method\":\"fs/getMetadata\",\"params\":{\"path\":\"file:///a\"" BOX "}}\n"
               "{\"id\":3,\"method\":\"fs/readBlock\",\"params\":{\"handleId\":\"f1\",\"offset\":0,\"len\":"
               "262144}}\n");
        played_say(f, server,
                   "{\"id\":1,\"result\":{}}\n{\"id\":2,\"result\":{\"size\":7,\"modifiedAtMs\":5}}\n");
        played_cut(f, &server);
        played_resume(f, server);
        const char *sent = played_sent(f, server);
        ok(strstr(sent, "\"fs/getMetadata\",\"params\":{\"path\":\"file:///a\"" BOX "}}\n") != NULL);
        played_say(f, server, "{\"id\":4,\"result\":{\"size\":7,\"modifiedAtMs\":5}}\n");
        sent = played_sent(f, server);
        ok(strstr(sent, "\"fs/open\",\"params\":{\"handleId\":\"f2\",\"path\":\"file:///a\"" BOX "}}\n") !=
           NULL);
        farhand_file_free(file);
        farhand_free(f);
        fd_close(server);
}

TEST(a_resumed_connection_keeps_the_sandbox_of_the_client)
{
        int server;
        struct farhand *f = played_client(&server);
        eq_int(farhand_use_sandbox(f, SANDBOX, NULL), 0);
        played_cut(f, &server);
        played_resume(f, server);
        (void)played_sent(f, server);
        eq_int(farhand_stat_begin(f, "/a", ignore_stat, NULL, NULL), 0);
        ok(strstr(played_sent(f, server), "\"path\":\"file:///a\"" BOX "}}\n") != NULL);
        farhand_free(f);
        fd_close(server);
}

TEST(a_stream_that_becomes_one_request_keeps_its_sandbox)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        eq_int(farhand_use_sandbox(f, SANDBOX, NULL), 0);
        struct farhand_file *file = farhand_file_open(f, "/a", &options, NULL);
        eq_int(farhand_use_sandbox(f, NULL, NULL), 0);
        (void)played_sent(f, server);
        played_say(f, server, "{\"error\":{\"code\":-32601,\"message\":\"no\"},\"id\":1}\n");
        ok(strstr(played_sent(f, server), "\"fs/readFile\",\"params\":{\"path\":\"file:///a\"" BOX "}}\n") !=
           NULL);
        farhand_file_free(file);
        farhand_free(f);
        fd_close(server);
}

TEST(a_written_stream_keeps_its_sandbox_too)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        options.mode = FARHAND_FILE_REPLACE;
        eq_int(farhand_use_sandbox(f, SANDBOX, NULL), 0);
        struct farhand_file *file = farhand_file_open(f, "/a", &options, NULL);
        eq_int(farhand_use_sandbox(f, NULL, NULL), 0);
        ok(strstr(played_sent(f, server), "\"mode\":\"replace\"" BOX "}}\n") != NULL);
        farhand_file_free(file);
        farhand_free(f);
        fd_close(server);
}

TEST(a_watch_that_is_made_again_keeps_its_sandbox)
{
        int server;
        struct farhand *f = played_client(&server);
        eq_int(farhand_use_sandbox(f, SANDBOX, NULL), 0);
        struct farhand_watch *w = farhand_watch_start(f, "/a", false, NULL, NULL, NULL);
        eq_int(farhand_use_sandbox(f, NULL, NULL), 0);
        ok(strstr(played_sent(f, server), "\"recursive\":false" BOX "}}\n") != NULL);
        played_say(f, server, "{\"id\":1,\"result\":{}}\n");
        played_cut(f, &server);
        played_resume(f, server);
        ok(strstr(played_sent(f, server), "\"recursive\":false" BOX "}}\n") != NULL);
        farhand_watch_free(w);
        farhand_free(f);
        fd_close(server);
}
