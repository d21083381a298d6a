/* message_test: frames come back as they were written, from every split, and nothing else is taken for one. */
#include "intercept/message.h"

#include "base/limits.h"
#include "base/mem.h"

#include "unit.h"

#include <errno.h>

static const struct intercept_message ask = {
        .kind = INTERCEPT_MSG_ASK,
        .question = { .id = 7,
                      .pid = 4711,
                      .action = INTERCEPT_ASK,
                      .accepted = INTERCEPT_ESCALATE,
                      .file = S("/bin/\xff"),
                      .cwd = S("/tmp"),
                      .argv = S("a\0\0b\0"),
                      .argc = 3,
                      .rule_text = S("my.rules"),
                      .rule_line = 12,
                      .justification = S("because") },
};
static const struct intercept_message told = {
        .kind = INTERCEPT_MSG_TOLD,
        .question = { .action = INTERCEPT_DENY,
                      .accepted = INTERCEPT_DENY,
                      .file = S(""),
                      .cwd = S(""),
                      .argv = S(""),
                      .omitted_bytes = UINT64_MAX },
};
static const struct intercept_message withdrawn = { .kind = INTERCEPT_MSG_WITHDRAWN, .withdrawn = 7 };
static const struct intercept_message answer = {
        .kind = INTERCEPT_MSG_ANSWER,
        .answer = { .id = 7, .action = INTERCEPT_DENY, .is_remembered = true, .reason = S("no") },
};

static void write_frame(struct buf *out, const struct intercept_message *m)
{
        eq_int(intercept_message_write(out, m), 0);
}

static void eq_text(struct slice a, struct slice b)
{
        eq_int(a.p == NULL, b.p == NULL);
        eq_slice(a, b);
}

static void eq_question(const struct intercept_question *a, const struct intercept_question *b)
{
        eq_u64(a->id, b->id);
        eq_int(a->pid, b->pid);
        eq_int(a->action, b->action);
        eq_int(a->accepted, b->accepted);
        eq_text(a->file, b->file);
        eq_text(a->cwd, b->cwd);
        eq_text(a->argv, b->argv);
        eq_u64(a->argc, b->argc);
        eq_u64(a->omitted_bytes, b->omitted_bytes);
        eq_text(a->rule_text, b->rule_text);
        eq_u64(a->rule_line, b->rule_line);
        eq_text(a->justification, b->justification);
}

static void comes_back(const struct intercept_message *m)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_INTERCEPT_FRAME_BYTES);
        struct intercept_message got;

        write_frame(&out, m);
        eq_int(intercept_message_read(buf_slice(&out), &got), (int)out.n);
        eq_int(got.kind, m->kind);
        eq_question(&got.question, &m->question);
        eq_u64(got.withdrawn, m->withdrawn);
        eq_u64(got.answer.id, m->answer.id);
        eq_int(got.answer.action, m->answer.action);
        eq_int(got.answer.is_remembered, m->answer.is_remembered);
        eq_text(got.answer.reason, m->answer.reason);
        for (size_t n = 0; n < out.n;
             n++) { /* each beginning is in memory of its own, so that sanitizers notice a read behind it */
                _free_ char *part = slice_dup(slice_from(out.p, n));
                eq_int(intercept_message_read(slice_from(part, n), &got), 0);
        }
}

TEST(frames_come_back_as_they_were_written)
{
        comes_back(&ask);
        comes_back(&told);
        comes_back(&withdrawn);
        comes_back(&answer);
}

TEST(frames_behind_each_other_are_read_one_by_one)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_INTERCEPT_FRAME_BYTES);
        struct intercept_message got;

        write_frame(&out, &ask);
        size_t first = out.n;
        write_frame(&out, &withdrawn);
        eq_int(intercept_message_read(buf_slice(&out), &got), (int)first);
        buf_consume(&out, first);
        eq_int(intercept_message_read(buf_slice(&out), &got), (int)out.n);
        eq_int(got.kind, INTERCEPT_MSG_WITHDRAWN);
}

