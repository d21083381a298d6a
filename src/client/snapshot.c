/* snapshot: asks for the beginning and the end of the output of a process so far, and for its state.
 *
 * Servers with processControlV1 make a snapshot themselves. From other servers the retained output is read, which is the end of the
 * output.
 */
#include "client/client.h"

#include "base/base64.h"
#include "base/head_tail.h"
#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

void farhand_snapshot_release(struct farhand_snapshot *s)
{
        free(s->out);
        free(s->err);
        *s = (struct farhand_snapshot){ 0 };
}

/* Decodes base64 and appends the bytes. The server chose their size, so memory that cannot be had is an error. Returns 0 or
 * -errno. */
static int append_decoded(struct buf *b, struct slice text)
{
        char *room;
        int r = buf_reserve_or_fail(b, base64_decoded_max(text.n), &room);
        ssize_t n = r < 0 ? -1 : base64_decode(room, text.p, text.n, NULL);
        if (r < 0)
                return r;
        if (n < 0)
                return -EPROTO;
        buf_commit(b, (size_t)n);
        return 0;
}

/* ---- servers that make snapshots ---- */

static int read_made(struct arena *a, const struct json_doc *d, const struct json *o, size_t max_bytes,
                     struct farhand_snapshot *ret)
{
        struct slice out = member_string(a, d, o, S("stdout")), err = member_string(a, d, o, S("stderr")),
                     terminal = member_string(a, d, o, S("terminal"));
        const struct json *omitted = json_get(d, o, S("omittedBytes"));
        _buf_ struct buf first = BUF_INIT(TRANSPORT_MESSAGE_MAX), second = BUF_INIT(TRANSPORT_MESSAGE_MAX);
        uint64_t missing[3] = { 0 };
        if (!out.p || !err.p || !terminal.p)
                return -EPROTO;
        /* A process has either a terminal or pipes, so one of these two is empty. */
        int r = append_decoded(&first, out);
        r = r < 0 ? r : append_decoded(&first, terminal);
        r = r < 0 ? r : append_decoded(&second, err);
        if (r == 0 && (first.n > max_bytes || second.n > max_bytes))
                r = -EPROTO;
        if (r < 0)
                return r;
        (void)member_u64(d, omitted, S("stdout"), &missing[0]);
        (void)member_u64(d, omitted, S("terminal"), &missing[1]);
        (void)member_u64(d, omitted, S("stderr"), &missing[2]);
        ret->out_omitted_bytes = MAX(missing[0], missing[1]);
        ret->err_omitted_bytes = missing[2];
        ret->is_truncated = member_is_true(d, o, S("truncated"));
        ret->has_exited = !member_is_true(d, o, S("running"));
        ret->out_bytes = first.n;
        ret->err_bytes = second.n;
        ret->out = buf_take(&first);
        ret->err = buf_take(&second);
        return 0;
}

/* ---- others ---- */

/* Makes a snapshot of the retained chunks. */
static int read_chunks(struct arena *a, const struct json_doc *d, const struct json *chunks, size_t max_bytes,
                       struct farhand_snapshot *ret)
{
        struct head_tail streams[2];
        uint64_t first = 0, seq;
        size_t head;
        int r = 0;
        head_tail_init(&streams[0], max_bytes);
        head_tail_init(&streams[1], max_bytes);
        json_each (it, d, chunks) {
                _buf_ struct buf bytes = BUF_INIT(TRANSPORT_MESSAGE_MAX);
                struct slice text = member_string(a, d, it, S("chunk"));
                r = text.p && member_u64(d, it, S("seq"), &seq) ? append_decoded(&bytes, text) : -EPROTO;
                if (r < 0)
                        break;
                first = first ? first : seq;
                head_tail_put(&streams[slice_eq(member_string(a, d, it, S("stream")), S("stderr"))],
                              buf_slice(&bytes));
        }
        if (r == 0) {
                ret->out = head_tail_take(&streams[0], &ret->out_bytes, &head, &ret->out_omitted_bytes);
                ret->err = head_tail_take(&streams[1], &ret->err_bytes, &head, &ret->err_omitted_bytes);
                ret->is_truncated = first > 1 || ret->out_omitted_bytes > 0 || ret->err_omitted_bytes > 0;
        }
        head_tail_release(&streams[0]);
        head_tail_release(&streams[1]);
        return r;
}

/* ---- both ---- */

