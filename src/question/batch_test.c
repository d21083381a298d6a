/* batch_test: many files with few requests: what is sent, what is told, and what a server cannot make the client do. */
#include "client/client_rig.h"

#include "base/mem.h"

#include <errno.h>

static char told[1024];

static void note_entry(UNUSED void *arg, const struct farhand_scanned *e)
{
        size_t at = strlen(told);
        (void)snprintf(told + at, sizeof(told) - at, "%s %d %d %o %d %s;", e->name, e->kind, (int)e->size,
                       e->mode, (int)e->modified_ms, e->target ? e->target : "-");
}

#define SCAN(id, more) \
        "{\"id\":" #id ",\"method\":\"fs/scanDirectory\",\"params\":{\"path\":\"file:///d\"" more "}}\n"

TEST(a_directory_is_scanned_to_its_end)
{
        int server;
        struct farhand *f = played_client(&server);
        told[0] = '\0';
        struct played_script script = {
                .server = server,
                .answers = { "{\"id\":1,\"result\":{\"entries\":[{\"name\":\"a\",\"kind\":\"file\",\"size\":"
                             "6,"
                             "\"mode\":420,"
                             "\"modifiedAtMs\":5},{\"name\":\"b\",\"kind\":\"link\",\"size\":1,\"mode\":511,"
                             "\"modifiedAtMs\":5,\"targetBase64\":\"/w==\"}],\"truncated\":true}}\n",
                             "{\"id\":2,\"result\":{\"entries\":[{\"nameBase64\":\"/"
                             "w==\",\"kind\":\"other\"}],"
                             "\"truncated\":true}}\n",
                             "{\"id\":3,\"result\":{\"entries\":[],\"truncated\":false}}\n" }
        };
        played_script_begin(&script);
        eq_int(farhand_scan(f, "/d", note_entry, NULL, NULL), 0);
        played_script_end(&script);
        eq_str(script.sent, SCAN(1, "") SCAN(2, ",\"after\":\"b\"") SCAN(3, ",\"afterBase64\":\"/w==\""));
        eq_str(told, "a 0 6 644 5 -;b 2 1 777 5 \xff;\xff 3 0 0 0 -;");
        eq_int(farhand_scan(f, "d", note_entry, NULL, NULL), -EINVAL);
        played_lose_capabilities(f, true);
        eq_int(farhand_scan(f, "/d", note_entry, NULL, NULL), -EOPNOTSUPP);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

TEST(a_scan_whose_names_cannot_be_ends)
{
        static const char *const rows[] = {
                "{\"entries\":[],\"truncated\":true}",
                "{\"entries\":[{\"name\":\"a\",\"kind\":\"file\"},{\"name\":\"a\",\"kind\":\"file\"}]}",
                "{\"entries\":[{\"name\":\"b\",\"kind\":\"file\"},{\"name\":\"a\",\"kind\":\"file\"}]}",
                "{\"entries\":[{\"name\":\"..\",\"kind\":\"file\"}]}",
                "{\"entries\":[{\"name\":\"a/b\",\"kind\":\"file\"}]}",
                "{\"entries\":[{\"name\":\"a\",\"kind\":\"odd\"}]}",
                "{\"entries\":[{\"nameBase64\":\"=\",\"kind\":\"file\"}]}",
                "{\"entries\":[7]}",
                "{\"truncated\":false}",
        };
        int server;
        struct farhand *f = played_client(&server);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char answer[256];
                (void)snprintf(answer, sizeof(answer), "{\"id\":%zu,\"result\":%s}\n", i + 1, rows[i]);
                played_queue(server, answer);
                eq_int(farhand_scan(f, "/d", note_entry, NULL, NULL), -EPROTO);
        }
        /* A name of 256 bytes. */
        _buf_ struct buf answer = BUF_INIT(4096);
        ok(buf_printf(&answer,
                      "{\"id\":%zu,\"result\":{\"entries\":[{\"kind\":\"file\",\"name\":\"%0256d\"}]}}\n",
                      ARRAY_LEN(rows) + 1, 0) == 0);
        played_queue(server, answer.p);
        eq_int(farhand_scan(f, "/d", note_entry, NULL, NULL), -EPROTO);
        farhand_free(f);
        fd_close(server);
}

static void note_file(UNUSED void *arg, size_t index, const struct farhand_read *file)
{
        size_t at = strlen(told);
        if (file->error)
                (void)snprintf(told + at, sizeof(told) - at, "%zu error %d %d %.20s;", index,
                               file->error->code, farhand_error_errno(file->error), file->error->text);
        else
                (void)snprintf(told + at, sizeof(told) - at, "%zu %.*s %o %d;", index, (int)file->n,
                               (const char *)file->bytes, file->mode, (int)file->modified_ms);
}

