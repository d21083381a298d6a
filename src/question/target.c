/* target: the functions on a process that is named by its id, of this session or of another. They wait for the answer. */
#include "question/question.h"

#include "base/clock.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>
#include <signal.h>

#define WAIT_MAX_MS 600000 /* the longest wait of one request that servers grant */
#define READ_BYTES_USUAL ((size_t)1024 * 1024)

static int check_server(const struct farhand *f, struct farhand_error *ret_error)
{
        return question_needs(f, "processControlV1", "this server has no processControlV1", ret_error);
}

int question_target(struct question *q, struct farhand *f, const struct farhand_target *given,
                    const char *method, unsigned flags, bool needs_control, struct farhand_error *ret_error)
{
        struct farhand_target target = { 0 };
        if (given->size < offsetof(struct farhand_target, process_id) + sizeof(target.process_id))
                return error_set(ret_error, -EINVAL,
                                 "struct farhand_target has no size: use FARHAND_TARGET_INIT");
        memcpy(&target, given, MIN(given->size, sizeof(target)));
        if (!target.process_id)
                return error_set(ret_error, -EINVAL, "no process is named");
        int r = needs_control || target.session_id ? check_server(f, ret_error) : 0;
        if (r < 0)
                return r;
        question_begin(q, f, method, flags);
        jsonw_member_str(&q->w, "processId", target.process_id);
        if (target.session_id)
                jsonw_member_str(&q->w, "sessionId", target.session_id);
        return 0;
}

int farhand_target_signal(struct farhand *f, const struct farhand_target *target, int signo,
                          enum farhand_scope scope, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        if ((unsigned)scope > FARHAND_SCOPE_TREE)
                return error_set(ret_error, -EINVAL, "a signal has no such scope");
        int r = question_target(&q, f, target, "process/signal", 0,
                                signo != SIGINT || scope != FARHAND_SCOPE_GROUP, ret_error);
        if (r < 0)
                return r;
        client_signal_write(&q.w, signo, scope);
        return question_ask(&q, ret_error);
}

int farhand_target_decide(struct farhand *f, const struct farhand_target *target, const char *request_id,
                          enum farhand_exec_decision decision, const char *reason, bool remember,
                          struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = client_decision_check(decision, ret_error);
        if (r == 0)
                r = question_target(&q, f, target, "process/execDecide", FARHAND_REPEAT, true, ret_error);
        if (r < 0)
                return r;
        client_decision_write(&q.w, request_id, decision, reason, remember);
        return question_ask(&q, ret_error);
}

int farhand_target_terminate(struct farhand *f, const struct farhand_target *target, int grace_ms,
                             struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        if (grace_ms > FARHAND_GRACE_MAX_MS)
                return error_set(ret_error, -EINVAL, "a process has at most %d ms to end",
                                 FARHAND_GRACE_MAX_MS);
        int r = question_target(&q, f, target, "process/terminate", 0, grace_ms >= 0, ret_error);
        if (r < 0)
                return r;
        if (grace_ms >= 0)
                client_grace_write(&q.w, (unsigned)grace_ms);
        r = question_ask(&q, ret_error);
        return r < 0 ? r : member_is_true(&q.doc, question_root(&q), S("running"));
}

/* Asks once, for at most `wait_ms`. Returns 1 when the process has not reached `until` yet. */
static int wait_once(struct farhand *f, const struct farhand_target *target, enum farhand_until until,
                     uint64_t wait_ms, struct farhand_exit *ret_exit, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_target(&q, f, target, "process/wait", FARHAND_REPEAT, true, ret_error);
        if (r < 0)
                return r;
        jsonw_member_str(&q.w, "until", until == FARHAND_UNTIL_EXITED ? "exited" : "closed");
        jsonw_member_u64(&q.w, "waitMs", wait_ms);
        r = question_ask(&q, ret_error);
        if (r < 0)
                return r;
        if (!member_is_true(&q.doc, question_root(&q),
                            until == FARHAND_UNTIL_EXITED ? S("exited") : S("closed")))
                return 1;
        if (ret_exit)
                client_exit_read(&q.doc, question_root(&q), ret_exit);
        return 0;
}

