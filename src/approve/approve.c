/* approve: the way of one action from the wish through questions to its last run. */
#include "approve/approve.h"

#include "approve/grants.h"
#include "approve/permissions.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

struct approvals {
        enum approval_policy policy;
        char *profile;      /* in the stored form; NULL: no sandbox */
        bool is_restricted; /* the profile takes something away */
        struct approvals_asker asker;
        struct grants grants;
        struct list asking; /* approval::link, of those whose question is open */
        size_t open_count;
        uint64_t last_id;
};

/* How an action is run. */
enum mode { MODE_DEFAULT, MODE_ADDITIONAL, MODE_OUTSIDE };

struct approval {
        struct list link; /* approvals::asking */
        struct approvals *approvals;
        struct arena arena; /* holds the action and its texts */
        struct approval_action action;
        enum approval_state state;
        enum mode mode;       /* of the run that is due, or of the last one */
        char *additional;     /* as permissions_read_additional writes them; NULL: none */
        char *permissions;    /* the profile of the next run; NULL: no sandbox */
        const char *text;     /* why the action is refused */
        const char *denials;  /* what the sandbox denied in the last run, as JSON; NULL: not told */
        size_t omitted;       /* how many denials that list leaves out */
        uint64_t question_id; /* 0: none is open */
        enum approval_reason reason;
        enum mode asked_mode;  /* how the action is run after a yes to the open question */
        bool was_asked_denied; /* a question was asked after a denial; there is no second one */
        bool was_denied;       /* APPROVAL_LOOKING: after a denial; otherwise before the first run */
        bool is_bound;         /* the run that is due was allowed for the real paths */
        bool is_inside; /* approval_new, approval_ran or approval_looked is under way: on_change is not called */
        void (*on_change)(struct approval *p, void *arg);
        void *arg;
};

/* ---- names ---- */

const char *approval_reason_name(enum approval_reason reason)
{
        static const char *const names[] = {
                [APPROVAL_BECAUSE_UNTRUSTED] = "untrusted", [APPROVAL_BECAUSE_ADDITIONAL] = "additional",
                [APPROVAL_BECAUSE_ESCALATED] = "escalated", [APPROVAL_BECAUSE_DENIED] = "denied",
                [APPROVAL_BECAUSE_RULES] = "rules",         [APPROVAL_BECAUSE_HOST] = "host",
        };

        return names[reason];
}

/* ---- what an action becomes ---- */

static void refuse(struct approval *p, const char *text)
{
        p->state = APPROVAL_REFUSED;
        p->text = text;
}

/* Lets the action be run. Permissions that cannot be put together refuse it. */
static void run(struct approval *p, enum mode mode)
{
        struct approvals *a = p->approvals;
        struct err err = ERR_INIT;
        char *sum = NULL;

        if (mode == MODE_ADDITIONAL && permissions_add(a->profile, p->additional, &sum, &err) < 0) {
                refuse(p, arena_printf(&p->arena, "additional_permissions: %s", err.text));
                return;
        }
        free(p->permissions);
        p->permissions = mode == MODE_ADDITIONAL ? sum : mode == MODE_DEFAULT ? mem_strdup(a->profile) : NULL;
        p->mode = mode;
        p->state = APPROVAL_RUN;
}

static const char *mode_additional(const struct approval *p, enum mode mode)
{
        return mode == MODE_ADDITIONAL ? p->additional : NULL;
}

static bool is_outside(const struct approval *p, enum mode mode)
{
        return mode == MODE_OUTSIDE || !p->approvals->profile;
}

static bool is_granted(const struct approval *p, enum mode mode)
{
        return grants_have(&p->approvals->grants, &p->action, is_outside(p, mode), mode_additional(p, mode));
}

/* Returns whether a rule of the user allows this run. Such a rule always means a run outside of the sandbox, so it allows no other
 * run. */
static bool was_allowed(const struct approval *p, enum mode mode)
{
        const struct approvals_asker *asker = &p->approvals->asker;
        return mode == MODE_OUTSIDE && p->action.argv && asker->has_allowed &&
               asker->has_allowed(asker->arg, &p->action);
}

static void close_question(struct approval *p)
{
        list_remove(&p->link);
        p->approvals->open_count--;
        p->question_id = 0;
}

/* Ends the action after a no: it is not run, or, when it was run before, that result stays. */
static void take_no(struct approval *p, const char *text)
{
        if (p->reason == APPROVAL_BECAUSE_DENIED)
                p->state = APPROVAL_OVER;
        else
                refuse(p, text);
}

