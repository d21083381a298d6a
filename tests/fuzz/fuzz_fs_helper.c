/* fuzz_fs_helper: any bytes as the answer of an fs helper to the server. Each question ends; an answer that is passed on is
 * JSON, an error has a text and a code; and a socket that has brought invalid bytes is not used again. */
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "confine/fs_helper_talk.h"
#include "files/request.h"
#include "server/methods.h"
#include "wire/json.h"

#include <errno.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (32u * 1024) /* fits into a socket */
#define ANSWER_MAX 4096

/* Checks that the result of a question is one JSON value. */
static void check_result(const struct buf *out)
{
        _arena_ struct arena a = ARENA_INIT;
        char *text = arena_zalloc(&a, out->n + BUF_PADDING);
        struct json_doc doc;
        struct json_error why;
        memcpy(text, out->p, out->n);
        must(out->n <= ANSWER_MAX && json_parse(&a, slice_from(text, out->n), &doc, &why) == 0);
}

static void ask_once(const uint8_t *data, size_t size, bool wants_file)
{
        int ends[2];
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        must(size == 0 || send(ends[1], data, size, 0) == (ssize_t)size);
        must(shutdown(ends[1], SHUT_WR) == 0);

        _arena_ struct arena arena = ARENA_INIT;
        struct file_request request = { .arena = &arena, .max_message = ANSWER_MAX };
        struct file_open how = { .path = { "/", 1 } };
        struct err err = ERR_INIT;
        struct jsonw w;
        _buf_ struct buf out = BUF_INIT(2 * ANSWER_MAX);
        _close_ int fd = -1;
        jsonw_begin(&w, &out);
        struct fs_helper_question q = { .request = &request, .open = &how };
        if (wants_file)
                q.ret_fd = &fd;
        else
                q.w = &w;
        struct fs_helper_line line = { .socket = ends[0], .pidfd = -1 };
        int r = fs_helper_line_ask(&line, &q, &err);
        must(fd < 0); /* no descriptor was sent */
        must(r == 0 || (r < 0 && err.text[0] && err.code == r && utf8_is_valid(slice_from_str(err.text))));
        must(r != -EBADMSG || line.is_broken || err.client_code == 0);
        if (r == 0)
                check_result(&out);
        fd_close(ends[0]);
        fd_close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size > INPUT_MAX)
                return 0;
        ask_once(data, size, false);
        ask_once(data, size, true);
        return 0;
}