int farhand_target_wait(struct farhand *f, const struct farhand_target *target, enum farhand_until until,
                        int timeout_ms, struct farhand_exit *ret_exit, struct farhand_error *ret_error)
{
        uint64_t end = client_wait_end(timeout_ms);
        if ((unsigned)until > FARHAND_UNTIL_EXITED)
                return error_set(ret_error, -EINVAL, "a process has no such state");
        for (;;) {
                uint64_t now = clock_mono_ms();
                int r = wait_once(f, target, until, now < end ? MIN(end - now, (uint64_t)WAIT_MAX_MS) : 0,
                                  ret_exit, ret_error);
                if (r <= 0)
                        return r;
                if (clock_mono_ms() >= end)
                        return error_set(ret_error, -ETIMEDOUT, "process %s still runs", target->process_id);
        }
}

/* ---- reading ---- */

static int tell_chunks(struct question *q, const struct json *chunks,
                       void (*on_output)(void *arg, uint64_t seq, enum farhand_stream stream,
                                         const void *bytes, size_t n),
                       void *arg, struct farhand_error *ret_error)
{
        json_each (it, &q->doc, chunks) {
                struct event event;
                if (!client_output_read(&q->doc, it, &event))
                        return error_set(ret_error, -EPROTO, "the server sent output that cannot be read");
                on_output(arg, event.seq, event.stream, event.bytes, event.n);
                free(event.bytes);
        }
        return 0;
}

int farhand_target_read(struct farhand *f, const struct farhand_target *target, uint64_t after_seq,
                        size_t max_bytes, unsigned wait_ms,
                        void (*on_output)(void *arg, uint64_t seq, enum farhand_stream stream,
                                          const void *bytes, size_t n),
                        void *arg, struct farhand_progress *ret, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        struct farhand_progress progress = { .size = ret->size };
        if (ret->size < sizeof(progress.size) + sizeof(progress.next_seq))
                return error_set(ret_error, -EINVAL,
                                 "struct farhand_progress has no size: use FARHAND_PROGRESS_INIT");
        int r = question_target(&q, f, target, "process/read", FARHAND_REPEAT, false, ret_error);
        if (r < 0)
                return r;
        jsonw_member_u64(&q.w, "afterSeq", after_seq);
        jsonw_member_u64(&q.w, "maxBytes", max_bytes ? max_bytes : READ_BYTES_USUAL);
        jsonw_member_u64(&q.w, "waitMs", wait_ms);
        r = question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *root = question_root(&q), *chunks = question_array(&q, S("chunks"), ret_error);
        if (!chunks)
                return -EPROTO;
        if (!member_u64(&q.doc, root, S("nextSeq"), &progress.next_seq))
                return error_set(ret_error, -EPROTO, "the server's answer has no nextSeq");
        const struct json *gap = json_get(&q.doc, root, S("gap"));
        (void)member_u64(&q.doc, gap, S("fromSeq"), &progress.gap_first_seq);
        (void)member_u64(&q.doc, gap, S("toSeq"), &progress.gap_last_seq);
        (void)member_u64(&q.doc, gap, S("bytes"), &progress.gap_bytes);
        progress.has_exited = member_is_true(&q.doc, root, S("exited"));
        progress.is_closed = member_is_true(&q.doc, root, S("closed"));
        client_exit_read(&q.doc, root, &progress.exit);
        r = tell_chunks(&q, chunks, on_output, arg, ret_error);
        if (r == 0)
                memcpy(ret, &progress, MIN(ret->size, sizeof(progress)));
        return r;
}

int farhand_target_snapshot(struct farhand *f, const struct farhand_target *target, size_t max_bytes,
                            int timeout_ms, struct farhand_snapshot *ret, struct farhand_error *ret_error)
{
        struct farhand_target t = { 0 };
        memcpy(&t, target, MIN(target->size, sizeof(t)));
        if (!t.process_id)
                return error_set(ret_error, -EINVAL, "no process is named");
        int r = t.session_id ? check_server(f, ret_error) : 0;
        return r < 0 ? r
                     : client_snapshot(f, t.process_id, t.session_id, max_bytes, timeout_ms, ret, ret_error);
}