TEST(files_are_read_until_all_are_told)
{
        static const char *const names[] = { "a", "b", "c" };
        int server;
        struct farhand *f = played_client(&server);
        told[0] = '\0';
        struct played_script script = {
                .server = server,
                .answers = { "{\"id\":1,\"result\":{\"files\":[{\"dataBase64\":\"eA==\",\"size\":1,\"mode\":"
                             "420,"
                             "\"modifiedAtMs\":5}]}}\n",
                             "{\"id\":2,\"result\":{\"files\":[{\"error\":{\"message\":\"no\",\"errno\":2}},"
                             "{\"dataBase64\":\"\"}]}}\n" }
        };
        played_script_begin(&script);
        eq_int(farhand_read_files(f, "/d", names, 3, note_file, NULL, NULL), 0);
        played_script_end(&script);
        eq_str(script.sent, "{\"id\":1,\"method\":\"fs/readFiles\",\"params\":{\"path\":\"file:///"
                            "d\",\"names\":[\"a\",\"b\",\"c\"]}}\n"
                            "{\"id\":2,\"method\":\"fs/readFiles\",\"params\":{\"path\":\"file:///"
                            "d\",\"names\":[\"b\",\"c\"]}}\n");
        eq_str(told, "0 x 644 5;1 error -121 2 no;2  0 0;");
        farhand_free(f);
        fd_close(server);
}

TEST(answers_about_files_that_cannot_be)
{
        static const char *const names[] = { "a" }, *const rows[] = {
                "{\"files\":[]}",   "{\"files\":[{\"dataBase64\":\"\"},{\"dataBase64\":\"\"}]}",
                "{\"files\":[{}]}", "{\"files\":[{\"dataBase64\":\"=\"}]}",
                "{\"files\":7}",
        };
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_new_file file = FARHAND_NEW_FILE_INIT;
        told[0] = '\0';
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char answer[256];
                (void)snprintf(answer, sizeof(answer), "{\"id\":%zu,\"result\":%s}\n", i + 1, rows[i]);
                played_queue(server, answer);
                eq_int(farhand_read_files(f, "/d", names, 1, note_file, NULL, NULL), -EPROTO);
        }
        eq_str(told, "");
        file.name = "a";
        file.bytes = "";
        played_queue(server, "{\"id\":6,\"result\":{\"files\":[{},{}]}}\n");
        eq_int(farhand_write_files(f, "/d", &file, 1, NULL, NULL, NULL), -EPROTO);
        farhand_free(f);
        fd_close(server);
}

static void note_failed(UNUSED void *arg, size_t index, const struct farhand_error *error)
{
        size_t at = strlen(told);
        (void)snprintf(told + at, sizeof(told) - at, "%zu %d;", index, farhand_error_errno(error));
}

TEST(files_are_written_and_each_fails_for_itself)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_new_file files[2] = { FARHAND_NEW_FILE_INIT, FARHAND_NEW_FILE_INIT };
        files[0].name = "a";
        files[0].bytes = "x";
        files[0].n = 1;
        files[0].mode = 0600;
        files[0].modified_ms = 5;
        files[1].name = "b";
        files[1].bytes = "";
        told[0] = '\0';
        struct played_script script = { .server = server,
                                        .answers = { "{\"id\":1,\"result\":{\"files\":[{},{\"error\":{"
                                                     "\"message\":\"no\",\"errno\":28}}]}}\n",
                                                     "{\"id\":2,\"result\":{\"files\":[{}]}}\n" } };
        played_script_begin(&script);
        eq_int(farhand_write_files(f, "/d", files, 2, note_failed, NULL, NULL), 1);
        eq_int(farhand_write_files(f, "/d", files + 1, 1, NULL, NULL, NULL), 0);
        played_script_end(&script);
        eq_str(script.sent,
               "{\"id\":1,\"method\":\"fs/writeFiles\",\"params\":{\"path\":\"file:///"
               "d\",\"files\":[{\"name\":\"a\",\"dataBase64\":\"eA==\",\"mode\":384,\"modifiedAtMs\":5},"
               "{\"name\":\"b\",\"dataBase64\":\"\"}]}}\n"
               "{\"id\":2,\"method\":\"fs/writeFiles\",\"params\":{\"path\":\"file:///"
               "d\",\"files\":[{\"name\":\"b\",\"dataBase64\":\"\"}]}}\n");
        eq_str(told, "1 28;");
        farhand_free(f);
        fd_close(server);
}

