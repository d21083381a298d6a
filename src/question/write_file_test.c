/* write_file_test: what farhand_write_file_with and farhand_stat_with send, refuse and read. */
#include "client/client_rig.h"

#include <errno.h>

#define ASKED(more)                                                             \
        "{\"id\":1,\"method\":\"fs/writeFile\",\"params\":{\"path\":\"file:///" \
        "a\",\"dataBase64\":\"eA==\"" more "}}\n"
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(the_options_of_a_write_are_sent)
{
        static const struct {
                struct farhand_write options;
                const char *want;
        } rows[] = {
                { { .mode = -1 }, ASKED("") },
                { { .mode = 0600 }, ASKED(",\"mode\":384") },
                { { .mode = -1, .with_parents = true, .in_place = true, .no_links = true },
                  ASKED(",\"createParents\":true,\"atomic\":false,\"followSymlinks\":false") },
                { { .mode = -1, .if_absent = true }, ASKED(",\"ifMatch\":{\"absent\":true}") },
                { { .mode = -1, .if_digest = "sha256:" HEX },
                  ASKED(",\"ifMatch\":{\"digest\":\"sha256:" HEX "\"}") },
                { { .mode = -1, .if_unchanged = true, .if_size = 7, .if_modified_ms = -3 },
                  ASKED(",\"ifMatch\":{\"size\":7,\"modifiedAtMs\":-3}") },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int server;
                struct farhand *f = played_client(&server);
                struct farhand_write options = rows[i].options;
                options.size = sizeof(options);
                played_queue(server, "{\"id\":1,\"result\":{}}\n");
                eq_int(farhand_write_file_with(f, "/a", "x", 1, &options, NULL), 0);
                eq_str(played_sent(f, server), rows[i].want);
                farhand_free(f);
                fd_close(server);
        }
}

TEST(a_write_of_an_older_program_and_one_without_options_are_plain)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_write options = FARHAND_WRITE_INIT;
        options.size = offsetof(struct farhand_write, if_absent);
        options.if_absent = options.with_parents =
                true; /* these members lie behind `size`, so they are not read */
        played_queue(server, "{\"id\":1,\"result\":{}}\n");
        eq_int(farhand_write_file_with(f, "/a", "x", 1, &options, NULL), 0);
        eq_str(played_sent(f, server), ASKED(""));
        played_queue(server, "{\"id\":2,\"result\":{}}\n");
        eq_int(farhand_write_file_with(f, "/a", "", 0, NULL, NULL), 0);
        ok(strstr(played_sent(f, server), "\"dataBase64\":\"\"}}\n") != NULL);
        farhand_free(f);
        fd_close(server);
}

TEST(what_cannot_be_done_is_refused_before_anything_is_sent)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        struct farhand_write options = FARHAND_WRITE_INIT;
        struct farhand_metadata metadata;
        options.size = 0;
        eq_int(farhand_write_file_with(f, "/a", "x", 1, &options, &error), -EINVAL);
        options = (struct farhand_write)FARHAND_WRITE_INIT;
        eq_int(farhand_write_file_with(f, "a", "x", 1, &options, &error), -EINVAL);
        eq_int(farhand_write_file_with(f, "/a", "x", WHOLE_FILE_MAX + 1, &options, &error), -EFBIG);
        options.if_absent = options.if_unchanged = true;
        eq_int(farhand_write_file_with(f, "/a", "x", 1, &options, &error), -EINVAL);
        eq_int(farhand_stat_with(f, "/a", 4, &metadata, &error), -EINVAL);
        eq_str(played_sent(f, server), "");
        played_cut(f, &server);
        played_resume(f, server); /* as a server without fsControlV1, which would ignore all of these */
        options.if_unchanged = false;
        eq_int(farhand_write_file_with(f, "/a", "x", 1, &options, &error), -EOPNOTSUPP);
        options.if_absent = false;
        options.with_parents = true;
        eq_int(farhand_write_file_with(f, "/a", "x", 1, &options, &error), -EOPNOTSUPP);
        eq_int(farhand_stat_with(f, "/a", FARHAND_STAT_DIGEST, &metadata, &error), -EOPNOTSUPP);
        ok(!strstr(played_sent(f, server), "\"fs/"));
        farhand_free(f);
        fd_close(server);
}

TEST(a_conflict_has_its_own_code_and_tells_what_is_there)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        struct farhand_write options = FARHAND_WRITE_INIT;
        options.if_absent = true;
        played_queue(server, "{\"error\":{\"code\":-32020,\"message\":\"conflict\",\"data\":{\"current\":"
                             "{\"size\":7}}},\"id\":1}\n");
        eq_int(farhand_write_file_with(f, "/a", "x", 1, &options, &error), -EREMOTEIO);
        eq_int(error.rpc_code, FARHAND_CONFLICT);
        eq_str(error.data, "{\"current\":{\"size\":7}}");
        farhand_free(f);
        fd_close(server);
}

TEST(a_stat_reads_the_digest_and_refuses_links)
{
        static const struct {
                const char *said, *want;
                int result;
        } rows[] = {
                { "{\"isFile\":true,\"digest\":\"sha256:" HEX "\"}", "sha256:" HEX, 0 },
                { "{\"isFile\":true}", "", 0 },
                { "{\"isFile\":true,\"digest\":\"sha256:" HEX "0\"}", "", 0 },
                { "{\"isFile\":true,\"digest\":\"sha256:\"}", "", 0 },
                { "{\"isFile\":true,\"digest\":7}", "", 0 },
                { "{\"isFile\":true,\"isSymlink\":true}", NULL, -ELOOP },
                { "\"text\"", NULL, -EPROTO },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int server;
                struct farhand *f = played_client(&server);
                struct farhand_metadata metadata;
                char answer[256];
                (void)snprintf(answer, sizeof(answer), "{\"id\":1,\"result\":%s}\n", rows[i].said);
                played_queue(server, answer);
                int r = farhand_stat_with(f, "/a", FARHAND_STAT_DIGEST | FARHAND_STAT_NO_LINKS, &metadata,
                                          NULL);
                eq_int(r, rows[i].result);
                if (r == 0)
                        eq_str(metadata.digest, rows[i].want);
                eq_str(played_sent(f, server),
                       "{\"id\":1,\"method\":\"fs/getMetadata\",\"params\":{\"path\":\"file:///a\","
                       "\"digest\":true,\"followSymlinks\":false}}\n");
                farhand_free(f);
                fd_close(server);
        }
}
