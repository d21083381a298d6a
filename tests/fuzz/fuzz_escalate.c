/* fuzz_escalate: the frames of a shell's wrapper and of its server: a message that is read from any bytes, written and read again stays the
 * same. */
#include "base/fatal.h"
#include "base/limits.h"
#include "base/mem.h"
#include "intercept/escalate_socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct slice body(const struct buf *b)
{
        struct slice text;

        must(escalate_frame(buf_slice(b), LIMIT_ESCALATE_REQUEST_BYTES, &text) == (ssize_t)b->n);
        return text;
}

static void check_request(struct arena *a, const struct escalate_request *request)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_ESCALATE_REQUEST_BYTES);
        struct escalate_request again;

        must(request->file.n > 0 && request->workdir.p[0] == '/' && !slice_has_nul(request->file));
        if (escalate_request_write(&out, request) < 0)
                return;
        must(escalate_request_read(a, body(&out), &again) == 0);
        must(slice_eq(again.file, request->file) && slice_eq(again.workdir, request->workdir));
        must(again.argc == request->argc);
        for (size_t i = 0; i < again.argc; i++)
                must(slice_eq(again.argv[i], request->argv[i]));
}

static void check_answer(struct arena *a, const struct escalate_answer *answer)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_ESCALATE_REQUEST_BYTES);
        struct escalate_answer again;

        must(escalate_answer_write(&out, answer) == 0);
        must(escalate_answer_read(a, body(&out), &again) == 0);
        must(again.action == answer->action && slice_eq(again.reason, answer->reason));
}

static void check_more(struct arena *a, const struct escalate_more *more)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_ESCALATE_ANSWER_BYTES);
        struct escalate_more again;

        must(more->fd_count <= ESCALATE_MORE_FDS);
        must(escalate_more_write(&out, more) == 0);
        must(escalate_more_read(a, body(&out), &again) == 0);
        must(again.signal == more->signal && again.fd_count == more->fd_count && again.umask == more->umask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _buf_ struct buf in = BUF_INIT(1 * MIB);
        _arena_ struct arena a = ARENA_INIT;
        struct escalate_request request;
        struct escalate_answer answer;
        struct escalate_more more;
        struct escalate_result result;
        struct slice text;

        if (buf_append(&in, slice_from(data, size)) < 0)
                return 0;
        ssize_t n = escalate_frame(buf_slice(&in), size, &text);
        must(n <= (ssize_t)size);
        if (n <= 0)
                return 0;
        if (escalate_request_read(&a, text, &request) == 0)
                check_request(&a, &request);
        if (escalate_answer_read(&a, text, &answer) == 0)
                check_answer(&a, &answer);
        if (escalate_more_read(&a, text, &more) == 0)
                check_more(&a, &more);
        (void)!escalate_result_read(&a, text, &result);
        return 0;
}