TEST(names_that_no_file_has_are_refused_before_anything_is_sent)
{
        static const struct {
                const char *name;
                int result;
        } rows[] = {
                { "", -EINVAL }, { ".", -EINVAL }, { "..", -EINVAL }, { "a/b", -EINVAL }, { "\xff", -EILSEQ }
        };
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_new_file file = FARHAND_NEW_FILE_INIT;
        file.bytes = "";
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                file.name = rows[i].name;
                eq_int(farhand_read_files(f, "/d", &rows[i].name, 1, note_file, NULL, NULL), rows[i].result);
                eq_int(farhand_write_files(f, "/d", &file, 1, NULL, NULL, NULL), rows[i].result);
        }
        file.name = "a";
        file.n = WHOLE_FILE_MAX + 1;
        eq_int(farhand_write_files(f, "/d", &file, 1, NULL, NULL, NULL), -EFBIG);
        file.size = 0;
        eq_int(farhand_write_files(f, "/d", &file, 1, NULL, NULL, NULL), -EINVAL);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(a_digest_of_a_part)
{
        int server;
        struct farhand *f = played_client(&server);
        char digest[FARHAND_DIGEST_BYTES];
        uint64_t bytes;
        struct played_script script = {
                .server = server,
                .answers = { "{\"id\":1,\"result\":{\"digest\":\"sha256:" HEX "\",\"bytes\":5,\"size\":9}}\n",
                             "{\"id\":2,\"result\":{\"digest\":\"sha256:" HEX "\",\"bytes\":5,\"size\":9}}\n",
                             "{\"id\":3,\"result\":{\"digest\":\"md5:1\",\"bytes\":5,\"size\":9}}\n",
                             "{\"id\":4,\"result\":{\"digest\":\"sha256:" HEX "\"}}\n" }
        };
        played_script_begin(&script);
        eq_int(farhand_digest(f, "/a", 4, 7, digest, &bytes, NULL), 0);
        eq_str(digest, "sha256:" HEX);
        eq_int(bytes, 5);
        eq_int(farhand_digest(f, "/a", 0, UINT64_MAX, digest, NULL, NULL), 0);
        eq_int(farhand_digest(f, "/a", 0, 1, digest, NULL, NULL), -EPROTO);
        eq_int(farhand_digest(f, "/a", 0, 1, digest, NULL, NULL), -EPROTO);
        played_script_end(&script);
        const char *sent = script.sent;
        ok(strstr(sent, "{\"path\":\"file:///a\",\"offset\":4,\"length\":7}}\n") != NULL);
        ok(strstr(sent, "{\"path\":\"file:///a\",\"offset\":0}}\n") != NULL);
        farhand_free(f);
        fd_close(server);
}

TEST(a_file_is_read_up_to_a_bound)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        char *content = NULL;
        size_t n = 0;
        static const char block[] = "{\"id\":%d,\"result\":{}}\n{\"id\":%d,\"result\":{\"size\":3}}\n"
                                    "{\"id\":%d,\"result\":{\"chunk\":\"eHl6\",\"eof\":true}}\n";
        char answer[256];
        (void)snprintf(answer, sizeof(answer), block, 1, 2, 3);
        played_queue(server, answer);
        eq_int(farhand_read_file(f, "/a", 3, &content, &n, &error), 0);
        eq_int(n, 3);
        eq_str(content, "xyz");
        free(content);
        content = NULL;
        (void)snprintf(answer, sizeof(answer), block, 5, 6,
                       7); /* request 4 has closed the file of the first call */
        played_queue(server, answer);
        eq_int(farhand_read_file(f, "/a", 2, &content, &n, &error), -EFBIG);
        ok(!content);
        eq_int(farhand_read_file(f, "a", 2, &content, &n, &error), -EINVAL);
        farhand_free(f);
        fd_close(server);
}

TEST(a_stream_that_waits_for_the_disk_says_so_when_it_is_closed)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        options.mode = FARHAND_FILE_REPLACE;
        options.sync = true;
        struct farhand_file *file = farhand_file_open(f, "/a", &options, NULL);
        (void)played_sent(f, server);
        played_say(f, server, "{\"id\":1,\"result\":{}}\n");
        eq_int(farhand_file_finish(file, NULL), -EAGAIN);
        eq_str(played_sent(f, server),
               "{\"id\":2,\"method\":\"fs/close\",\"params\":{\"handleId\":\"f1\",\"sync\":true}}\n");
        played_say(f, server, "{\"id\":2,\"result\":{}}\n");
        eq_int(farhand_file_finish(file, NULL), 0);
        farhand_file_free(file);
        farhand_free(f);
        fd_close(server);
}