static size_t list_bytes(const char *const *list)
{
        size_t n = 0;

        for (; list && *list; list++)
                n += strlen(*list) + 1;
        return n;
}

static size_t text_bytes(const char *text)
{
        return text ? strlen(text) : 0;
}

/* Returns how many bytes of a question a person would have to read. */
static size_t question_bytes(const struct approval *p)
{
        const struct approval_action *a = &p->action;

        return list_bytes(a->argv) + list_bytes(a->paths) + list_bytes(a->real_paths) + text_bytes(a->cwd) +
               text_bytes(a->justification) + text_bytes(p->additional);
}

/* Returns why nobody can be asked, or NULL. */
static const char *why_not_asked(const struct approval *p)
{
        if (!p->approvals->asker.ask)
                return "an approval is needed, and there is nobody to ask";
        if (p->approvals->open_count >= LIMIT_APPROVAL_QUESTIONS)
                return "an approval is needed, and too many questions are open";
        if (question_bytes(p) > LIMIT_APPROVAL_QUESTION_BYTES)
                return "an approval is needed, and what is to be done is too long to be asked about";
        return NULL;
}

static void ask(struct approval *p, enum approval_reason reason, enum mode mode)
{
        struct approvals *a = p->approvals;

        p->reason = reason;
        p->asked_mode = mode;
        p->was_asked_denied |= reason == APPROVAL_BECAUSE_DENIED;
        const char *why_not = why_not_asked(p);
        if (why_not) {
                take_no(p, why_not);
                return;
        }
        p->state = APPROVAL_ASKING;
        p->question_id = ++a->last_id;
        list_append(&a->asking, &p->link);
        a->open_count++;
        a->asker.ask(a->asker.arg, &(struct approval_question){
                                           .id = p->question_id,
                                           .reason = reason,
                                           .action = &p->action,
                                           .is_outside = is_outside(p, mode),
                                           .permissions = mode_additional(p, mode),
                                           .denials = p->denials,
                                           .omitted = p->omitted,
                                   });
}

/* Lets an action be run that somebody has allowed. The run of a patch is bound to the real paths that are known. */
static void run_allowed(struct approval *p, enum mode mode)
{
        p->is_bound = p->action.argv == NULL;
        run(p, mode);
}

/* Runs the action in this mode when that was granted for the session; else asks. */
static void run_or_ask(struct approval *p, enum approval_reason reason, enum mode mode)
{
        if (is_granted(p, mode))
                run_allowed(p, mode);
        else
                ask(p, reason, mode);
}

static void begin_wish(struct approval *p, enum approval_reason reason, enum mode mode)
{
        switch (p->approvals->policy) {
        case APPROVAL_NEVER:
                refuse(p, "the approval policy is `never`, so that no permissions beyond the sandbox can be "
                          "had: "
                          "run it without sandbox_permissions");
                break;
        case APPROVAL_ON_FAILURE:
                if (is_granted(p, mode))
                        run_allowed(p, mode);
                else
                        run(p, MODE_DEFAULT);
                break;
        case APPROVAL_ON_REQUEST:
        case APPROVAL_UNTRUSTED:
                run_or_ask(p, reason, mode);
                break;
        }
}

/* Begins a program about which rules ask. When a rule asks, a yes runs the program outside of the sandbox; otherwise in the
 * sandbox. */
static void begin_program(struct approval *p)
{
        enum mode mode = p->action.rule ? MODE_OUTSIDE : MODE_DEFAULT;

        if (p->approvals->policy == APPROVAL_NEVER)
                refuse(p, "Execution forbidden by policy");
        else if (was_allowed(p, mode))
                run_allowed(p, mode);
        else
                run_or_ask(p, APPROVAL_BECAUSE_RULES, mode);
}

static void begin_host(struct approval *p)
{
        if (p->approvals->policy == APPROVAL_NEVER)
                refuse(p, "not allowed");
        else
                run_or_ask(p, APPROVAL_BECAUSE_HOST, MODE_DEFAULT);
}

