/* decide: asks the rules, then the options, about the start of a program. */
#include "intercept/decide.h"

#include "rules/exec_heuristic.h"
#include "rules/exec_path.h"

const char *intercept_action_name(enum intercept_action action)
{
        static const char *const names[] = { "run", "escalate", "deny", "ask" };

        return names[action];
}

struct slice intercept_path(struct arena *a, const struct intercept_exec *exec)
{
        return exec_path_absolute(a, arena_dup(a, exec->cwd), exec->file);
}

/* Returns the verdict that the client is to be asked; or a denial, when the options say that nobody is asked. */
static struct intercept_verdict ask(const struct intercept_options *options, enum intercept_action accepted,
                                    const struct exec_rule *rule)
{
        if (options->on_prompt == INTERCEPT_PROMPT_DENY)
                return (struct intercept_verdict){ INTERCEPT_DENY, INTERCEPT_DENY, rule,
                                                   INTERCEPT_FORBIDDEN };
        return (struct intercept_verdict){ INTERCEPT_ASK, accepted, rule, NULL };
}

static struct intercept_verdict by_rule(const struct intercept_options *options, const struct exec_rule *rule)
{
        switch (rule->decision) {
        case EXEC_ALLOW:
                return (struct intercept_verdict){ INTERCEPT_ESCALATE, INTERCEPT_ESCALATE, rule, NULL };
        case EXEC_PROMPT:
                return ask(options, INTERCEPT_ESCALATE, rule);
        case EXEC_FORBIDDEN:
                break;
        }
        return (struct intercept_verdict){ INTERCEPT_DENY, INTERCEPT_DENY, rule, INTERCEPT_FORBIDDEN };
}

static struct intercept_verdict unmatched(const struct intercept_options *options, const struct slice *words,
                                          size_t count)
{
        bool is_asked = options->on_unmatched == INTERCEPT_UNMATCHED_ASK ||
                        (options->on_unmatched == INTERCEPT_UNMATCHED_HEURISTIC &&
                         exec_heuristic_decide(words, count) == EXEC_PROMPT);
        if (is_asked)
                return ask(options, INTERCEPT_RUN, NULL);
        return (struct intercept_verdict){ INTERCEPT_RUN, INTERCEPT_RUN, NULL, NULL };
}

void intercept_decide(const struct intercept_options *options, const struct exec_rules *rules,
                      struct arena *a, const struct intercept_exec *exec, struct intercept_verdict *ret)
{
        size_t count = MAX(exec->argc, (size_t)1);
        struct slice *words = arena_alloc(a, count * sizeof(*words));
        const struct exec_rule *strictest = NULL;
        struct exec_verdict v;

        words[0] = intercept_path(a, exec);
        for (size_t i = 1; i < count; i++)
                words[i] = exec->argv[i];
        const struct exec_command command = {
                .words = words,
                .count = count,
                .is_resolving = true,
                .is_resolving_always = options->names == INTERCEPT_BASE,
        };
        exec_rules_match(rules, a, &command, &v);
        for (size_t i = 0; i < v.count; i++)
                if (!strictest || v.matches[i]->decision > strictest->decision)
                        strictest = v.matches[i];
        *ret = strictest ? by_rule(options, strictest) : unmatched(options, words, count);
}
