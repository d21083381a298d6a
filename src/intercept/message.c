/* message: writes and reads the frames between the broker of a command and the server. */
#include "intercept/message.h"

#include "base/limits.h"

#include <errno.h>

#define NO_TEXT UINT32_MAX /* the length of a slice with p == NULL */

/* Where the members go; with p == NULL they are only counted. */
struct writer {
        char *p;
        size_t n;
        bool is_too_long;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
        if (ckd_add(&w->n, w->n, n)) {
                w->is_too_long = true;
                return;
        }
        if (w->p && n > 0)
                memcpy(w->p + w->n - n, bytes, n);
}

static void put_u8(struct writer *w, unsigned value)
{
        put(w, &(uint8_t){ (uint8_t)value }, 1);
}

static void put_u32(struct writer *w, uint32_t value)
{
        put(w, &value, sizeof(value));
}

static void put_u64(struct writer *w, uint64_t value)
{
        put(w, &value, sizeof(value));
}

static void put_text(struct writer *w, struct slice s)
{
        if (s.n >= NO_TEXT)
                w->is_too_long = true;
        put_u32(w, s.p ? (uint32_t)s.n : NO_TEXT);
        put(w, s.p, s.p ? s.n : 0);
}

static void put_question(struct writer *w, const struct intercept_question *q)
{
        put_u32(w, q->id);
        put_u32(w, (uint32_t)q->pid);
        put_u8(w, q->action);
        put_u8(w, q->accepted);
        put_text(w, q->file);
        put_text(w, q->cwd);
        put_text(w, q->argv);
        put_u32(w, q->argc);
        put_u64(w, q->omitted_bytes);
        put_text(w, q->rule_text);
        put_u32(w, q->rule_line);
        put_text(w, q->justification);
}

static void put_answer(struct writer *w, const struct intercept_answer *answer)
{
        put_u32(w, answer->id);
        put_u8(w, answer->action);
        put_u8(w, answer->is_remembered);
        put_text(w, answer->reason);
}

static void put_message(struct writer *w, uint32_t length, const struct intercept_message *m)
{
        put_u32(w, length);
        put_u8(w, m->kind);
        switch (m->kind) {
        case INTERCEPT_MSG_ASK:
        case INTERCEPT_MSG_TOLD:
                put_question(w, &m->question);
                break;
        case INTERCEPT_MSG_WITHDRAWN:
                put_u32(w, m->withdrawn);
                break;
        case INTERCEPT_MSG_ANSWER:
                put_answer(w, &m->answer);
                break;
        }
}

int intercept_message_write(struct buf *out, const struct intercept_message *m)
{
        struct writer w = { 0 };

        put_message(&w, 0, m);
        if (w.is_too_long || w.n > LIMIT_INTERCEPT_FRAME_BYTES)
                return -EMSGSIZE;
        int r = buf_reserve_or_fail(out, w.n, &w.p);
        if (r < 0)
                return r;
        uint32_t length = (uint32_t)(w.n - sizeof(length));
        w.n = 0;
        put_message(&w, length, m);
        buf_commit(out, w.n);
        return 0;
}

/* ---- reading ---- */

struct reader {
        struct slice rest;
        bool is_broken;
};

static void get(struct reader *r, void *ret, size_t n)
{
        if (r->is_broken || r->rest.n < n) {
                r->is_broken = true;
                memset(ret, 0, n);
                return;
        }
        memcpy(ret, r->rest.p, n);
        r->rest = slice_from(r->rest.p + n, r->rest.n - n);
}

static uint8_t get_u8(struct reader *r)
{
        uint8_t value;
        get(r, &value, sizeof(value));
        return value;
}

static uint32_t get_u32(struct reader *r)
{
        uint32_t value;
        get(r, &value, sizeof(value));
        return value;
}

static uint64_t get_u64(struct reader *r)
{
        uint64_t value;
        get(r, &value, sizeof(value));
        return value;
}

static bool get_bool(struct reader *r)
{
        uint8_t value = get_u8(r);
        r->is_broken |= value > 1;
        return value == 1;
}