static void begin(struct approval *p)
{
        const struct approvals *a = p->approvals;
        enum approval_wish wish = a->is_restricted ? p->action.wish : APPROVAL_USE_DEFAULT;

        if (p->action.is_program)
                begin_program(p);
        else if (p->action.host)
                begin_host(p);
        else if (a->is_restricted && (is_granted(p, MODE_OUTSIDE) || was_allowed(p, MODE_OUTSIDE)))
                run_allowed(p, MODE_OUTSIDE);
        else if (wish == APPROVAL_WITH_ADDITIONAL)
                begin_wish(p, APPROVAL_BECAUSE_ADDITIONAL, MODE_ADDITIONAL);
        else if (wish == APPROVAL_REQUIRE_ESCALATED)
                begin_wish(p, APPROVAL_BECAUSE_ESCALATED, MODE_OUTSIDE);
        else if (a->policy == APPROVAL_UNTRUSTED && !p->action.is_read)
                run_or_ask(p, APPROVAL_BECAUSE_UNTRUSTED, MODE_DEFAULT);
        else
                run(p, MODE_DEFAULT);
}

/* Returns whether the first step of an action depends on the real paths of its patch. */
static bool must_look_first(const struct approval *p)
{
        const struct approvals *a = p->approvals;

        if (p->action.argv)
                return false;
        return (a->policy == APPROVAL_UNTRUSTED && !p->action.is_read) ||
               (a->is_restricted && grants_know_patches(&a->grants)) ||
               (a->is_restricted && a->policy == APPROVAL_ON_REQUEST &&
                p->action.wish != APPROVAL_USE_DEFAULT);
}

/* Goes on after a denial: runs the action again when that was granted, otherwise asks. */
static void go_on(struct approval *p)
{
        run_or_ask(p, APPROVAL_BECAUSE_DENIED,
                   p->additional && p->mode == MODE_DEFAULT ? MODE_ADDITIONAL : MODE_OUTSIDE);
}

static void look(struct approval *p, bool was_denied)
{
        p->was_denied = was_denied;
        p->is_bound = false;
        p->state = APPROVAL_LOOKING;
}

/* ---- the life of an action ---- */

static const char *const *copy_list(struct arena *a, const char *const *list)
{
        size_t n = 0;

        while (list && list[n])
                n++;
        const char **copy = arena_zalloc(a, (n + 1) * sizeof(*copy));
        for (size_t i = 0; i < n; i++)
                copy[i] = arena_dup(a, slice_from_str(list[i]));
        return copy;
}

static const char *copy_text(struct arena *a, const char *text)
{
        return text ? arena_dup(a, slice_from_str(text)) : NULL;
}

static void copy_action(struct approval *p, const struct approval_action *action)
{
        struct arena *a = &p->arena;

        p->action = (struct approval_action){
                .call_id = copy_text(a, action->call_id),
                .environment_id = copy_text(a, action->environment_id),
                .cwd = copy_text(a, action->cwd),
                .argv = action->argv ? copy_list(a, action->argv) : NULL,
                .tty = action->tty,
                .paths = copy_list(a, action->paths), /* real_paths: when somebody has looked */
                .wish = action->wish,
                .justification = copy_text(a, action->justification),
                .additional = copy_text(a, action->additional),
                .is_read = action->is_read,
                .is_program = action->is_program,
                .host = copy_text(a, action->host),
                .protocol = copy_text(a, action->protocol),
                .port = action->port,
                .has_port_rules = action->has_port_rules,
                .rule = copy_text(a, action->rule),
        };
}

/* Checks the wish against the additional permissions that came with it. Returns false after it has refused the action. */
static bool check_wish(struct approval *p)
{
        struct err err = ERR_INIT;
        bool wants = p->action.wish == APPROVAL_WITH_ADDITIONAL;

        if (wants && !p->action.additional)
                refuse(p, "sandbox_permissions `with_additional_permissions` needs additional_permissions");
        else if (!wants && p->action.additional)
                refuse(p, "additional_permissions needs sandbox_permissions `with_additional_permissions`");
        else if (wants && permissions_read_additional(p->action.additional, &p->additional, &err) < 0)
                refuse(p, arena_printf(&p->arena, "additional_permissions: %s", err.text));
        else
                return true;
        return false;
}

struct approval *approval_new(struct approvals *a, const struct approval_action *action,
                              void (*on_change)(struct approval *p, void *arg), void *arg)
{
        struct approval *p = mem_new(struct approval);

        list_init(&p->link);
        p->approvals = a;
        p->on_change = on_change;
        p->arg = arg;
        copy_action(p, action);
        p->is_inside = true;
        bool is_good = check_wish(p);
        if (is_good && must_look_first(p))
                look(p, false);
        else if (is_good)
                begin(p);
        p->is_inside = false;
        return p;
}

void approval_free(struct approval *p)
{
        if (!p)
                return;
        struct approvals *a = p->approvals;
        uint64_t id = p->question_id;
        if (id)
                close_question(p);
        if (id && a->asker.withdraw)
                a->asker.withdraw(a->asker.arg, id);
        free(p->permissions);
        free(p->additional);
        arena_release(&p->arena);
        free(p);
}