/* Writes the message, which must not be read again. */
static void is_refused(const struct intercept_message *m)
{
        _buf_ struct buf out = BUF_INIT(2 * LIMIT_INTERCEPT_FRAME_BYTES);
        struct intercept_message got;

        write_frame(&out, m);
        eq_int(intercept_message_read(buf_slice(&out), &got), -EBADMSG);
}

TEST(members_that_contradict_each_other_are_refused)
{
        struct intercept_message m = ask;

#define REFUSED(from, member, value) \
        do {                         \
                m = (from);          \
                m.member = (value);  \
                is_refused(&m);      \
        } while (0)
        REFUSED(ask, question.id, 0);
        REFUSED(ask, question.pid, -1);
        REFUSED(ask, question.action, INTERCEPT_RUN);
        REFUSED(ask, question.accepted, INTERCEPT_DENY);
        REFUSED(ask, question.accepted, INTERCEPT_ASK);
        REFUSED(ask, question.file, S("a\0b"));
        REFUSED(ask, question.file, (struct slice){ 0 });
        REFUSED(ask, question.cwd, S("\0"));
        REFUSED(ask, question.cwd, (struct slice){ 0 });
        REFUSED(ask, question.argv, (struct slice){ 0 });
        REFUSED(ask, question.argv, S("a\0\0b"));
        REFUSED(ask, question.argc, 2);
        REFUSED(ask, question.argc, 4);
        REFUSED(ask, question.omitted_bytes, 1);
        REFUSED(ask, question.rule_text, S("a\0"));
        REFUSED(ask, question.rule_text, (struct slice){ 0 });
        REFUSED(told, question.id, 1);
        REFUSED(told, question.action, INTERCEPT_ASK);
        REFUSED(withdrawn, withdrawn, 0);
        REFUSED(withdrawn, kind, (enum intercept_kind)0);
        REFUSED(withdrawn, kind, (enum intercept_kind)5);
        REFUSED(answer, answer.id, 0);
        REFUSED(answer, answer.action, INTERCEPT_ASK);
#undef REFUSED
}

TEST(a_frame_must_be_as_long_as_it_says)
{
        struct intercept_message got;
        static const char empty[4] = { 0 }, huge[4] = { '\xff', '\xff', '\xff', '\xff' };

        eq_int(intercept_message_read(slice_from(empty, 4), &got), -EBADMSG);
        eq_int(intercept_message_read(slice_from(huge, 4), &got), -EBADMSG);
        for (int change = -1; change <= 1; change += 2) {
                _buf_ struct buf out = BUF_INIT(1000);
                uint32_t length;
                write_frame(&out, &answer);
                memcpy(&length, out.p, sizeof(length));
                length += (uint32_t)change;
                memcpy(out.p, &length, sizeof(length));
                eq_int(buf_append_char(&out, 0), 0);
                eq_int(intercept_message_read(buf_slice(&out), &got), -EBADMSG);
        }
}

TEST(what_is_too_long_is_neither_written_nor_read)
{
        _buf_ struct buf out = BUF_INIT(2 * LIMIT_INTERCEPT_FRAME_BYTES);
        size_t n = LIMIT_INTERCEPT_ARGV_BYTES + 1;
        _free_ char *zeros = mem_zalloc(LIMIT_INTERCEPT_FRAME_BYTES);
        struct intercept_message m = ask, got;

        m.question.argv = slice_from(zeros, n);
        m.question.argc = (uint32_t)n;
        is_refused(&m);
        m.question.argv.n = m.question.argc = (uint32_t)n - 1;
        write_frame(&out, &m);
        eq_int(intercept_message_read(buf_slice(&out), &got), (int)out.n);
        m.question.argv = slice_from(zeros, LIMIT_INTERCEPT_FRAME_BYTES);
        eq_int(intercept_message_write(&out, &m), -EMSGSIZE);

        m = answer;
        m.answer.reason = slice_from(zeros, LIMIT_INTERCEPT_REASON_BYTES + 1);
        is_refused(&m);

        _buf_ struct buf small = BUF_INIT(20);
        eq_int(intercept_message_write(&small, &ask), -ENOBUFS);
        eq_u64(small.n, 0);
}
