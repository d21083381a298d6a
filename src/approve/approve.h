/* approve: decides how a tool may do something: in the sandbox, with more permissions, outside of it, or not at all.
 *
 * A `struct approvals` belongs to one user of the tools: its policy, its default profile, who is asked, and what was granted for the
 * session. A `struct approval` is one action, a command or a patch, from the wish to the last run:
 *
 *     approval_new ──> RUN ──approval_ran──> OVER          the result of the last run is the result
 *          │            ^         │
 *          ├─> ASKING ──┤ yes     └─> ASKING (the sandbox denied it) ── yes ──> RUN ── no ──> OVER
 *          │            └ no ──> REFUSED                   nothing was run
 *          └─> REFUSED
 *
 * What a patch means depends on links, which may be changed at any time. Before somebody is asked about a patch, and before a grant is
 * looked for, the state is LOOKING: the caller finds out the real paths, and tells them with approval_looked. A yes and a grant hold for
 * these alone: a run must refuse whatever is not among approval_real_paths. Such a look comes after each denial again.
 *
 * What the policies mean (a profile that restricts nothing needs no question, except under `untrusted`):
 *
 *                 before the first run                 more permissions are wished for     the sandbox denied it
 *     never       runs in the sandbox                  refused                             the denial is the result
 *     on-request  runs in the sandbox                  asks first                          asks, then runs again
 *     on-failure  runs in the sandbox                  runs in the sandbox                 asks, then runs again
 *     untrusted   asks, then runs in the sandbox       asks first                          asks, then runs again
 *
 * The question after a denial offers what the action wished for: a run with the additional permissions, or one without a sandbox.
 * When the action wished for nothing, or the denied run had the additional permissions, the question offers a run without a sandbox.
 * There is at most one such question for each action.
 *
 * A program about which rules ask is an action with a question before its run, under every policy but `never`, which refuses it. Neither a
 * wish nor a denial belongs to it. The same holds for a host that a command wants to reach.
 *
 * The answer is no when there is nobody to ask, when too many questions are open,
 * when the action is too long for a person to read, and when the asker goes away. Pure: no I/O, no clock. Not for several threads.
 */
#pragma once

#include "approve/action.h"
#include "base/err.h"
#include "wire/jsonw.h"

enum approval_answer {
        APPROVAL_NO,
        APPROVAL_ONCE,
        APPROVAL_FOR_SESSION, /* also for the same action later; for a patch: for its real paths */
};

/* Why somebody is asked. */
enum approval_reason {
        APPROVAL_BECAUSE_UNTRUSTED,  /* the policy asks about every action */
        APPROVAL_BECAUSE_ADDITIONAL, /* the action wishes for additional permissions */
        APPROVAL_BECAUSE_ESCALATED,  /* the action wishes to run without a sandbox */
        APPROVAL_BECAUSE_DENIED,     /* the sandbox denied the action */
        APPROVAL_BECAUSE_RULES,      /* rules ask about a program */
        APPROVAL_BECAUSE_HOST,       /* a command wants to reach a host that it was not granted */
};
const char *approval_reason_name(
        enum approval_reason reason); /* "untrusted", "additional", "escalated", "denied", "rules", "host" */

/* A question is valid during the call of `ask`. */
struct approval_question {
        uint64_t id; /* never 0 */
        enum approval_reason reason;
        const struct approval_action *action;
        bool is_outside;         /* a yes runs the action without a sandbox */
        const char *permissions; /* JSON of the additional permissions that a yes gives; NULL: none */
        const char *denials;     /* what the sandbox denied, as JSON; NULL: not told */
        size_t omitted;          /* how many denials that list leaves out */
};

struct approvals_asker {
        /* Shows a question. The answer is given by approvals_answer, during the call or later. NULL: nobody can be asked. */
        void (*ask)(void *arg, const struct approval_question *question);
        /* The question needs no answer any more. May be NULL. */
        void (*withdraw)(void *arg, uint64_t question_id);
        /* Returns whether the user has written down a rule by which the command or program may run outside of the sandbox. NULL: never. */
        bool (*has_allowed)(void *arg, const struct approval_action *action);
        void *arg;
};

struct approvals;
struct approval;

/* `profile` is the default profile as JSON, in the stored form or in that of requests; NULL: everything runs without a sandbox. The
 * profile and the asker are copied. Returns NULL with *err when the profile is bad. */
struct approvals *approvals_new(enum approval_policy policy, const char *profile,
                                const struct approvals_asker *asker, struct err *err);
void approvals_free(struct approvals *a); /* all approvals must be freed before; NULL is fine */

/* Makes this the default profile of later actions. Returns 0, or -EINVAL with *err. */
NODISCARD int approvals_use_profile(struct approvals *a, const char *profile, struct err *err);

/* Answers a question. Returns false when there is no open question of that id. */
bool approvals_answer(struct approvals *a, uint64_t question_id, enum approval_answer answer);
/* Answers a question with no; `text`, which must be a literal, says why. */
bool approvals_refuse(struct approvals *a, uint64_t question_id, const char *text);
/* Nobody can be asked any more: open questions are answered with no, and so are later ones. */
void approvals_lose_asker(struct approvals *a);
NODISCARD size_t approvals_open_count(const struct approvals *a);
/* Writes the grants of this session as an array of objects. */
void approvals_write_grants(const struct approvals *a, struct jsonw *w);

enum approval_state {
        APPROVAL_RUN,     /* run the action now, with approval_permissions; then call approval_ran */
        APPROVAL_LOOKING, /* find out the real paths of the patch, then call approval_looked */
        APPROVAL_ASKING,  /* a question is open */
        APPROVAL_REFUSED, /* nothing was run and nothing may be; approval_text says why */
        APPROVAL_OVER,    /* nothing more is run: the result of the last run is the result */
};

/* Begins an action. `on_change` is called when an answer has changed the state, but not inside of approval_new, approval_ran and
 * approval_looked: their callers look at the state themselves. It must not free the approval. */
struct approval *approval_new(struct approvals *a, const struct approval_action *action,
                              void (*on_change)(struct approval *p, void *arg), void *arg);
/* Ends the action in any state. An open question is withdrawn. NULL is fine. */
void approval_free(struct approval *p);
NODISCARD enum approval_state approval_state(const struct approval *p);
/* In APPROVAL_RUN: the profile for this run as JSON, for the member `permissions` of a sandbox object; NULL: without a sandbox. */
NODISCARD const char *approval_permissions(const struct approval *p);
/* In APPROVAL_RUN: the only real paths that this run may read and change, ending with NULL; NULL: the sandbox alone decides. Valid until
 * the next call for this approval. */
NODISCARD const char *const *approval_real_paths(const struct approval *p);
/* In APPROVAL_LOOKING: these are the real paths of the patch, which are copied. NULL: they cannot be found out, which is a no. */
void approval_looked(struct approval *p, const char *const *real_paths);
/* In APPROVAL_REFUSED: why the action is refused, for the caller of the tool. */
NODISCARD const char *approval_text(const struct approval *p);
/* Tells that the action was run as approval_permissions said. `denials` is a JSON array, or NULL; `omitted` is how many denials that
 * array leaves out. */
void approval_ran(struct approval *p, bool was_denied, const char *denials, size_t omitted);
