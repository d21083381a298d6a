/* ask: asks the person at the terminal whether an action may be done. */
#include "cli/ask.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/printable.h"
#include "cli/page.h"
#include "cli/typed_answer.h"
#include "wire/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define DENIALS_SHOWN 10

static const char *reason_text(const struct approval_question *q)
{
        switch (q->reason) {
        case APPROVAL_BECAUSE_UNTRUSTED:
                return "An action needs your approval.";
        case APPROVAL_BECAUSE_ADDITIONAL:
                return "An action wants more permissions than its sandbox gives.";
        case APPROVAL_BECAUSE_ESCALATED:
                return "An action wants to run outside of its sandbox.";
        case APPROVAL_BECAUSE_HOST:  /* only where the network is managed */
        case APPROVAL_BECAUSE_RULES: /* only where rules decide about programs */
        case APPROVAL_BECAUSE_DENIED:
                return "The sandbox denied an action.";
        }
        __builtin_trap();
}

static bool is_listed(const char *const *list, const char *text)
{
        for (; *list; list++)
                if (strcmp(*list, text) == 0)
                        return true;
        return false;
}

static void show_action(struct page *p, const struct approval_action *action)
{
        if (action->argv) {
                page_put(p, "  command:");
                for (const char *const *word = action->argv; *word; word++)
                        page_word(p, *word);
                page_end_line(p);
                if (action->tty) {
                        page_put(p, "  with a terminal: what is written to it later is not asked about");
                        page_end_line(p);
                }
        } else {
                for (const char *const *path = action->paths; *path; path++)
                        page_line(p, "patch of", *path);
                for (const char *const *path = action->real_paths; path && *path; path++)
                        if (!is_listed(action->paths, *path))
                                page_line(p, "which leads to", *path);
        }
        if (action->cwd)
                page_line(p, "in", action->cwd);
        if (action->environment_id)
                page_line(p, "on", action->environment_id);
        if (action->justification)
                page_line(p, "why", action->justification);
}

static const char *member_text(struct arena *a, const struct json_doc *doc, const struct json *object,
                               const char *key)
{
        const struct json *v = json_get(doc, object, slice_from_str(key));

        return v && v->type == JSON_STRING ? printable_text(a, json_string(a, doc, v)) : "";
}

/* Writes what was denied, a line for each: the operation, what it was done to, and the rule if it is told; and how many more there are. */
static void show_denials(struct page *p, const char *denials, size_t omitted)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES);
        struct arena *a = p->arena;
        struct json_doc doc;
        struct json_error bad;
        size_t n = 0;

        if (!denials || buf_append(&text, slice_from_str(denials)) < 0 ||
            json_parse(a, buf_slice(&text), &doc, &bad) < 0 || json_root(&doc)->type != JSON_ARRAY)
                return;
        json_each (it, &doc, json_root(&doc)) {
                const char *rule = member_text(a, &doc, it, "rule");
                if (n++ >= DENIALS_SHOWN)
                        continue;
                page_put(p,
                         arena_printf(a, "  denied: %s %s%s%s%s%s", member_text(a, &doc, it, "operation"),
                                      member_text(a, &doc, it, "path"), member_text(a, &doc, it, "address"),
                                      *rule ? " (" : "", rule, *rule ? ")" : ""));
                page_end_line(p);
        }
        omitted += n > DENIALS_SHOWN ? n - DENIALS_SHOWN : 0;
        if (omitted > 0) {
                page_put(p,
                         arena_printf(a, "  and %zu more %s", omitted, omitted == 1 ? "denial" : "denials"));
                page_end_line(p);
        }
}

static enum approval_answer read_answer(FILE *to, int fd)
{
        char line[TYPED_ANSWER_BYTES];

        for (;;) {
                fputs("[y]es, [s]ame for the rest of this session, [N]o? ", to);
                fflush(to);
                /* The end of the terminal and a signal are a no. */
                if (typed_answer_read(fd, line) <= 0)
                        return APPROVAL_NO;
                if (typed_answer_is(line, "y", "yes"))
                        return APPROVAL_ONCE;
                if (typed_answer_is(line, "s", "same"))
                        return APPROVAL_FOR_SESSION;
                if (line[0] == '\0' || typed_answer_is(line, "n", "no"))
                        return APPROVAL_NO;
        }
}

enum approval_answer ask_on_terminal(const struct approval_question *q)
{
        _arena_ struct arena a = ARENA_INIT;
        _close_ int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
        FILE *to = fd >= 0 ? fdopen(dup(fd), "w") : NULL;

        if (!to)
                return APPROVAL_NO;
        (void)tcflush(fd, TCIFLUSH); /* what was typed before the question is no answer */
        struct page page;
        page_begin(&page, to, fd, &a);
        fprintf(to, "\nfarhand: %s\n", reason_text(q));
        show_action(&page, q->action);
        show_denials(&page, q->denials, q->omitted);
        if (q->permissions)
                page_line(&page, "it would get", q->permissions);
        fputs(q->is_outside ? "Run it without a sandbox?\n" : "Allow it?\n", to);
        enum approval_answer answer = read_answer(to, fd);
        fclose(to);
        return answer;
}

static void answer_at_once(void *arg, const struct approval_question *q)
{
        (void)approvals_answer(*(struct approvals **)arg, q->id, ask_on_terminal(q));
}

static void ignore_change(UNUSED struct approval *p, UNUSED void *arg)
{
}

bool ask_after_denial(const char *profile, const struct approval_action *action, const char *denials,
                      size_t omitted)
{
        struct approvals *approvals = NULL;
        const struct approvals_asker asker = { .ask = answer_at_once, .arg = &approvals };
        struct err err = ERR_INIT;

        approvals = approvals_new(APPROVAL_ON_FAILURE, profile, &asker, &err);
        if (!approvals) {
                fprintf(stderr, "farhand: the profile cannot be asked about: %s\n", err.text);
                return false;
        }
        struct approval *p = approval_new(approvals, action, ignore_change, NULL);
        if (approval_state(p) == APPROVAL_RUN) /* the run that was denied */
                approval_ran(p, true, denials, omitted);
        if (approval_state(p) == APPROVAL_LOOKING)
                approval_looked(p, action->real_paths);
        bool may_run = approval_state(p) == APPROVAL_RUN && !approval_permissions(p);
        approval_free(p);
        approvals_free(approvals);
        return may_run;
}