enum approval_state approval_state(const struct approval *p)
{
        return p->state;
}

const char *approval_permissions(const struct approval *p)
{
        return p->permissions;
}

const char *const *approval_real_paths(const struct approval *p)
{
        return p->is_bound ? p->action.real_paths : NULL;
}

const char *approval_text(const struct approval *p)
{
        return p->text;
}

void approval_ran(struct approval *p, bool was_denied, const char *denials, size_t omitted)
{
        const struct approvals *a = p->approvals;

        must(p->state == APPROVAL_RUN);
        p->state = APPROVAL_OVER;
        if (!was_denied || p->action.is_program || p->action.host || p->mode == MODE_OUTSIDE ||
            !a->is_restricted || a->policy == APPROVAL_NEVER || p->was_asked_denied)
                return;
        p->denials = copy_text(&p->arena, denials);
        p->omitted = omitted;
        p->is_inside = true;
        if (p->action.argv)
                go_on(p);
        else
                look(p, true);
        p->is_inside = false;
}

void approval_looked(struct approval *p, const char *const *real_paths)
{
        must(p->state == APPROVAL_LOOKING);
        p->is_inside = true;
        p->action.real_paths = real_paths ? copy_list(&p->arena, real_paths) : NULL;
        if (!real_paths && p->was_denied)
                p->state = APPROVAL_OVER;
        else if (!real_paths)
                refuse(p, "where the paths of the patch lead cannot be found out");
        else if (p->was_denied)
                go_on(p);
        else
                begin(p);
        p->is_inside = false;
}

/* ---- answers ---- */

static void take_answer(struct approval *p, enum approval_answer answer, const char *text)
{
        enum mode mode = p->asked_mode;

        close_question(p);
        if (answer == APPROVAL_NO) {
                take_no(p, text);
        } else {
                if (answer == APPROVAL_FOR_SESSION)
                        grants_add(&p->approvals->grants, &p->action, is_outside(p, mode),
                                   mode_additional(p, mode));
                run_allowed(p, mode);
        }
        if (!p->is_inside)
                p->on_change(p, p->arg);
}

static bool answer(struct approvals *a, uint64_t question_id, enum approval_answer what, const char *text)
{
        struct approval *it;

        list_each (it, &a->asking, link) {
                if (it->question_id == question_id) {
                        take_answer(it, what, text);
                        return true;
                }
        }
        return false;
}

bool approvals_answer(struct approvals *a, uint64_t question_id, enum approval_answer what)
{
        return answer(a, question_id, what, "the answer was no");
}

bool approvals_refuse(struct approvals *a, uint64_t question_id, const char *text)
{
        return answer(a, question_id, APPROVAL_NO, text);
}

void approvals_lose_asker(struct approvals *a)
{
        struct approval *it;

        a->asker.ask = NULL;
        a->asker.withdraw = NULL;
        while ((it = list_first(&a->asking, struct approval, link)))
                take_answer(it, APPROVAL_NO, "an approval is needed, and there is nobody to ask any more");
}

/* ---- the user of the tools ---- */

struct approvals *approvals_new(enum approval_policy policy, const char *profile,
                                const struct approvals_asker *asker, struct err *err)
{
        _free_ char *text = NULL;
        bool is_open = true;

        if (profile && permissions_read(profile, &text, &is_open, err) < 0)
                return NULL;
        struct approvals *a = mem_new(struct approvals);
        a->policy = policy;
        a->profile = TAKE(text);
        a->is_restricted = !is_open;
        a->asker = asker ? *asker : (struct approvals_asker){ 0 };
        grants_init(&a->grants);
        list_init(&a->asking);
        return a;
}

int approvals_use_profile(struct approvals *a, const char *profile, struct err *err)
{
        bool is_open;
        char *text;
        int r = permissions_read(profile, &text, &is_open, err);

        if (r < 0)
                return r;
        free(a->profile);
        a->profile = text;
        a->is_restricted = !is_open;
        return 0;
}

void approvals_free(struct approvals *a)
{
        if (!a)
                return;
        must(list_is_empty(&a->asking));
        grants_release(&a->grants);
        free(a->profile);
        free(a);
}

size_t approvals_open_count(const struct approvals *a)
{
        return a->open_count;
}

void approvals_write_grants(const struct approvals *a, struct jsonw *w)
{
        grants_write(&a->grants, w);
}