static int read_answer(const struct rpc_message *m, size_t max_bytes, struct farhand_snapshot *ret)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct json_doc *d = &m->doc;
        const struct json *chunks = json_get(d, m->result, S("chunks"));
        bool is_read = chunks && chunks->type == JSON_ARRAY;
        *ret = (struct farhand_snapshot){ .has_exited = member_is_true(d, m->result, S("exited")) };
        if (!member_u64(d, m->result, S("nextSeq"), &ret->next_seq))
                return -EPROTO;
        client_exit_read(d, m->result, &ret->exit);
        ret->is_closed = member_is_true(d, m->result, S("closed"));
        return is_read ? read_chunks(&a, d, chunks, max_bytes, ret)
                       : read_made(&a, d, m->result, max_bytes, ret);
}

static void tell(struct farhand *f, const struct call *call, const struct rpc_message *m,
                 const struct farhand_error *error)
{
        farhand_on_snapshot on_snapshot = (farhand_on_snapshot)call->on_typed;
        struct farhand_snapshot snapshot;
        struct farhand_error bad;
        int r = error ? error->code : read_answer(m, (size_t)call->number, &snapshot);
        if (!error && r < 0)
                error_set(&bad, r, "the server's answer has no snapshot that can be read");
        on_snapshot(f, call->arg, r < 0 ? NULL : &snapshot, error ? error : r < 0 ? &bad : NULL);
        if (r == 0)
                farhand_snapshot_release(&snapshot);
}

static int begin(struct farhand *f, const char *process_id, const char *session_id, size_t max_bytes,
                 farhand_on_snapshot on_snapshot, void *arg, struct farhand_error *ret_error)
{
        struct jsonw w;
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        if (max_bytes == 0 || max_bytes > WHOLE_FILE_MAX)
                return error_set(ret_error, -EINVAL, "a snapshot has from 1 to %zu bytes", WHOLE_FILE_MAX);
        struct call *call =
                call_begin(f, f->has_process_control ? "process/snapshot" : "process/read", &w, ret_error);
        if (!call)
                return f->state == FARHAND_FAILED ? f->failure.code : -EAGAIN;
        jsonw_object(&w);
        jsonw_member_str(&w, "processId", process_id);
        if (session_id)
                jsonw_member_str(&w, "sessionId", session_id);
        if (f->has_process_control)
                jsonw_member_u64(&w, "maxBytes", max_bytes);
        else
                jsonw_member_u64(&w, "waitMs", 0);
        jsonw_object_end(&w);
        call->tell = tell;
        call->on_typed = (any_function)on_snapshot;
        call->number = max_bytes;
        return call_end(f, call, &w, FARHAND_REPEAT, NULL, arg, ret_error);
}

int farhand_snapshot_begin(struct farhand *f, const char *process_id, size_t max_bytes,
                           farhand_on_snapshot on_snapshot, void *arg, struct farhand_error *ret_error)
{
        return begin(f, process_id, NULL, max_bytes, on_snapshot, arg, ret_error);
}

struct wanted {
        bool is_there;
        struct farhand_snapshot snapshot;
        struct farhand_error error;
};

static void on_there(UNUSED struct farhand *f, void *arg, struct farhand_snapshot *snapshot,
                     const struct farhand_error *error)
{
        struct wanted *wanted = arg;
        wanted->is_there = true;
        if (error) {
                wanted->error = *error;
                return;
        }
        wanted->snapshot = *snapshot;
        *snapshot = (struct farhand_snapshot){ 0 }; /* the caller of the waiting function gets the strings */
}

int farhand_snapshot(struct farhand *f, const char *process_id, size_t max_bytes, int timeout_ms,
                     struct farhand_snapshot *ret, struct farhand_error *ret_error)
{
        return client_snapshot(f, process_id, NULL, max_bytes, timeout_ms, ret, ret_error);
}

int client_snapshot(struct farhand *f, const char *process_id, const char *session_id, size_t max_bytes,
                    int timeout_ms, struct farhand_snapshot *ret, struct farhand_error *ret_error)
{
        struct wanted wanted = { 0 };
        uint64_t end = client_wait_end(timeout_ms);
        int r = begin(f, process_id, session_id, max_bytes, on_there, &wanted, ret_error);
        if (r == 0)
                r = client_wait_for(f, &wanted.is_there, end, "the snapshot", ret_error);
        if (r < 0) {
                calls_forget(f, (any_function)on_there, &wanted);
                return r;
        }
        if (wanted.error.code < 0)
                return error_copy(ret_error, &wanted.error);
        *ret = wanted.snapshot;
        return 0;
}
