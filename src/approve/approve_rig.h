/* approve_rig: for the tests of approvals: profiles, actions, and a person who is asked about them. */
#pragma once

#include "approve/approve.h"
#include "base/buf.h"
#include "base/fatal.h"
#include "unit.h"

#define READ_ONLY                                                                                          \
        "{\"type\":\"managed\",\"file_system\":{\"type\":\"restricted\",\"entries\":[{\"path\":{\"type\":" \
        "\"special\","                                                                                     \
        "\"value\":{\"kind\":\"root\"}},\"access\":\"read\"}]},\"network\":\"restricted\"}"
#define WITH_CACHE                                                                                         \
        "{\"type\":\"managed\",\"file_system\":{\"type\":\"restricted\",\"entries\":[{\"path\":{\"type\":" \
        "\"special\","                                                                                     \
        "\"value\":{\"kind\":\"root\"}},\"access\":\"read\"},{\"path\":{\"type\":\"path\",\"path\":\"/"    \
        "cache\"},"                                                                                        \
        "\"access\":\"write\"}]},\"network\":\"restricted\"}"
#define CACHE "{\"file_system\":{\"write\":[\"/cache\"]}}"
#define NOTHING "{\"type\":\"disabled\"}"

/* A person who is asked. Everything that happens is noted as words. */
struct person {
        struct approvals *approvals;
        struct buf seen;
        uint64_t id;
        enum approval_answer answer_now; /* with `is_quick`: the answer during the question */
        bool is_quick;
        unsigned changes;
};

static inline void on_ask(void *arg, const struct approval_question *q)
{
        struct person *who = arg;

        must(buf_printf(&who->seen, "%s%s%s%s%s", who->seen.n ? " " : "", approval_reason_name(q->reason),
                        q->is_outside ? "/outside" : "", q->permissions ? "/more" : "",
                        q->denials ? q->denials : "") == 0);
        who->id = q->id;
        ok(q->action->argv || q->action->paths);
        if (who->is_quick)
                ok(approvals_answer(who->approvals, q->id, who->answer_now));
}

static inline void on_withdraw(void *arg, uint64_t id)
{
        struct person *who = arg;

        ok(id > 0 && id <= who->id);
        must(buf_printf(&who->seen, " withdrawn") == 0);
}

static inline void on_change(UNUSED struct approval *p, void *arg)
{
        ((struct person *)arg)->changes++;
}

static inline void person_begin(struct person *who, enum approval_policy policy, const char *profile)
{
        struct approvals_asker asker = { .ask = on_ask, .withdraw = on_withdraw, .arg = who };
        struct err err = ERR_INIT;

        *who = (struct person){ .seen = BUF_INIT(4096) };
        who->approvals = approvals_new(policy, profile, &asker, &err);
        ok(who->approvals != NULL);
}

static inline void person_end(struct person *who)
{
        approvals_free(who->approvals);
        buf_release(&who->seen);
}

static const char *const make[] = { "make", "all", NULL };
static const char *const two_files[] = { "/w/a", "/w/b", NULL };

static inline struct approval *begin(struct person *who, enum approval_wish wish)
{
        struct approval_action action = {
                .environment_id = "local",
                .cwd = "/w",
                .argv = make,
                .wish = wish,
                .additional = wish == APPROVAL_WITH_ADDITIONAL ? CACHE : NULL,
        };

        return approval_new(who->approvals, &action, on_change, who);
}

/* Appends what the approval says is to be done now. */
static inline void note(struct person *who, const struct approval *p)
{
        const char *words[] = {
                [APPROVAL_ASKING] = "?", [APPROVAL_REFUSED] = "refused", [APPROVAL_OVER] = "over"
        };
        enum approval_state state = approval_state(p);
        const char *profile = approval_permissions(p);
        const char *word = state != APPROVAL_RUN              ? words[state]
                           : !profile                         ? "RUN-OUTSIDE"
                           : strcmp(profile, READ_ONLY) == 0  ? "RUN"
                           : strcmp(profile, WITH_CACHE) == 0 ? "RUN-MORE"
                           : strcmp(profile, NOTHING) == 0    ? "RUN-OPEN"
                                                              : "RUN-STRANGE";

        must(buf_printf(&who->seen, "%s%s", who->seen.n ? " " : "", word) == 0);
        ok((state == APPROVAL_REFUSED) == (approval_text(p) != NULL));
}
