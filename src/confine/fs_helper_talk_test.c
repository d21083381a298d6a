/* fs_helper_talk_test: tests that wrong answers of an fs helper are refused, as an attacker could send them. */
#include "confine/fs_helper_talk.h"

#include "base/arena.h"
#include "base/fd.h"
#include "files/request.h"
#include "unit.h"
#include "wire/json.h"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

static struct arena arena = ARENA_INIT; /* the memory of the last question */

/* Asks a question, which the fs helper answers with `head` and `rest`. Returns the result of fs_helper_line_ask. */
static int hear(const struct fs_helper_answer *head, struct slice rest, const char **ret_data,
                struct fs_helper_line *ret_line)
{
        struct file_open how = { .path = { "/", 1 } };
        struct err err = ERR_INIT;
        struct jsonw w;
        _buf_ struct buf out = BUF_INIT(4096);
        int ends[2];
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        eq_int(send(ends[1], head, sizeof(*head), 0), sizeof(*head));
        if (rest.n > 0)
                eq_int(send(ends[1], rest.p, rest.n, 0), (ssize_t)rest.n);
        eq_int(shutdown(ends[1], SHUT_WR), 0);
        struct file_request request = { .arena = &arena, .max_message = 4096 };
        struct fs_helper_question q = { .request = &request, .open = &how, .w = &w };
        *ret_line = (struct fs_helper_line){ .socket = ends[0], .pidfd = -1 };
        jsonw_begin(&w, &out);
        int r = fs_helper_line_ask(ret_line, &q, &err);
        *ret_data = request.error_data;
        fd_close(ends[0]);
        fd_close(ends[1]);
        return r;
}

static int hear_error(int32_t code, int32_t os_errno, const char *data, bool *ret_is_broken)
{
        struct fs_helper_answer head = { .kind = FS_HELPER_ERROR,
                                         .code = code,
                                         .os_errno = os_errno,
                                         .bytes = 4,
                                         .data_bytes = (uint32_t)strlen(data) };
        char rest[64];
        (void)snprintf(rest, sizeof(rest), "text%s", data);
        const char *got;
        struct fs_helper_line line;
        int r = hear(&head, slice_from_str(rest), &got, &line);
        *ret_is_broken = line.is_broken;
        ok(line.is_broken ? !got : *data ? strcmp(got, data) == 0 : !got);
        arena_release(&arena);
        return r;
}

TEST(an_error_is_passed_on)
{
        bool is_broken;
        eq_int(hear_error(-ENOENT, ENOENT, "", &is_broken), -ENOENT);
        ok(!is_broken);
        eq_int(hear_error(-ESTALE, 0, "\"current\":null", &is_broken), -ESTALE);
        ok(!is_broken);
}

TEST(an_error_that_no_system_has_is_not)
{
        bool is_broken;
        eq_int(hear_error(INT_MIN, 0, "", &is_broken), -EBADMSG);
        ok(is_broken);
        eq_int(hear_error(0, 0, "", &is_broken), -EBADMSG);
        ok(is_broken);
}

TEST(data_that_would_spoil_the_message_is_not)
{
        static const char *const bad[] = { "}",        "{",        "\"a\":1},\"id\":7,\"b\":{",
                                           "\"text\"", "\"a\":1,", "\xff" };
        bool is_broken;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                eq_int(hear_error(-ESTALE, 0, bad[i], &is_broken), -EBADMSG);
                ok(is_broken);
        }
}

TEST(a_file_that_was_not_asked_for_is_not_taken)
{
        const struct fs_helper_answer lent = { .kind = FS_HELPER_LENT, .code = 1 },
                                      opened = { .kind = FS_HELPER_OPENED };
        const struct fs_helper_answer *const both[] = { &lent, &opened };
        for (size_t i = 0; i < ARRAY_LEN(both); i++) {
                const char *data;
                struct fs_helper_line line;
                eq_int(hear(both[i], S(""), &data, &line), -EBADMSG);
                ok(line.is_broken);
                arena_release(&arena);
        }
}
