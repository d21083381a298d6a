/* fuzz_intercept: the frames between a broker and the server: a frame that was read is written again as the same bytes, and no beginning
 * of a frame is taken for one. */
#include "base/fatal.h"
#include "base/limits.h"
#include "base/mem.h"
#include "intercept/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The slices of a question must lie in the input. */
static void check_slice(struct slice in, struct slice s)
{
        must(!s.p || (s.p >= in.p && s.p + s.n <= in.p + in.n));
}

static void check_frame(struct slice in, const struct intercept_message *m)
{
        const struct intercept_question *q = &m->question;
        const struct slice slices[] = { q->file,      q->cwd,           q->argv,
                                        q->rule_text, q->justification, m->answer.reason };
        for (size_t i = 0; i < ARRAY_LEN(slices); i++)
                check_slice(in, slices[i]);
        must(q->argv.n <= LIMIT_INTERCEPT_ARGV_BYTES && (q->argc == 0 || q->argv.p[q->argv.n - 1] == 0));
        must(m->answer.reason.n <= LIMIT_INTERCEPT_REASON_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        for (struct slice in = slice_from(data, size);;) {
                _buf_ struct buf again = BUF_INIT(LIMIT_INTERCEPT_FRAME_BYTES);
                struct intercept_message m;
                ssize_t n = intercept_message_read(in, &m);
                if (n <= 0)
                        return 0;
                must((size_t)n <= in.n);
                check_frame(in, &m);
                must(intercept_message_write(&again, &m) == 0);
                must(slice_eq(buf_slice(&again), slice_from(in.p, (size_t)n)));
                for (size_t cut = 0; cut < MIN((size_t)n, (size_t)64); cut++) {
                        _free_ char *part = slice_dup(slice_from(in.p, cut));
                        must(intercept_message_read(slice_from(part, cut), &m) == 0);
                }
                in = slice_from(in.p + n, in.n - (size_t)n);
        }
}