/* Reads an action from `first` to `last`. INTERCEPT_ASK, the largest, is no decision, and `last` excludes it where a decision must stand. */
static enum intercept_action get_action(struct reader *r, enum intercept_action first,
                                        enum intercept_action last)
{
        uint8_t value = get_u8(r);
        if (value >= first && value <= last)
                return (enum intercept_action)value;
        r->is_broken = true;
        return INTERCEPT_DENY;
}

static struct slice get_text(struct reader *r)
{
        uint32_t n = get_u32(r);
        if (n == NO_TEXT)
                return (struct slice){ 0 };
        r->is_broken |= r->rest.n < n;
        if (r->is_broken)
                return (struct slice){ 0 };
        struct slice s = slice_from(r->rest.p, n);
        r->rest = slice_from(r->rest.p + n, r->rest.n - n);
        return s;
}

/* Reads a text that must be there and can be a C string. */
static struct slice get_path(struct reader *r)
{
        struct slice s = get_text(r);
        r->is_broken |= !s.p || slice_has_nul(s);
        return s;
}

/* Are these `argc` arguments, each with its NUL? */
static bool are_arguments(struct slice argv, uint32_t argc)
{
        uint32_t found = 0;
        if (!argv.p)
                return false;
        for (const char *p = argv.p, *end = argv.p + argv.n; p < end; p++, found++) {
                p = memchr(p, 0, (size_t)(end - p));
                if (!p)
                        return false;
        }
        return found == argc;
}

static void get_question(struct reader *r, bool is_ask, struct intercept_question *q)
{
        q->id = get_u32(r);
        q->pid = (int32_t)get_u32(r);
        q->action = is_ask ? get_action(r, INTERCEPT_ASK, INTERCEPT_ASK)
                           : get_action(r, INTERCEPT_RUN, INTERCEPT_DENY);
        q->accepted = get_action(r, INTERCEPT_RUN, is_ask ? INTERCEPT_ESCALATE : INTERCEPT_DENY);
        q->file = get_path(r);
        q->cwd = get_path(r);
        q->argv = get_text(r);
        q->argc = get_u32(r);
        q->omitted_bytes = get_u64(r);
        q->rule_text = get_text(r);
        q->rule_line = get_u32(r);
        q->justification = get_text(r);
        r->is_broken |= (q->id != 0) != is_ask || q->pid < 0 || !are_arguments(q->argv, q->argc) ||
                        q->argv.n > LIMIT_INTERCEPT_ARGV_BYTES || (is_ask && q->omitted_bytes > 0) ||
                        slice_has_nul(q->rule_text) || (!q->rule_text.p && q->justification.p);
}

static void get_answer(struct reader *r, struct intercept_answer *answer)
{
        answer->id = get_u32(r);
        answer->action = get_action(r, INTERCEPT_RUN, INTERCEPT_DENY);
        answer->is_remembered = get_bool(r);
        answer->reason = get_text(r);
        r->is_broken |= answer->id == 0 || answer->reason.n > LIMIT_INTERCEPT_REASON_BYTES;
}

ssize_t intercept_message_read(struct slice in, struct intercept_message *ret)
{
        struct intercept_message m = { 0 };
        uint32_t length;

        if (in.n < sizeof(length))
                return 0;
        memcpy(&length, in.p, sizeof(length));
        if (length > LIMIT_INTERCEPT_FRAME_BYTES - sizeof(length))
                return -EBADMSG;
        if (in.n - sizeof(length) < length)
                return 0;

        struct reader r = { .rest = slice_from(in.p + sizeof(length), length) };
        m.kind = (enum intercept_kind)get_u8(&r);
        switch (m.kind) {
        case INTERCEPT_MSG_ASK:
        case INTERCEPT_MSG_TOLD:
                get_question(&r, m.kind == INTERCEPT_MSG_ASK, &m.question);
                break;
        case INTERCEPT_MSG_WITHDRAWN:
                m.withdrawn = get_u32(&r);
                r.is_broken |= m.withdrawn == 0;
                break;
        case INTERCEPT_MSG_ANSWER:
                get_answer(&r, &m.answer);
                break;
        default:
                return -EBADMSG;
        }
        if (r.is_broken || r.rest.n > 0)
                return -EBADMSG;
        *ret = m;
        return (ssize_t)(sizeof(length) + length);
}
