/* access_test: questions about access, in pieces that a server takes, and refusals in errors. */
#include "client/client_rig.h"

#include "base/mem.h"
#include "client/error.h"

#include <errno.h>

static char told[512];

static void note(UNUSED void *arg, size_t index, const struct farhand_access_result *result)
{
        size_t at = strlen(told);
        const struct farhand_denial *d = result->denial;
        (void)snprintf(told + at, sizeof(told) - at, "%zu %d %d %s %s %s %s;", index, result->is_allowed,
                       result->error_number, d ? d->operation : "-", d ? d->path : "-", d ? d->rule : "-",
                       d && d->entry ? d->entry : "-");
}

static struct farhand_access want(const char *path, enum farhand_access_kind kind)
{
        struct farhand_access one = FARHAND_ACCESS_INIT;
        one.path = path;
        one.kind = kind;
        return one;
}

TEST(each_path_gets_its_answer)
{
        int server;
        struct farhand *f = played_client(&server);
        const struct farhand_access wanted[] = { want("/a", FARHAND_ACCESS_READ),
                                                 want("/b", FARHAND_ACCESS_WRITE),
                                                 want("/c", FARHAND_ACCESS_REMOVE) };
        told[0] = '\0';
        eq_int(farhand_use_sandbox(f, "{}", NULL), 0);
        played_queue(server,
                     "{\"id\":1,\"result\":{\"results\":[{\"allowed\":true},{\"allowed\":false,\"errno\":30,"
                     "\"denied\":{\"operation\":\"write\",\"path\":\"file:///b%20\",\"rule\":\"readOnly\","
                     "\"entry\":\"/x\"}},{\"allowed\":false,\"errno\":-1,\"denied\":{\"operation\":\"write\","
                     "\"path\":\"b\",\"rule\":\"readOnly\"}}]}}\n");
        eq_int(farhand_check_access(f, wanted, 3, note, NULL, NULL), 0);
        eq_str(played_sent(f, server),
               "{\"id\":1,\"method\":\"fs/checkAccess\",\"params\":{\"paths\":[{\"path\":\"file:///"
               "a\",\"access\":\"read\"},{\"path\":\"file:///b\",\"access\":\"write\"},{\"path\":\"file:///"
               "c\",\"access\":\"remove\"}],\"sandbox\":{}}}\n");
        eq_str(told, "0 1 0 - - - -;1 0 30 write /b  readOnly /x;2 0 0 - - - -;");
        eq_int(farhand_check_access(f, NULL, 0, note, NULL, NULL), 0); /* nothing is asked */
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

TEST(questions_that_cannot_be_asked_and_answers_that_do_not_fit)
{
        static const char *const rows[] = { "{\"results\":[]}", "{\"results\":[{},{}]}", "{\"results\":7}",
                                            "{}" };
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_access wanted[2] = { want("/a", FARHAND_ACCESS_READ), want("b", FARHAND_ACCESS_READ) };
        eq_int(farhand_check_access(f, wanted, 2, note, NULL, NULL), -EINVAL);
        wanted[1] = want("/b", (enum farhand_access_kind)3);
        eq_int(farhand_check_access(f, wanted, 2, note, NULL, NULL), -EINVAL);
        wanted[1] = want("/b", FARHAND_ACCESS_READ);
        wanted[1].size = 0;
        eq_int(farhand_check_access(f, wanted, 2, note, NULL, NULL), -EINVAL);
        eq_str(played_sent(f, server), "");
        told[0] = '\0';
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char answer[128];
                (void)snprintf(answer, sizeof(answer), "{\"id\":%zu,\"result\":%s}\n", i + 1, rows[i]);
                played_queue(server, answer);
                eq_int(farhand_check_access(f, wanted, 1, note, NULL, NULL), -EPROTO);
        }
        eq_str(told, "");
        (void)played_sent(f, server);
        played_lose_capabilities(f, true);
        eq_int(farhand_check_access(f, wanted, 1, note, NULL, NULL), -EOPNOTSUPP);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

static void count_result(void *arg, size_t index, UNUSED const struct farhand_access_result *result)
{
        size_t *count = arg;
        eq_int(index, *count);
        (*count)++;
}

TEST(more_paths_than_a_request_takes_are_asked_in_pieces)
{
        enum { COUNT = 4097 };
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_access *wanted = mem_alloc(COUNT * sizeof(*wanted));
        _buf_ struct buf answers = BUF_INIT(1024 * 1024);
        size_t count = 0;
        ok(buf_printf(&answers, "{\"id\":1,\"result\":{\"results\":[{}") == 0);
        for (size_t i = 0; i < COUNT; i++)
                wanted[i] = want("/a", FARHAND_ACCESS_READ);
        for (size_t i = 1; i < COUNT - 1; i++)
                ok(buf_append(&answers, S(",{}")) == 0);
        ok(buf_append(&answers, S("]}}\n")) == 0);
        struct played_script script = {
                .server = server, .answers = { answers.p, "{\"id\":2,\"result\":{\"results\":[{}]}}\n" }
        };
        played_script_begin(&script);
        eq_int(farhand_check_access(f, wanted, COUNT, count_result, &count, NULL), 0);
        played_script_end(&script);
        eq_int(count, COUNT);
        free(wanted);
        farhand_free(f);
        fd_close(server);
}

TEST(an_error_tells_what_was_refused)
{
        static const struct {
                const char *data, *want; /* want NULL: no denial */
        } rows[] = {
                { "{\"errno\":30,\"denied\":{\"operation\":\"write\",\"path\":\"file:///"
                  "a%20b\",\"rule\":\"outside\"}}",
                  "write /a b outside -" },
                { "{\"denied\":{\"operation\":\"read\",\"path\":\"/a\",\"rule\":\"pattern\",\"entry\":\"**/"
                  "*.env\"}}",
                  "read /a pattern **/*.env" },
                { "{\"errno\":30}", NULL },
                { "{\"denied\":7}", NULL },
                { "{\"denied\":{\"operation\":\"read\",\"path\":\"/a\"}}", NULL },
                { "{\"denied\":{\"operation\":\"read\",\"path\":\"a\",\"rule\":\"entry\"}}", NULL },
                { "{\"denied\":", NULL },
                { "", NULL },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct farhand_error error = { .code = -EREMOTEIO, .rpc_code = -32603 };
                char text[128];
                (void)snprintf(error.data, sizeof(error.data), "%s", rows[i].data);
                struct farhand_denial *d = farhand_error_denial(&error);
                eq_int(d != NULL, rows[i].want != NULL);
                if (!d)
                        continue;
                (void)snprintf(text, sizeof(text), "%s %s %s %s", d->operation, d->path, d->rule,
                               d->entry ? d->entry : "-");
                eq_str(text, rows[i].want);
                free(d);
        }
}
