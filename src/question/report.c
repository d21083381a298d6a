/* report: what the server knows of a process: how it ended, what it has used, and what it was refused. */
#include "question/question.h"

#include "base/clock.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

#define WAIT_MAX_MS 600000 /* the longest wait of one request that servers grant */

/* Returns what was refused, in the arena, and how much that is. */
static const struct farhand_refused *read_refused(struct question *q, size_t *ret)
{
        const struct json *denials = json_get(&q->doc, question_root(q), S("denials"));
        *ret = 0;
        if (!denials || denials->type != JSON_ARRAY)
                return NULL;
        struct farhand_refused *refused =
                arena_alloc(&q->arena, (json_count(&q->doc, denials) + 1) * sizeof(*refused));
        json_each (it, &q->doc, denials) {
                struct farhand_refused one = {
                        .operation = member_text(&q->arena, &q->doc, it, S("operation")),
                        .path = member_path(&q->arena, &q->doc, it, S("path")),
                        .address = member_text(&q->arena, &q->doc, it, S("address")),
                        .source = member_text(&q->arena, &q->doc, it, S("source")),
                };
                if (one.operation && one.source)
                        refused[(*ret)++] = one;
        }
        return refused;
}

static void read_report(struct question *q, struct farhand_report *ret)
{
        const struct json *root = question_root(q), *usage = json_get(&q->doc, root, S("usage")),
                          *intercepted = json_get(&q->doc, root, S("intercepted"));
        *ret = (struct farhand_report){ .has_exited = member_is_true(&q->doc, root, S("exited")),
                                        .is_closed = member_is_true(&q->doc, root, S("closed")) };
        (void)member_u64(&q->doc, root, S("nextSeq"), &ret->next_seq);
        if (!ret->has_exited)
                return;
        client_exit_read(&q->doc, root, &ret->exit);
        ret->has_usage = member_u64(&q->doc, usage, S("userMs"), &ret->user_ms) &&
                         member_u64(&q->doc, usage, S("systemMs"), &ret->system_ms) &&
                         member_u64(&q->doc, usage, S("maxRssBytes"), &ret->max_rss_bytes);
        ret->is_intercepted = member_u64(&q->doc, intercepted, S("run"), &ret->run) &&
                              member_u64(&q->doc, intercepted, S("escalated"), &ret->escalated) &&
                              member_u64(&q->doc, intercepted, S("denied"), &ret->denied);
        ret->refused = read_refused(q, &ret->refused_count);
}

int farhand_target_report(struct farhand *f, const struct farhand_target *target,
                          const struct farhand_report_options *given,
                          void (*on_report)(void *arg, const struct farhand_report *report), void *arg,
                          struct farhand_error *ret_error)
{
        struct farhand_report_options options = FARHAND_REPORT_OPTIONS_INIT;
        if (given && given->size < offsetof(struct farhand_report_options, drain_ms))
                return error_set(
                        ret_error, -EINVAL,
                        "struct farhand_report_options has no size: use FARHAND_REPORT_OPTIONS_INIT");
        if (given)
                memcpy(&options, given, MIN(given->size, sizeof(options)));
        if ((unsigned)options.until > FARHAND_UNTIL_EXITED)
                return error_set(ret_error, -EINVAL, "a process has no such state");
        uint64_t end = client_wait_end(options.timeout_ms);
        for (;;) {
                _question_ struct question q = QUESTION_INIT;
                struct farhand_report report;
                uint64_t now = clock_mono_ms();
                int r = question_target(&q, f, target, "process/wait", FARHAND_REPEAT, true, ret_error);
                if (r < 0)
                        return r;
                jsonw_member_str(&q.w, "until", options.until == FARHAND_UNTIL_EXITED ? "exited" : "closed");
                jsonw_member_u64(&q.w, "waitMs", now < end ? MIN(end - now, (uint64_t)WAIT_MAX_MS) : 0);
                if (options.drain_ms >= 0)
                        jsonw_member_i64(&q.w, "drainMs", options.drain_ms);
                r = question_ask(&q, ret_error);
                if (r < 0)
                        return r;
                read_report(&q, &report);
                if (member_is_true(&q.doc, question_root(&q), S("timedOut")) && !report.is_closed &&
                    (options.drain_ms < 0 || !report.has_exited) && clock_mono_ms() < end)
                        continue;
                on_report(arg, &report);
                return 0;
        }
}
