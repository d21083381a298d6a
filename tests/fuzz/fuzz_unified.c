/* fuzz_unified: a line to `farhand unified`, and the arguments of its tools, are understood or refused with a sentence; what is understood
 * is within its bounds. The first bytes are also taken as output, which is rendered, cut and split into pieces. */
#include "agent/unified_request.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "unified/args.h"
#include "unified/cut.h"
#include "unified/deltas.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

static void check_refused(int r, const struct err *err)
{
        check(r == 0 || (r == err->code && err->text[0] != '\0'));
}

static struct slice padded(struct arena *a, struct slice s)
{
        char *copy = arena_zalloc(a, s.n + BUF_PADDING);
        memcpy(copy, s.p, s.n);
        return slice_from(copy, s.n);
}

static void check_arguments(struct arena *a, struct slice text)
{
        struct json_doc doc;
        struct json_error bad;
        if (json_parse(a, padded(a, text), &doc, &bad) < 0)
                return;
        struct err err = ERR_INIT;
        struct exec_args exec;
        int r = args_decode_exec(a, &doc, json_root(&doc), &exec, &err);
        check_refused(r, &err);
        if (r == 0)
                check(exec.cmd && exec.yield_ms >= YIELD_LEAST_MS && exec.yield_ms <= YIELD_MOST_MS &&
                      (exec.wish == APPROVAL_WITH_ADDITIONAL) == (exec.additional_permissions != NULL));
        struct write_args write;
        err = ERR_INIT;
        r = args_decode_write(a, &doc, json_root(&doc), POLL_MOST_MS, &write, &err);
        check_refused(r, &err);
        if (r == 0)
                check(write.yield_ms >= (write.chars.n ? YIELD_LEAST_MS : POLL_LEAST_MS) &&
                      write.yield_ms <= (write.chars.n ? YIELD_MOST_MS : POLL_MOST_MS));
        struct patch_args patch;
        err = ERR_INIT;
        r = args_decode_patch(a, &doc, json_root(&doc), &patch, &err);
        check_refused(r, &err);
        check(r < 0 || patch.input.p);
}

static void check_line(struct arena *a, struct slice line)
{
        struct request request;
        struct err err = ERR_INIT;
        int r = request_read(a, padded(a, line), &request, &err);
        check_refused(r, &err);
        check(!request.id || strlen(request.id) <= 6 * LIMIT_UNIFIED_ID_BYTES + 2);
        if (r < 0)
                return;
        check(request.kind != REQUEST_CALL || (request.id && request.arguments.p));
        check(request.kind != REQUEST_CANCEL || request.cancelled);
        if (request.kind == REQUEST_CALL)
                check_arguments(a, request.arguments);
}

/* ---- output ---- */

struct pieces {
        size_t bytes, count;
};

static void on_piece(void *arg, struct slice piece)
{
        struct pieces *p = arg;
        check(piece.n > 0 && piece.n <= DELTA_BYTES_MAX && utf8_is_valid(piece));
        p->bytes += piece.n;
        p->count++;
}

static void check_output(struct slice bytes)
{
        _buf_ struct buf rendered = BUF_INIT(1 << 20), cut = BUF_INIT(1 << 20);
        size_t head = bytes.n / 2;
        uint64_t budget = bytes.n > 0 ? (uint8_t)bytes.p[0] : 0;
        struct cut_output output = { .bytes = bytes, .head_bytes = head, .omitted_bytes = bytes.n % 3 };
        check(cut_render(&rendered, &output) == 0 && utf8_is_valid(buf_slice(&rendered)));
        check(cut_middle(&cut, buf_slice(&rendered), (struct cut_budget){ .bytes = budget }) == 0);
        check(utf8_is_valid(buf_slice(&cut)) && cut.n <= MAX(budget + 64, rendered.n));
        struct deltas whole = { 0 }, split = { 0 };
        struct pieces one = { 0 }, two = { 0 };
        deltas_feed(&whole, bytes, on_piece, &one);
        deltas_flush(&whole, on_piece, &one);
        deltas_feed(&split, slice_from(bytes.p, head), on_piece, &two);
        deltas_feed(&split, slice_from(bytes.p + head, bytes.n - head), on_piece, &two);
        deltas_flush(&split, on_piece, &two);
        check(one.bytes == two.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice text = slice_from(data, size);
        check_line(&a, text);
        check_arguments(&a, text);
        check_output(slice_from(text.p, MIN(text.n, (size_t)65536)));
        return 0;
}
